package main

import (
	"context"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/api/client"
	"github.com/hostler/hostler/broker/cmd/hostler/render"
)

func decommissionCommand(a *app) *cobra.Command {
	c := noun("decommission", "turn nodes over between two tenants",
		"  hostler decommission start gpu-07 --mode soft_reset --reason 'allocation a-42 ended' --wait",
		decommissionStartCommand(a), decommissionBatchCommand(a), decommissionPlanCommand(a), decommissionListCommand(a),
		decommissionShowCommand(a), decommissionWatchCommand(a), decommissionFiguresCommand(a), decommissionAcceptCommand(a))
	for _, act := range decommissionActions {
		c.AddCommand(decommissions.command(a, act))
	}
	return c
}

var decommissions = runs[api.Decommission]{
	noun: "decommission", thing: "turnover", short: "did not complete",
	many: "--class agent_silent --stage drain_node --reason 'the switch was replaced'",
	heads: []render.Column{
		render.ID("ID"), render.Keep("HOSTNAME"), render.Main("MODE"), render.Keep("STATUS"), render.Main("STAGE"),
		render.More("SINCE"), render.Keep("CLASS"), render.Aside("CERTIFICATE"), render.Keep("NEXT"),
	},
	row: func(a *app, d api.Decommission) []string {
		return []string{
			d.DecommissionID, d.Hostname, d.Mode, d.Status, d.CurrentStage,
			render.Ago(sinceOf(d.RunState, d.RunTimes), a.now()), d.FailureClass, d.CertificateID, nextOf(d.RunState),
		}
	},
	look: func(d api.Decommission) runLook {
		return runLook{d.DecommissionID, d.Hostname, d.Status, d.CurrentStage, d.FailureClass, d.Asked}
	},
	list: func(ctx context.Context, remote *client.Client, f client.RunFilter) (runPage[api.Decommission], error) {
		return decommissionPageOf(remote.Decommissions(ctx, client.DecommissionFilter{RunFilter: f}))
	},
	show: func(ctx context.Context, remote *client.Client, id string) (api.Decommission, error) {
		d, err := remote.Decommission(ctx, id)
		return d.Decommission, err
	},
	act: func(ctx context.Context, remote *client.Client, id, action string, order api.RunOrder) (api.Decommission, error) {
		d, err := remote.ActOnDecommission(ctx, id, action, order)
		return *d, err
	},
	retry: func(ctx context.Context, remote *client.Client, batch, reason string) (retriedBatch[api.Decommission], error) {
		r, err := remote.RetryDecommissionBatch(ctx, batch, reason)
		if err != nil {
			return retriedBatch[api.Decommission]{}, err
		}
		out := retriedBatch[api.Decommission]{answer: r, continued: r.Continued, runs: r.Retried}
		for _, no := range r.Refused {
			out.refused = append(out.refused, refusedRun{no.DecommissionID, no.Code, no.Detail})
		}
		return out, nil
	},
	watch: (*app).watchDecommission,
}

func decommissionPageOf(l *api.DecommissionList, err error) (runPage[api.Decommission], error) {
	if err != nil {
		return runPage[api.Decommission]{}, err
	}
	return runPage[api.Decommission]{l, l.Items, l.Batch}, nil
}

// decommissionActions are the actions on a run. No action takes back what the run did to a tenant's
// state.
var decommissionActions = []runAction{
	{name: "retry", path: "retry", short: "retry the failed stage, with all its attempts", on: stoppedRuns},
	{name: "resume", path: "resume", short: "resume after the cause of the failure was fixed", on: stoppedRuns, overrides: true},
	{name: "rerun", path: "rerun", short: "run all stages again", on: stoppedRuns},
	{name: "restart-clean", path: "restart-clean", short: "quarantine the node, then start over", on: stoppedRuns},
	{
		name: "cancel", path: "cancel", short: "cancel the turnover; the node is quarantined, and still owes a turnover", on: "live",
		asks: "The node stays out of use until another turnover has been made.",
	},
	{name: "adopt", path: "adopt", short: "resume, and end with status reconciled", on: stoppedRuns},
	{
		name: "mark-manual", path: "mark-manual-intervention", short: "stop the run until an operator has looked at it",
		on: "pending,running,compensating",
	},
}

func decommissionListCommand(a *app) *cobra.Command {
	var f client.DecommissionFilter
	c := &cobra.Command{
		Use: "list", Short: "list turnovers, newest first", Args: exactly(),
		Example: "  hostler decommission list --node gpu-07\n  hostler decommission list --status failed -o json\n  hostler decommission list --batch 0198c2b4-7c11-7bd2-9a55-2f0c2f6a1b1d",
		RunE: func(c *cobra.Command, _ []string) error {
			remote, err := a.connect()
			if err != nil {
				return err
			}
			l, err := decommissionPageOf(remote.Decommissions(c.Context(), f))
			if err != nil {
				return err
			}
			return decommissions.printPage(a, l)
		},
	}
	c.Flags().StringVar(&f.Node, "node", "", "only turnovers of this `NODE`")
	c.Flags().StringVar(&f.Mode, "mode", "", "only turnovers of this mode")
	runFilter(c, &f.RunFilter)
	statusFilter(c, &f.RunFilter)
	return c
}

func decommissionShowCommand(a *app) *cobra.Command {
	var events bool
	c := &cobra.Command{
		Use: "show ID", Short: "show a turnover with its stages", Args: exactly("ID"),
		Example: "  hostler decommission show r-019f2c1a7b3k5x7e2q9d4 --events",
		RunE: func(c *cobra.Command, args []string) error {
			remote, err := a.connect()
			if err != nil {
				return err
			}
			d, err := remote.Decommission(c.Context(), args[0])
			if err != nil {
				return err
			}
			return a.show(d, []string{d.DecommissionID}, func(p *render.Page) { decommissionPage(a, p, d, events) })
		},
	}
	c.Flags().BoolVar(&events, "events", false, "also show its history")
	return c
}

func decommissionPage(a *app, p *render.Page, d *api.DecommissionDetail, events bool) {
	certificate := d.CertificateID
	switch {
	case certificate != "" && d.MeetsPolicy:
		certificate += ", meets the policy"
	case certificate != "":
		certificate += ", falls short: " + strings.Join(d.Shortfalls, ", ")
	}
	p.Fields("turnover", d.DecommissionID, "node", d.Hostname+" ("+d.NodeID+")", "site", d.Site, "batch", d.BatchID, "mode", d.Mode,
		"mode because", d.ModeBecause, "storage", d.StorageCleanup, "erase", d.Erase, "image", d.Image, "reason", d.Reason,
		"asked by", d.RequestedBy, "in place of", d.Follows, "in its place", d.FollowedBy, "asked", moment(a, d.RequestedAt),
		"status", d.Status, "stage", d.CurrentStage, "attempt", strconv.Itoa(d.CurrentAttempt), "direction", d.Direction,
		"waits for", d.Waiting, "asked for", d.Asked, "failure", d.FailureClass, "code", d.ErrorCode, "because", d.ErrorMessage,
		"next", d.RecommendedNextAction,
		"certificate", certificate, "ended", moment(a, d.CompletedAt))
	for _, w := range d.Warnings {
		p.Line("warning: " + w)
	}
	runStagesPage(a, p, d.Stages)
	if events {
		eventsPage(p, d.Events)
	}
}

// decommissionEnd is the error of a run that did not hand its node out again.
func decommissionEnd(d api.Decommission) error {
	return runEnd("turnover "+d.DecommissionID+" of "+d.Hostname, "decommission_cancelled", d.RunState)
}
