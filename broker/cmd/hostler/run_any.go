package main

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/api/client"
	"github.com/hostler/hostler/broker/cmd/hostler/render"
)

func runCommand(a *app) *cobra.Command {
	c := noun("run", "show runs of any kind, and act on them",
		"  hostler run list --node gpu-07\n  hostler run show r-019f2c1a7b3k5x7e2q9d4",
		runListCommand(a), runShowCommand(a), runWatchCommand(a))
	for _, act := range anyActions {
		c.AddCommand(anyRuns.commandForOne(a, act))
	}
	return c
}

// anyRuns are the runs of all kinds.
var anyRuns = runs[api.Run]{
	noun: "run", thing: "run",
	heads: []render.Column{
		render.ID("ID"), render.Main("KIND"), render.Keep("SUBJECT"), render.More("SITE"), render.Keep("STATUS"),
		render.Main("STAGE"), render.More("SINCE"), render.Keep("CLASS"), render.Keep("NEXT"),
	},
	row: func(a *app, r api.Run) []string {
		return []string{
			r.RunID, r.Kind, r.Subject, r.Site, r.Status, r.CurrentStage, render.Ago(sinceOf(r.RunState, r.RunTimes), a.now()),
			r.FailureClass, nextOf(r.RunState),
		}
	},
	look: func(r api.Run) runLook {
		return runLook{r.RunID, r.Subject, r.Status, r.CurrentStage, r.FailureClass, r.Asked}
	},
	show: func(ctx context.Context, remote *client.Client, id string) (api.Run, error) {
		d, err := remote.Run(ctx, id)
		return d.Run, err
	},
	act: func(ctx context.Context, remote *client.Client, id, action string, order api.RunOrder) (api.Run, error) {
		r, err := remote.ActOnRun(ctx, id, action, order)
		return *r, err
	},
	watch: (*app).watchAnyRun,
	asks:  nounQuestion,
}

// anyActions are the actions on a run of any kind.
var anyActions = []runAction{
	{name: "retry", path: "retry", short: "retry the failed stage, with all its attempts"},
	{name: "resume", path: "resume", short: "resume after the cause of the failure was fixed"},
	{name: "rerun", path: "rerun", short: "run all stages again; existing results are adopted"},
	{
		name: "restart-clean", path: "restart-clean", short: "start over; what is undone first depends on the kind of run",
		asks: "What the run has done is undone first.",
	},
	{
		name: "cancel", path: "cancel", short: "cancel the run; what is undone depends on the kind of run",
		asks: "The result for the node or machine depends on the run's kind and stage.",
	},
	{name: "adopt", path: "adopt", short: "accept the present state, and resume"},
	{name: "mark-manual", path: "mark-manual-intervention", short: "stop the run until an operator has looked at it"},
}

// actionsOfNoun are the actions of the nouns that serve one kind of run.
var actionsOfNoun = map[string][]runAction{
	"onboarding": onboardingActions, "decommission": decommissionActions,
	"node agent-lifecycle": agentActions,
}

// nounQuestion is the question of the action of the same name of the run's own noun. A run whose
// noun has no such action gets the question for any run.
func nounQuestion(r api.Run, act runAction) string {
	own := actionsOfNoun[broker.RunKindOf(r.Kind).Noun]
	if i := slices.IndexFunc(own, func(o runAction) bool { return o.name == act.name }); i >= 0 {
		return own[i].asks
	}
	return act.asks
}

func runListCommand(a *app) *cobra.Command {
	var f client.AnyRunFilter
	c := &cobra.Command{
		Use: "list", Short: "list runs of all kinds, newest first by id", Args: exactly(),
		Long: `List runs of all kinds by id, newest first. A run that another run started (the run
of a node in a rollout, the reimage that replaces a soft reset) stands directly
above that run, regardless of its start time.`,
		Example: "  hostler run list --status live\n  hostler run list --node gpu-07\n  hostler run list --kind node.decommission --status failed -o json",
		RunE: func(c *cobra.Command, _ []string) error {
			remote, err := a.connect()
			if err != nil {
				return err
			}
			l, err := remote.Runs(c.Context(), f)
			if err != nil {
				return err
			}
			if len(l.Items) == 0 && f.Kind != "" && broker.RunKindOf(f.Kind).Noun == "" {
				a.note("this release has no kind %q (it has %s)", f.Kind, strings.Join(runKindNames(), ", "))
			}
			return anyRuns.printPage(a, runPage[api.Run]{l, l.Items, l.Batch})
		},
	}
	c.Flags().StringVar(&f.Kind, "kind", "", "only runs of this `KIND`, with or without the part after the slash")
	c.Flags().StringVar(&f.Node, "node", "", "only runs of this `NODE`")
	runFilter(c, &f.RunFilter)
	statusFilter(c, &f.RunFilter)
	return c
}

func runKindNames() []string {
	var names []string
	for _, k := range broker.RunKinds {
		names = append(names, k.Name)
	}
	return names
}

func runShowCommand(a *app) *cobra.Command {
	var events bool
	c := &cobra.Command{
		Use: "show ID", Short: "show a run of any kind with its stages", Args: exactly("ID"),
		Long: `Show a run of any kind with its stages. The output names the command for runs of its
kind, which shows more.`,
		Example: "  hostler run show r-019f2c1a7b3k5x7e2q9d4 --events",
		RunE: func(c *cobra.Command, args []string) error {
			remote, err := a.connect()
			if err != nil {
				return err
			}
			d, err := remote.Run(c.Context(), args[0])
			if err != nil {
				return err
			}
			return a.show(d, []string{d.RunID}, func(p *render.Page) { anyRunPage(a, p, d, events) })
		},
	}
	c.Flags().BoolVar(&events, "events", false, "also show its history")
	return c
}

func runWatchCommand(a *app) *cobra.Command {
	return a.watchCommand(&cobra.Command{
		Short: "follow a run of any kind until it ends or needs an operator",
		Long: `Follow a run of any kind until it ends or needs an operator. The exit status is 0
only if the run completed. A turnover is followed as "hostler decommission watch"
follows it: into the reimage that replaces it.`,
		Example: "  hostler run watch r-019f2c1a7b3k5x7e2q9d4 --timeout 1h",
	}, (*app).watchAnyRun)
}

// watchAnyRun follows a run and shows it when it stops. A turnover is followed as its own noun
// follows it, since another run may begin in its place.
func (a *app) watchAnyRun(ctx context.Context, remote *client.Client, id string, timeout time.Duration) error {
	var kind broker.RunKind // without a noun until the first look
	turnover := a.turnoverLook(remote)
	look := func(ctx context.Context, id string) (*seenRun, error) {
		if kind.TurnsOver {
			return turnover(ctx, id)
		}
		d, err := remote.Run(ctx, id)
		if err != nil {
			return nil, err
		}
		if kind = broker.RunKindOf(d.Kind); kind.TurnsOver {
			return turnover(ctx, id)
		}
		return &seenRun{
			drawing: drawing{d.RunState, d.Subject, "", d.RequestedAt, d.Stages}, id: d.RunID, answer: d,
			page: func(p *render.Page) { anyRunPage(a, p, d, false) },
			end:  func() error { return runEnd("run "+d.RunID+" of "+d.Subject, "run_cancelled", d.RunState) },
		}, nil
	}
	beside := func(id string) string {
		switch {
		case kind.Noun == "": // no action is known to be right
			return ""
		case kind.OwnActions:
			return "hostler help " + kind.Noun
		}
		return "hostler run cancel " + id
	}
	return a.watchRun(ctx, id, timeout, watching{thing: "run", noun: "run", look: look, beside: beside})
}

func anyRunPage(a *app, p *render.Page, d *api.RunDetail, events bool) {
	command := broker.RunKindOf(d.Kind).Noun
	if command != "" {
		command = "hostler " + command
	}
	p.Fields("run", d.RunID, "kind", d.Kind, "command", command, "subject", d.Subject, "node", d.NodeID, "site", d.Site, "batch", d.BatchID,
		"asked by", d.RequestedBy, "asked", moment(a, d.RequestedAt),
		"status", d.Status, "stage", d.CurrentStage, "attempt", strconv.Itoa(d.CurrentAttempt), "direction", d.Direction,
		"waits for", d.Waiting, "asked for", d.Asked,
		"failure", d.FailureClass, "code", d.ErrorCode, "because", d.ErrorMessage, "next", d.RecommendedNextAction,
		"ended", moment(a, d.CompletedAt))
	runStagesPage(a, p, withoutUnusedDetours(d.Stages))
	if events {
		eventsPage(p, d.Events)
	}
}
