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

func onboardingCommand(a *app) *cobra.Command {
	c := noun("onboarding", "bring machines from their BMC to active nodes",
		"  hostler onboarding start --site dc1 --hostname c07u43 --ipmi-ip 10.176.16.128 --sku mi300x.192g.8gpu --wait",
		onboardingStartCommand(a), onboardingBatchCommand(a), onboardingPlanCommand(a),
		onboardingListCommand(a), onboardingShowCommand(a), onboardingWatchCommand(a))
	for _, act := range onboardingActions {
		c.AddCommand(onboardings.command(a, act))
	}
	return c
}

var onboardings = runs[api.Onboarding]{
	noun: "onboarding", thing: "onboarding", short: "made no active node",
	many: "--class hardware_mismatch --stage configure_storage --reason 'disks fitted'",
	heads: []render.Column{
		render.ID("ID"), render.Keep("HOSTNAME"), render.More("SITE"), render.Keep("STATUS"), render.Main("STAGE"),
		render.More("SINCE"), render.Keep("CLASS"), render.Aside("MAAS"), render.Keep("NEXT"),
	},
	row: func(a *app, o api.Onboarding) []string {
		return []string{
			o.OnboardingID, o.Hostname, o.Site, o.Status, o.CurrentStage, render.Ago(sinceOf(o.RunState, o.RunTimes), a.now()),
			o.FailureClass, o.LastObserved.MAASStatus, nextOf(o.RunState),
		}
	},
	look: func(o api.Onboarding) runLook {
		return runLook{o.OnboardingID, o.Hostname, o.Status, o.CurrentStage, o.FailureClass, o.Asked}
	},
	list: func(ctx context.Context, remote *client.Client, f client.RunFilter) (runPage[api.Onboarding], error) {
		return onboardingPageOf(remote.Onboardings(ctx, client.OnboardingFilter{RunFilter: f}))
	},
	show: func(ctx context.Context, remote *client.Client, id string) (api.Onboarding, error) {
		o, err := remote.Onboarding(ctx, id)
		return o.Onboarding, err
	},
	act: func(ctx context.Context, remote *client.Client, id, action string, order api.RunOrder) (api.Onboarding, error) {
		o, err := remote.ActOnOnboarding(ctx, id, action, order)
		return *o, err
	},
	retry: func(ctx context.Context, remote *client.Client, batch, reason string) (retriedBatch[api.Onboarding], error) {
		r, err := remote.RetryOnboardingBatch(ctx, batch, reason)
		if err != nil {
			return retriedBatch[api.Onboarding]{}, err
		}
		out := retriedBatch[api.Onboarding]{answer: r, continued: r.Continued, runs: r.Retried}
		for _, no := range r.Refused {
			out.refused = append(out.refused, refusedRun{no.OnboardingID, no.Code, no.Detail})
		}
		return out, nil
	},
	watch: (*app).watchOnboarding,
}

func onboardingPageOf(l *api.OnboardingList, err error) (runPage[api.Onboarding], error) {
	if err != nil {
		return runPage[api.Onboarding]{}, err
	}
	return runPage[api.Onboarding]{l, l.Items, l.Batch}, nil
}

var onboardingActions = []runAction{
	{name: "retry", path: "retry", short: "retry the failed stage, with all its attempts", on: stoppedRuns},
	{name: "resume", path: "resume", short: "resume after the cause of the failure was fixed", on: stoppedRuns},
	{name: "rerun", path: "rerun", short: "run all stages again; existing results are adopted", on: stoppedRuns},
	{
		name: "restart-clean", path: "restart-clean", short: "undo everything, then start over", on: stoppedRuns,
		asks: "MAAS releases the machine, and what is installed on it is lost.",
	},
	{
		name: "cancel", path: "cancel", short: "cancel the onboarding, and undo what it did", on: "live",
		asks: "Before the machine is deployed, it is released to MAAS; after that it is left deployed, and the node is quarantined.",
	},
	{name: "adopt", path: "adopt", short: "accept the present state, and resume", on: stoppedRuns},
	{
		name: "mark-manual", path: "mark-manual-intervention", short: "stop the run until an operator has looked at it",
		on: "pending,running,compensating",
	},
}

func onboardingListCommand(a *app) *cobra.Command {
	var f client.OnboardingFilter
	c := &cobra.Command{
		Use: "list", Short: "list onboardings, newest first", Args: exactly(),
		Example: "  hostler onboarding list --site dc1 --status live\n  hostler onboarding list --class hardware_mismatch -o json",
		RunE: func(c *cobra.Command, _ []string) error {
			remote, err := a.connect()
			if err != nil {
				return err
			}
			l, err := onboardingPageOf(remote.Onboardings(c.Context(), f))
			if err != nil {
				return err
			}
			return onboardings.printPage(a, l)
		},
	}
	runFilter(c, &f.RunFilter)
	statusFilter(c, &f.RunFilter)
	c.Flags().StringVar(&f.Hostname, "hostname", "", "only onboardings of this host")
	return c
}

func onboardingShowCommand(a *app) *cobra.Command {
	var events bool
	c := &cobra.Command{
		Use: "show ID", Short: "show an onboarding with its stages", Args: exactly("ID"),
		Example: "  hostler onboarding show r-019f2c1a7b3k5x7e2q9d4\n  hostler onboarding show r-019f2c1a7b3k5x7e2q9d4 --events",
		RunE: func(c *cobra.Command, args []string) error {
			remote, err := a.connect()
			if err != nil {
				return err
			}
			o, err := remote.Onboarding(c.Context(), args[0])
			if err != nil {
				return err
			}
			return a.show(o, []string{o.OnboardingID}, func(p *render.Page) { onboardingPage(a, p, o, events) })
		},
	}
	c.Flags().BoolVar(&events, "events", false, "also show its history")
	return c
}

func onboardingPage(a *app, p *render.Page, o *api.OnboardingDetail, events bool) {
	seen := o.LastObserved
	p.Fields("onboarding", o.OnboardingID, "kind", o.Kind, "batch", orDash(o.BatchID), "hostname", o.Hostname, "bmc", o.IPMIIP,
		"site", o.Site, "profile", o.Profile, "sku", o.SKUID,
		"node", orDash(o.NodeID), "maas system", orDash(o.MAASSystemID), "asked by", o.RequestedBy, "asked", moment(a, o.RequestedAt),
		"status", o.Status, "stage", o.CurrentStage, "attempt", strconv.Itoa(o.CurrentAttempt), "direction", o.Direction,
		"waits for", o.Waiting, "asked for", o.Asked,
		"failure", o.FailureClass, "code", o.ErrorCode, "because", o.ErrorMessage, "next", o.RecommendedNextAction,
		"maas says", strings.Trim(seen.MAASStatus+", power "+seen.PowerState, ", "), "addresses", strings.Join(seen.IPAddresses, ", "),
		"seen", moment(a, seen.ObservedAt),
		"ended", moment(a, o.CompletedAt))
	for _, w := range o.Warnings {
		p.Line("warning: " + w)
	}
	runStagesPage(a, p, withoutUnusedDetours(o.Stages))
	if events {
		eventsPage(p, o.Events)
	}
}

// onboardingEnd is the error of a run that did not make an active node.
func onboardingEnd(o api.Onboarding) error {
	return runEnd("onboarding "+o.OnboardingID+" of "+o.Hostname, "onboarding_cancelled", o.RunState)
}

func orDash(s *string) string {
	if s == nil {
		return "-"
	}
	return *s
}
