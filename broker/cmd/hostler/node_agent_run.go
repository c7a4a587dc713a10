package main

import (
	"context"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/api/client"
	"github.com/hostler/hostler/broker/cmd/hostler/render"
)

var agentRuns = runs[api.AgentLifecycleRun]{
	noun: "node agent-lifecycle", thing: "run",
	heads: []render.Column{
		render.ID("ID"), render.Keep("HOSTNAME"), render.More("MODE"), render.Aside("SCENARIO"),
		render.More("TARGET"), render.Keep("STATUS"), render.Main("STAGE"), render.More("SINCE"),
		render.Keep("CLASS"), render.Keep("NEXT"),
	},
	row: func(a *app, r api.AgentLifecycleRun) []string {
		return []string{
			r.RunID, r.Hostname, r.Mode, r.Scenario, r.TargetVersion, r.Status, r.CurrentStage,
			render.Ago(sinceOf(r.RunState, r.RunTimes), a.now()), r.FailureClass, nextOf(r.RunState),
		}
	},
	look: func(r api.AgentLifecycleRun) runLook {
		return runLook{r.RunID, r.Hostname, r.Status, r.CurrentStage, r.FailureClass, r.Asked}
	},
	list: func(ctx context.Context, remote *client.Client, f client.RunFilter) (runPage[api.AgentLifecycleRun], error) {
		return agentPageOf(remote.AgentRuns(ctx, "", f))
	},
	show: func(ctx context.Context, remote *client.Client, id string) (api.AgentLifecycleRun, error) {
		d, err := remote.AgentRun(ctx, id)
		return d.AgentLifecycleRun, err
	},
	act: func(ctx context.Context, remote *client.Client, id, action string, order api.RunOrder) (api.AgentLifecycleRun, error) {
		r, err := remote.ActOnAgentRun(ctx, id, action, order)
		return *r, err
	},
	watch: (*app).watchAgentRun,
}

func agentPageOf(l *api.AgentLifecycleRuns, err error) (runPage[api.AgentLifecycleRun], error) {
	if err != nil {
		return runPage[api.AgentLifecycleRun]{}, err
	}
	return runPage[api.AgentLifecycleRun]{answer: l, runs: l.Items}, nil
}

// agentActions are the actions on an agent run. A delivered version is put back by the node itself,
// or by another run.
var agentActions = []runAction{
	{name: "retry", path: "retry", short: "retry the failed stage, with all its attempts"},
	{name: "resume", path: "resume", short: "resume after the cause of the failure was fixed"},
	{name: "rerun", path: "rerun", short: "run all stages again"},
	{name: "cancel", path: "cancel", short: "cancel the run; a task that the agent has not taken yet is withdrawn"},
	{name: "adopt", path: "adopt", short: "resume, and end with status reconciled"},
	{name: "mark-manual", path: "mark-manual-intervention", short: "stop the run until an operator has looked at it"},
}

func agentStartCommand(a *app) *cobra.Command {
	var s api.AgentLifecycleStart
	var wait bool
	var timeout time.Duration
	c := &cobra.Command{
		Use: "start NODE", Short: "update or repair a node's agent", Args: exactly("NODE"),
		Long: `Update or repair a node's agent. Modes: with rebootstrap the agent updates itself,
and the run says what a person must do where the agent cannot; manual_install waits
for a person, and checks the result; reimage has MAAS install a fresh system.
Scenarios: bootstrap_install, in_place_upgrade, repair_reinstall,
certificate_repair, config_repair, drift_reconcile.

If somebody is on the node, --safety idle refuses the run, after_drain waits, and
forced works regardless (platform admin, with a reason). The run is complete when
the node reports the release, answers, has renewed its certificate, and is as fit
for a tenant as before.`,
		Example: "  hostler node agent-lifecycle start gpu-07 --scenario in_place_upgrade --wait\n  hostler node agent-lifecycle start gpu-07 --scenario certificate_repair\n  hostler node agent-lifecycle start gpu-07 --scenario in_place_upgrade --version 1.3.2 --allow-rollback --reason 'ticket 4711'",
		RunE: func(c *cobra.Command, args []string) error {
			if err := needsFlags(c, "scenario"); err != nil {
				return err
			}
			if s.Mode == string(broker.ByReimage) || s.SafetyPolicy == string(broker.Forced) || s.AllowRollback || s.Force {
				if err := needReason(s.Reason); err != nil {
					return err
				}
			}
			if s.Mode == string(broker.ByReimage) {
				if err := a.confirm(c, "reimage %s? All data on its disks is lost.", args[0]); err != nil {
					return err
				}
			}
			remote, err := a.connect()
			if err != nil {
				return err
			}
			r, err := remote.StartAgentRun(c.Context(), args[0], s)
			if err != nil {
				return err
			}
			if wait {
				return a.watchAgentRun(c.Context(), remote, r.RunID, timeout)
			}
			return agentRuns.print(a, []api.AgentLifecycleRun{*r},
				"the run continues by itself (hostler node agent-lifecycle watch "+r.RunID+")")
		},
	}
	c.Flags().StringVar(&s.Scenario, "scenario", "", "scenario: see above")
	c.Flags().StringVar(&s.Mode, "mode", "", "reimage, manual_install or rebootstrap (default: the node's own mode)")
	c.Flags().StringVar(&s.TargetVersion, "version", "", "`VERSION` to install (default: the node's wanted release)")
	c.Flags().StringVar(&s.SafetyPolicy, "safety", "idle", "idle, after_drain or forced")
	c.Flags().BoolVar(&s.AllowRollback, "allow-rollback", false, "allow a version below the floor (platform_admin)")
	c.Flags().BoolVar(&s.Force, "force", false, "allow a version that failed on this node before (platform_admin)")
	reasonFlag(c, &s.Reason)
	yesFlag(c)
	runWaitFlags(c, &wait, &timeout)
	return c
}

func agentRunsCommand(a *app) *cobra.Command {
	var f client.RunFilter
	var node string
	c := &cobra.Command{
		Use: "runs", Short: "list runs on agents, newest first", Args: exactly(),
		Example: "  hostler node agent-lifecycle runs --node gpu-07\n  hostler node agent-lifecycle runs --status failed -o json",
		RunE: func(c *cobra.Command, _ []string) error {
			remote, err := a.connect()
			if err != nil {
				return err
			}
			l, err := agentPageOf(remote.AgentRuns(c.Context(), node, f))
			if err != nil {
				return err
			}
			return agentRuns.printPage(a, l)
		},
	}
	c.Flags().StringVar(&node, "node", "", "only runs of this `NODE`")
	c.Flags().StringVar(&f.Site, "site", "", "only runs at this site")
	c.Flags().StringVar(&f.Class, "class", "", "only runs with a failure of this class")
	c.Flags().StringVar(&f.Stage, "stage", "", "only runs at this stage")
	statusFilter(c, &f)
	return c
}

func agentShowCommand(a *app) *cobra.Command {
	var events bool
	c := &cobra.Command{
		Use: "show ID", Short: "show a run on an agent with its stages", Args: exactly("ID"),
		Example: "  hostler node agent-lifecycle show r-019f2c1a7b3k5x7e2q9d4 --events",
		RunE: func(c *cobra.Command, args []string) error {
			remote, err := a.connect()
			if err != nil {
				return err
			}
			d, err := remote.AgentRun(c.Context(), args[0])
			if err != nil {
				return err
			}
			return a.show(d, []string{d.RunID}, func(p *render.Page) { agentRunPage(a, p, d, events) })
		},
	}
	c.Flags().BoolVar(&events, "events", false, "also show its history")
	return c
}

func agentRunPage(a *app, p *render.Page, d *api.AgentLifecycleDetail, events bool) {
	p.Fields("run", d.RunID, "node", d.Hostname+" ("+d.NodeID+")", "site", d.Site, "mode", d.Mode, "scenario", d.Scenario,
		"safety", d.SafetyPolicy, "from", d.FromVersion, "to", d.TargetVersion,
		"reason", d.Reason, "asked by", d.RequestedBy, "asked", moment(a, d.RequestedAt), "status", d.Status, "stage", d.CurrentStage,
		"attempt", strconv.Itoa(d.CurrentAttempt), "direction", d.Direction,
		"waits for", d.Waiting, "asked for", d.Asked, "turnover", d.TurnoverID, "failure", d.FailureClass, "code", d.ErrorCode,
		"because", d.ErrorMessage, "next", d.RecommendedNextAction,
		"ended", moment(a, d.CompletedAt))
	if i := d.Install; i != nil {
		p.Title("To install")
		p.Fields("version", i.Version, "package", i.PackageURL, "its sha-256", i.PackageSHA256, "release", i.ReleaseDigest,
			"program sha-256", i.ProgramSHA256)
	}
	runStagesPage(a, p, d.Stages)
	if events {
		eventsPage(p, d.Events)
	}
}

func agentWatchCommand(a *app) *cobra.Command {
	return a.watchCommand(&cobra.Command{
		Short:   "follow a run on an agent until it ends or needs an operator",
		Example: "  hostler node agent-lifecycle watch r-019f2c1a7b3k5x7e2q9d4 --timeout 1h",
	}, (*app).watchAgentRun)
}

// watchAgentRun follows a run and shows it when it stops.
func (a *app) watchAgentRun(ctx context.Context, remote *client.Client, id string, timeout time.Duration) error {
	return a.watchRun(ctx, id, timeout, watching{
		thing: "run", noun: "node agent-lifecycle",
		look: func(ctx context.Context, id string) (*seenRun, error) {
			d, err := remote.AgentRun(ctx, id)
			return &seenRun{
				drawing: drawing{d.RunState, d.Hostname, "", d.RequestedAt, d.Stages}, id: d.RunID, answer: d,
				page: func(p *render.Page) { agentRunPage(a, p, d, false) }, end: func() error { return agentRunEnd(d.AgentLifecycleRun) },
			}, err
		},
	})
}

// agentRunEnd is the error of a run that did not complete.
func agentRunEnd(r api.AgentLifecycleRun) error {
	return runEnd("run "+r.RunID+" on the agent of "+r.Hostname, "agent_lifecycle_cancelled", r.RunState)
}
