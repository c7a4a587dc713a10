package main

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/hostler/hostler/broker/adminapi/resource"
	"github.com/hostler/hostler/broker/cmd/hostler/client"
	"github.com/hostler/hostler/broker/cmd/hostler/render"
)

func onboardingCommand(a *app) *cobra.Command {
	c := noun("onboarding", "bring machines from their BMC to active nodes", "  hostler onboarding start --site dc1 --hostname c07u43 --ipmi-ip 10.176.16.128 --sku mi300x.192g.8gpu --wait",
		onboardingStartCommand(a), onboardingBatchCommand(a), onboardingPlanCommand(a),
		onboardingListCommand(a), onboardingShowCommand(a), onboardingWatchCommand(a))
	for _, act := range onboardingActions {
		c.AddCommand(onboardingActionCommand(a, act))
	}
	return c
}

var onboardingHeads = []string{"ID", "HOSTNAME", "SITE", "STATUS", "STAGE", "SINCE", "CLASS", "MAAS", "NEXT"}

func onboardingRows(a *app, list []resource.Onboarding) (ids []string, rows [][]string) {
	for _, o := range list {
		ids = append(ids, o.OnboardingID)
		rows = append(rows, []string{o.OnboardingID, o.Hostname, o.Site, o.Status, o.CurrentStage, render.Ago(since(o), a.now()), o.FailureClass, o.LastObserved.MAASStatus, nextOf(o)})
	}
	return ids, rows
}

// since is when what a run does now began.
func since(o resource.Onboarding) time.Time {
	switch {
	case o.Ended:
		return o.CompletedAt
	case !o.StageEnteredAt.IsZero():
		return o.StageEnteredAt
	}
	return o.RequestedAt
}

// nextOf is what a person would want to know next.
func nextOf(o resource.Onboarding) string {
	if o.RecommendedNextAction != "" {
		return o.RecommendedNextAction
	}
	return o.Waiting
}

func onboardingListCommand(a *app) *cobra.Command {
	var f client.OnboardingFilter
	c := &cobra.Command{
		Use: "list", Short: "list onboardings, newest first", Args: exactly(),
		Example: "  hostler onboarding list --site dc1 --status live\n  hostler onboarding list --class hardware_mismatch -o json",
		RunE: func(c *cobra.Command, _ []string) error {
			api, err := a.connect()
			if err != nil {
				return err
			}
			l, err := api.Onboardings(c.Context(), f)
			if err != nil {
				return err
			}
			slices.Reverse(l.Items)
			ids, rows := onboardingRows(a, l.Items)
			return a.show(l, ids, func(p *render.Page) {
				if b := l.Batch; b != nil {
					p.Fields("batch", b.BatchID, "site", b.Site, "asked by", b.RequestedBy, "asked", moment(a, b.RequestedAt), "at a time", strconv.Itoa(b.Parallel),
						"runs", countsOf(b), "stopped", moment(a, b.StoppedAt), "because", b.StopReason)
					p.Blank()
				}
				p.Table(onboardingHeads, rows)
				if len(rows) == 0 {
					a.note("no onboardings")
				}
			})
		},
	}
	onboardingFilter(c, &f)
	c.Flags().StringVar(&f.Status, "status", "", "only of this status, or of several joined by commas; live: not ended")
	c.Flags().StringVar(&f.Hostname, "hostname", "", "only of this host")
	return c
}

func onboardingFilter(c *cobra.Command, f *client.OnboardingFilter) {
	c.Flags().StringVar(&f.Site, "site", "", "only at this site")
	c.Flags().StringVar(&f.Class, "class", "", "only those with a failure of this class")
	c.Flags().StringVar(&f.Stage, "stage", "", "only those at this stage")
	c.Flags().StringVar(&f.Batch, "batch", "", "only those of this batch")
}

// countsOf is how many runs of a batch are in which status.
func countsOf(b *resource.OnboardingBatchState) string {
	var words []string
	for _, status := range onboardingStatuses {
		if n := b.Counts[status]; n > 0 {
			words = append(words, strconv.FormatInt(n, 10)+" "+status)
		}
	}
	return strings.Join(words, ", ")
}

var onboardingStatuses = []string{"pending", "running", "compensating", "failed_retryable", "failed_manual_intervention", "completed", "reconciled", "cancelled"}

func onboardingShowCommand(a *app) *cobra.Command {
	var events bool
	c := &cobra.Command{
		Use: "show ID", Short: "show an onboarding with its stages", Args: exactly("ID"),
		Example: "  hostler onboarding show r-019f2c1a7b3k5x7e2q9d4\n  hostler onboarding show r-019f2c1a7b3k5x7e2q9d4 --events",
		RunE: func(c *cobra.Command, args []string) error {
			api, err := a.connect()
			if err != nil {
				return err
			}
			o, err := api.Onboarding(c.Context(), args[0])
			if err != nil {
				return err
			}
			return a.show(o, []string{o.OnboardingID}, func(p *render.Page) { onboardingPage(a, p, o, events) })
		},
	}
	c.Flags().BoolVar(&events, "events", false, "with its history")
	return c
}

func onboardingPage(a *app, p *render.Page, o *resource.OnboardingDetail, events bool) {
	seen := o.LastObserved
	p.Fields("onboarding", o.OnboardingID, "kind", o.Kind, "batch", orDash(o.BatchID), "hostname", o.Hostname, "bmc", o.IPMIIP, "site", o.Site, "profile", o.Profile, "sku", o.SKUID,
		"node", orDash(o.NodeID), "maas system", orDash(o.MAASSystemID), "asked by", o.RequestedBy, "asked", moment(a, o.RequestedAt),
		"status", o.Status, "stage", o.CurrentStage, "attempt", strconv.Itoa(o.CurrentAttempt), "direction", o.Direction, "waits for", o.Waiting, "asked for", o.Asked,
		"failure", o.FailureClass, "code", o.ErrorCode, "because", o.ErrorMessage, "next", o.RecommendedNextAction,
		"maas says", strings.Trim(seen.MAASStatus+", power "+seen.PowerState, ", "), "addresses", strings.Join(seen.IPAddresses, ", "), "seen", moment(a, seen.ObservedAt),
		"ended", moment(a, o.CompletedAt))
	for _, w := range o.Warnings {
		p.Line("warning: " + w)
	}
	p.Title("Stages")
	rows := [][]string{}
	for _, s := range o.Stages {
		if s.Rescues == "" || s.Attempt > 0 {
			rows = append(rows, []string{s.Stage, s.Status, count(int64(s.Attempt)), stageTook(s, a.now()), s.Message})
		}
	}
	p.Table([]string{"STAGE", "STATUS", "ATTEMPT", "TOOK", "MESSAGE"}, rows)
	if !events {
		return
	}
	rows = nil
	for _, e := range o.Events {
		rows = append(rows, []string{render.Time(e.OccurredAt), e.Stage, e.Direction, strconv.Itoa(e.Attempt), e.Status, e.Message})
	}
	p.Title("Events")
	p.Table([]string{"AT", "STAGE", "DIRECTION", "ATTEMPT", "STATUS", "MESSAGE"}, rows)
}

func orDash(s *string) string {
	if s == nil {
		return "-"
	}
	return *s
}

// stageTook is how long the last attempt of a stage took, or takes.
func stageTook(s resource.OnboardingStage, now time.Time) string {
	switch {
	case s.StartedAt.IsZero():
		return ""
	case s.EndedAt.IsZero() && s.Status != "running":
		return ""
	case s.EndedAt.IsZero():
		return render.Span(max(now.Sub(s.StartedAt), 0))
	}
	return render.Span(s.EndedAt.Sub(s.StartedAt))
}
