package main

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/api/client"
	"github.com/hostler/hostler/broker/cmd/hostler/render"
)

func rolloutCommand(a *app) *cobra.Command {
	c := noun("rollout", "roll out an agent release to many nodes, wave after wave",
		"  hostler rollout start --release 1.4.0 --nodes site=dc1\n  hostler rollout watch r-019f2c1a7b3k5x7e2q9d4",
		rolloutStartCommand(a), rolloutStatusCommand(a), rolloutListCommand(a), rolloutWatchCommand(a))
	for _, act := range rolloutActions {
		c.AddCommand(rolloutActionCommand(a, act))
	}
	return c
}

func rolloutStartCommand(a *app) *cobra.Command {
	var s api.RolloutStart
	var canary int
	var soak, timeout time.Duration
	var wait bool
	c := &cobra.Command{
		Use: "start --release V --nodes SELECTOR", Short: "start a rollout", Args: exactly(),
		Long: `Roll out an agent release to all nodes that a selector matches: all, NODE,NODE or
key=value,key=value over labels, facts, site and sku. Canaries go first, then wave
after wave. After each wave the nodes are watched for the soak time, and until all
of them are heard. A node is done when it reports the release, answers, has renewed
its certificate, and is as fit for a tenant as before. A node on which the release does
not start, or that is less fit with it, gets its previous release back where that is
possible: by its own watcher or by the rollout. If too many nodes fail, or one canary
fails, no more nodes start and the rollout stops for an operator; with
--on-failure rollback it then takes the release back from all nodes.

Nodes are left out that run the release or a newer one, are pinned to another one,
are of a channel that does not take it, or are in another rollout. With --safety
idle, nodes with somebody on them are skipped; with after_drain, the rollout waits
for them and continues with the others.`,
		Example: "  hostler rollout start --release 1.4.0 --nodes all --canary 2 --waves 10,50,100 --soak 30m --max-failures 3 --wait\n  hostler rollout start --release 1.4.0 --nodes gpu.vendor=nvidia --wave-by rack --safety after_drain\n  hostler rollout start --release 1.3.2 --nodes site=dc1 --allow-rollback --reason 'ticket 4711'",
		RunE: func(c *cobra.Command, _ []string) error {
			if err := needsFlags(c, "release", "nodes"); err != nil {
				return err
			}
			if s.SafetyPolicy == "forced" || s.AllowRollback || s.Force {
				if err := needReason(s.Reason); err != nil {
					return err
				}
			}
			if s.WaveBy != "" && !c.Flags().Changed("waves") {
				s.Waves = nil
			}
			seconds := int64(soak / time.Second)
			s.Canary, s.SoakSeconds = &canary, &seconds
			remote, err := a.connect()
			if err != nil {
				return err
			}
			r, err := remote.StartRollout(c.Context(), s)
			if err != nil {
				return err
			}
			if wait {
				return a.watchRollout(c.Context(), remote, r.RolloutID, timeout)
			}
			if err := a.show(r, []string{r.RolloutID}, func(p *render.Page) { rolloutPage(a, p, *r) }); err != nil {
				return err
			}
			a.note("the rollout continues by itself (hostler rollout watch %s)", r.RolloutID)
			return nil
		},
	}
	f := c.Flags()
	f.StringVar(&s.Release, "release", "", "`VERSION` to install")
	f.StringVar(&s.Selector, "nodes", "", "`SELECTOR` of the nodes")
	f.IntVar(&canary, "canary", 1, "number of nodes that go first; nodes with nobody on them are chosen")
	f.IntSliceVar(&s.Waves, "waves", []int{10, 50, 100}, "share of all nodes up to and including each wave, in percent")
	f.StringVar(&s.WaveBy, "wave-by", "", "instead of shares: one wave for each value of this `LABEL` or fact, or of site or region")
	f.IntVar(&s.Concurrency, "concurrency", 10, "number of nodes in progress at a time")
	f.DurationVar(&soak, "soak", 10*time.Minute, "how long nodes are watched after each wave")
	f.IntVar(&s.MaxFailures, "max-failures", 1, "number of failed nodes that stops the rollout")
	f.StringVar(&s.OnFailure, "on-failure", "pause", "pause, or rollback")
	f.StringVar(&s.SafetyPolicy, "safety", "idle", "idle, after_drain or forced (platform_admin)")
	f.BoolVar(&s.AllowRollback, "allow-rollback", false, "allow a version below the floor, or older than what nodes run (platform_admin)")
	f.BoolVar(&s.Force, "force", false, "include nodes on which the version failed before (platform_admin)")
	reasonFlag(c, &s.Reason)
	runWaitFlags(c, &wait, &timeout)
	return c
}

func rolloutListCommand(a *app) *cobra.Command {
	var f client.RunFilter
	c := &cobra.Command{
		Use: "list", Short: "list rollouts, newest first", Args: exactly(),
		Example: "  hostler rollout list\n  hostler rollout list --status live -o json",
		RunE: func(c *cobra.Command, _ []string) error {
			remote, err := a.connect()
			if err != nil {
				return err
			}
			l, err := remote.Rollouts(c.Context(), f)
			if err != nil {
				return err
			}
			slices.Reverse(l.Items)
			ids, rows := []string{}, [][]string{}
			for _, r := range l.Items {
				ids = append(ids, r.RolloutID)
				rows = append(rows, []string{
					r.RolloutID, r.Release, r.Selector, r.Status, r.CurrentStage,
					membersLine(r.Members, r.Counts, 0), render.Ago(r.RequestedAt, a.now()), r.RequestedBy,
				})
			}
			return a.show(l, ids, func(p *render.Page) {
				p.Table([]render.Column{
					render.ID("ID"), render.Main("RELEASE"), render.More("NODES"), render.Keep("STATUS"), render.Keep("STAGE"),
					render.Keep("MEMBERS"), render.Aside("ASKED"), render.Aside("BY"),
				}, rows)
				if len(rows) == 0 {
					a.note("no rollouts (hostler rollout start)")
				}
			})
		},
	}
	c.Flags().StringVar(&f.Site, "site", "", "only rollouts of this site")
	statusFilter(c, &f)
	return c
}

func rolloutStatusCommand(a *app) *cobra.Command {
	var all, events bool
	c := &cobra.Command{
		Use: "status [ID]", Short: "show a rollout with its waves; the newest without an ID",
		Long: `Show a rollout with its waves, and the nodes that are in progress, failed or were
skipped. Without an ID the newest rollout is shown.`,
		Args:    cobra.MaximumNArgs(1),
		Example: "  hostler rollout status\n  hostler rollout status r-019f2c1a7b3k5x7e2q9d4 --all",
		RunE: func(c *cobra.Command, args []string) error {
			remote, err := a.connect()
			if err != nil {
				return err
			}
			if len(args) == 0 {
				l, err := remote.Rollouts(c.Context(), client.RunFilter{})
				if err != nil {
					return err
				}
				if len(l.Items) == 0 {
					a.note("no rollouts (hostler rollout start)")
					return nil
				}
				args = []string{l.Items[len(l.Items)-1].RolloutID}
			}
			d, err := remote.Rollout(c.Context(), args[0], false)
			if err != nil {
				return err
			}
			return a.show(d, []string{d.RolloutID}, func(p *render.Page) {
				rolloutPage(a, p, d.Rollout)
				nodesPage(p, d.Nodes, all)
				if events {
					eventsPage(p, d.Events)
				}
			})
		},
	}
	c.Flags().BoolVar(&all, "all", false, "also show nodes that are done or have not started")
	c.Flags().BoolVar(&events, "events", false, "also show its history")
	return c
}

func rolloutPage(a *app, p *render.Page, r api.Rollout) {
	p.Fields("rollout", r.RolloutID, "release", r.Release, "digest", r.ReleaseDigest, "nodes", r.Selector, "site", r.Site,
		"at a time", strconv.Itoa(r.Concurrency),
		"soak", render.Span(time.Duration(r.SoakSeconds)*time.Second), "stops at", strconv.Itoa(r.MaxFailures)+" failed, then "+r.OnFailure,
		"safety", r.SafetyPolicy,
		"reason", r.Reason, "asked by", r.RequestedBy, "asked", moment(a, r.RequestedAt), "status", r.Status, "stage", r.CurrentStage,
		"waits for", r.Waiting, "asked for", r.Asked,
		"failure", r.FailureClass, "code", r.ErrorCode, "because", r.ErrorMessage, "next", r.RecommendedNextAction,
		"ended", moment(a, r.CompletedAt))
	p.Title("Waves")
	rows := [][]string{}
	for _, w := range r.Waves {
		rows = append(rows, []string{w.Name, w.State, membersLine(w.Members, w.Counts, w.Parked)})
	}
	p.Table(render.Kept("WAVE", "STATE", "NODES"), rows)
	if len(r.LeftOut) > 0 {
		p.Title("Left out")
		rows = nil
		for _, l := range r.LeftOut {
			names := l.Nodes
			if l.Count > len(names) {
				names = append(slices.Clone(names), "…")
			}
			rows = append(rows, []string{strconv.Itoa(l.Count), l.Code, l.Why, strings.Join(names, ", ")})
		}
		p.Table([]render.Column{render.Keep("NODES"), render.Keep("CODE"), render.Keep("WHY"), render.Main("WHICH")}, rows)
	}
}

func nodesPage(p *render.Page, all []api.RolloutMember, whole bool) {
	rows := [][]string{}
	for _, m := range all {
		if !whole && (m.Result == "done" || m.Result == "waiting") {
			continue
		}
		why := m.Why
		if m.NotBack != "" {
			why += " (not taken back: " + m.NotBack + ")"
		}
		if m.Stage != "" {
			why = m.Stage
			if m.Waiting != "" {
				why += ": " + m.Waiting
			}
		}
		rows = append(rows, []string{m.Hostname, m.Wave, m.Result, m.Code, m.FromVersion, why, m.RunID})
	}
	if len(rows) > 0 {
		p.Title("Nodes")
		p.Table([]render.Column{
			render.Keep("HOSTNAME"), render.More("WAVE"), render.Keep("RESULT"), render.Keep("CODE"),
			render.Aside("FROM"), render.Keep("WHY"), render.ID("RUN"),
		}, rows)
	}
}

// rolloutActions are an operator's actions on a rollout.
var rolloutActions = []runAction{
	{name: "pause", path: "pause", short: "start no more nodes; the rollout stops when the nodes in progress have ended"},
	{name: "resume", path: "resume", short: "resume; earlier failures no longer count"},
	{name: "abort", path: "abort", short: "end the rollout; updated nodes keep the release"},
}

func rolloutActionCommand(a *app, act runAction) *cobra.Command {
	var o api.RolloutOrder
	c := &cobra.Command{
		Use: act.name + " ID", Short: act.short, Args: exactly("ID"),
		Example: "  hostler rollout " + act.name + " r-019f2c1a7b3k5x7e2q9d4 --reason 'ticket 4711'",
		RunE: func(c *cobra.Command, args []string) error {
			if act.name != "resume" {
				if err := needReason(o.Reason); err != nil {
					return err
				}
			}
			remote, err := a.connect()
			if err != nil {
				return err
			}
			r, err := remote.ActOnRollout(c.Context(), args[0], act.path, o)
			if err != nil {
				return err
			}
			return a.show(r, []string{r.RolloutID}, func(p *render.Page) { rolloutPage(a, p, *r) })
		},
	}
	if act.name == "resume" {
		c.Flags().BoolVar(&o.RetryFailed, "retry-failed", false, "retry nodes that failed or were skipped (platform_admin)")
	}
	reasonFlag(c, &o.Reason)
	return c
}
