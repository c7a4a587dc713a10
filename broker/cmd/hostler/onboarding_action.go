package main

import (
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/adminapi/resource"
	"github.com/hostler/hostler/broker/cmd/hostler/client"
	"github.com/hostler/hostler/broker/cmd/hostler/render"
)

// onboardingAction is what an operator may do to a run.
type onboardingAction struct {
	name, path, short string
	on                string // statuses that --all means
	asks              string // what is asked before it; empty: nothing
}

const stoppedRuns = "failed_retryable,failed_manual_intervention"

var onboardingActions = []onboardingAction{
	{"retry", "retry", "try the stage again that failed, with all its attempts", stoppedRuns, ""},
	{"resume", "resume", "go on after what kept it was mended", stoppedRuns, ""},
	{"rerun", "rerun", "go through all stages again; what is there is adopted", stoppedRuns, ""},
	{"restart-clean", "restart-clean", "take everything back, then begin anew", stoppedRuns, "MAAS releases the machine, and what is installed on it is lost."},
	{"cancel", "cancel", "stop it, and take back what it did", "live", "Before the machine is deployed, it is released to MAAS; after that it is left deployed, and the node is quarantined."},
	{"adopt", "adopt", "accept what is there, and go on from it", stoppedRuns, ""},
	{"mark-manual", "mark-manual-intervention", "stop it until a person has looked", "pending,running,compensating", ""},
}

func onboardingActionCommand(a *app, act onboardingAction) *cobra.Command {
	var f client.OnboardingFilter
	var all, wait bool
	var reason string
	var timeout time.Duration
	c := &cobra.Command{
		Use: act.name + " ID", Short: act.short,
		Long: strings.ToUpper(act.short[:1]) + act.short[1:] + `. With --all it is done to every run
that --site, --class, --stage and --batch mean: they are listed, and you are asked.`,
		Example: "  hostler onboarding " + act.name + " r-019f2c1a7b3k5x7e2q9d4 --reason 'looked at it'\n  hostler onboarding " + act.name + " --all --site dc1 --class hardware_mismatch --stage configure_storage --reason 'disks fitted'",
		Args: func(c *cobra.Command, args []string) error {
			if all || act.name == "retry" && f.Batch != "" {
				return exactly()(c, args)
			}
			return exactly("ID")(c, args)
		},
	}
	c.RunE = func(c *cobra.Command, args []string) error {
		ofBatch := act.name == "retry" && f.Batch != "" && !all
		switch {
		case ofBatch && f != (client.OnboardingFilter{Batch: f.Batch}):
			return usage("%s --batch is for all that failed of it (for some of them, add --all)", c.CommandPath())
		case (all || ofBatch) && (wait || c.Flags().Changed("timeout")):
			return usage("%s waits for one run only (for many: hostler onboarding list, or hostler events --follow)", c.CommandPath())
		}
		api, err := a.connect()
		if err != nil {
			return err
		}
		if ofBatch {
			return a.retryBatch(c, api, f.Batch, reason)
		}
		if all {
			f.Status = act.on
			return a.actOnAll(c, api, act, f, reason)
		}
		if f != (client.OnboardingFilter{}) {
			return usage("%s takes --site, --class, --stage and --batch only with --all", c.CommandPath())
		}
		o, err := api.Onboarding(c.Context(), args[0])
		if err != nil {
			return err
		}
		if act.asks != "" {
			if err := a.confirm(c, "%s the onboarding of %s (%s, at %s)? %s", act.name, o.Hostname, o.Status, o.CurrentStage, act.asks); err != nil {
				return err
			}
		}
		now, err := api.ActOnOnboarding(c.Context(), o.OnboardingID, act.path, orderFor(o.Onboarding, reason))
		if err != nil {
			return err
		}
		if wait {
			return a.watchOnboarding(c.Context(), api, o.OnboardingID, timeout)
		}
		note := ""
		if now.Asked != "" {
			note = "it is done when the step in flight has ended (hostler onboarding watch " + o.OnboardingID + ")"
		}
		return a.showOnboardings([]resource.Onboarding{*now}, note)
	}
	onboardingFilter(c, &f)
	c.Flags().BoolVar(&all, "all", false, "every run that the filters mean, after asking")
	reasonFlag(c, &reason)
	yesFlag(c)
	onboardingWaitFlags(c, &wait, &timeout)
	return c
}

// orderFor is for a run that still stands as it was shown.
func orderFor(o resource.Onboarding, reason string) resource.RunOrder {
	order := resource.RunOrder{Reason: reason}
	if slices.Contains(strings.Split(stoppedRuns, ","), o.Status) {
		order.Stage, order.FailureClass = o.CurrentStage, o.FailureClass
	}
	return order
}

// actOnAll lists what it is about to do, and asks. One run's refusal does not keep
// the others from their turn.
func (a *app) actOnAll(c *cobra.Command, api *client.Client, act onboardingAction, f client.OnboardingFilter, reason string) error {
	if strings.TrimSpace(reason) == "" {
		return needReason(reason)
	}
	l, err := api.Onboardings(c.Context(), f)
	if err != nil {
		return err
	}
	if len(l.Items) == 0 {
		return broker.Errorf(broker.NotFound, "run_not_found", "no onboarding is meant by that (see hostler onboarding list)")
	}
	page := render.NewPage(false)
	_, rows := onboardingRows(a, l.Items)
	page.Table(onboardingHeads, rows)
	if !saidYes(c) {
		_, _ = page.WriteTo(a.err)
	}
	if err := a.confirm(c, "%s %s? %s", act.name, plural(len(l.Items), "onboarding"), act.asks); err != nil {
		return err
	}
	done := []resource.Onboarding{}
	var first error
	for _, o := range l.Items {
		now, err := api.ActOnOnboarding(c.Context(), o.OnboardingID, act.path, orderFor(o, reason))
		if err != nil {
			e := broker.AsError(err)
			a.note("%s (%s): %s: %s", o.OnboardingID, o.Hostname, e.Code, e.Message)
			first = errors.Join(first, err)
			continue
		}
		done = append(done, *now)
	}
	ids, rows := onboardingRows(a, done)
	if err := a.show(done, ids, func(p *render.Page) { p.Table(onboardingHeads, rows) }); err != nil || first == nil {
		return err
	}
	e := broker.AsError(first)
	return broker.Errorf(e.Kind, e.Code, "%d of %s were refused: %s", len(l.Items)-len(done), plural(len(l.Items), "onboarding"), e.Message)
}

// retryBatch is for the failed runs of a batch, and no others.
func (a *app) retryBatch(c *cobra.Command, api *client.Client, batch, reason string) error {
	r, err := api.RetryOnboardingBatch(c.Context(), batch, reason)
	if err != nil {
		return err
	}
	slices.SortStableFunc(r.Retried, func(x, y resource.Onboarding) int { return strings.Compare(x.Hostname, y.Hostname) })
	ids, rows := onboardingRows(a, r.Retried)
	if err := a.show(r, ids, func(p *render.Page) { p.Table(onboardingHeads, rows) }); err != nil {
		return err
	}
	if r.Continued {
		a.note("the batch had stopped, and begins runs again")
	}
	if len(r.Retried) == 0 && len(r.Refused) == 0 {
		a.note("no run of the batch has failed")
	}
	for _, no := range r.Refused {
		a.note("%s: %s: %s", no.OnboardingID, no.Code, no.Detail)
	}
	if len(r.Refused) > 0 {
		return broker.Errorf(broker.Refused, r.Refused[0].Code, "%s were refused: %s", plural(len(r.Refused), "run"), r.Refused[0].Detail)
	}
	return nil
}
