package main

import (
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/api/client"
	"github.com/hostler/hostler/broker/cmd/hostler/render"
)

// runAction is an operator's action on a run.
type runAction struct {
	name, path, short string
	on                string // the statuses covered by --all
	asks              string // the question before the action; empty: none
	overrides         bool   // the action may continue without a stage
}

const stoppedRuns = "failed_retryable,failed_manual_intervention"

// runAsk is one request for an action.
type runAsk struct {
	runAction
	filter           client.RunFilter
	all, wait        bool
	reason, override string
	timeout          time.Duration
}

// ofBatch reports a retry of the failed runs of a batch; the broker knows these runs.
func (q *runAsk) ofBatch() bool { return q.name == "retry" && q.filter.Batch != "" && !q.all }

// many reports that no single run is named.
func (q *runAsk) many() bool { return q.all || q.ofBatch() }

// wrong refuses flags that do not go together.
func (q *runAsk) wrong(c *cobra.Command, noun string) error {
	switch path := c.CommandPath(); {
	case q.ofBatch() && q.filter != (client.RunFilter{Batch: q.filter.Batch}):
		return usage("%s --batch retries all failed runs of the batch (to select some of them, add --all)", path)
	case q.many() && (q.wait || c.Flags().Changed("timeout")):
		return usage("%s can wait for one run only (for many runs, see hostler %s list or hostler events --follow)", path, noun)
	case q.many() && q.override != "":
		return usage("%s can skip a stage of one run only", path)
	case !q.many() && q.filter != (client.RunFilter{}):
		return usage("%s takes --site, --class, --stage and --batch only with --all", path)
	}
	return nil
}

// command is hostler NOUN ACTION.
func (k runs[R]) command(a *app, act runAction) *cobra.Command {
	q := runAsk{runAction: act}
	name := "hostler " + k.noun + " " + act.name
	c := &cobra.Command{
		Use: act.name + " ID", Short: act.short,
		Long: strings.ToUpper(act.short[:1]) + act.short[1:] + `.

With --all the action applies to every run that --site, --class, --stage and --batch
select: the runs are listed, and you confirm.`,
		Example: "  " + name + " r-019f2c1a7b3k5x7e2q9d4 --reason 'checked'\n  " + name + " --all --site dc1 " + k.many,
		Args: func(c *cobra.Command, args []string) error {
			if q.many() {
				return exactly()(c, args)
			}
			return exactly("ID")(c, args)
		},
	}
	c.RunE = func(c *cobra.Command, args []string) error {
		if err := q.wrong(c, k.noun); err != nil {
			return err
		}
		remote, err := a.connect()
		switch {
		case err != nil:
			return err
		case q.ofBatch():
			return k.retryBatch(a, c, remote, q)
		case q.all:
			return k.actOnAll(a, c, remote, q)
		}
		return k.actOnOne(a, c, remote, q, args[0])
	}
	runFilter(c, &q.filter)
	c.Flags().BoolVar(&q.all, "all", false, "act on every run that the filters select, after confirmation")
	if act.overrides {
		c.Flags().StringVar(&q.override, "override", "",
			"skip this `STAGE`, a drain or a cleanup; the certificate shows it as not done (platform_admin)")
	}
	reasonFlag(c, &q.reason)
	yesFlag(c)
	runWaitFlags(c, &q.wait, &q.timeout)
	return c
}

// commandForOne is hostler NOUN ACTION for a noun whose runs are acted on one by one.
func (k runs[R]) commandForOne(a *app, act runAction) *cobra.Command {
	q := runAsk{runAction: act}
	c := &cobra.Command{
		Use: act.name + " ID", Short: act.short, Args: exactly("ID"),
		Example: "  hostler " + k.noun + " " + act.name + " r-019f2c1a7b3k5x7e2q9d4 --reason 'checked'",
		RunE: func(c *cobra.Command, args []string) error {
			remote, err := a.connect()
			if err != nil {
				return err
			}
			return k.actOnOne(a, c, remote, q, args[0])
		},
	}
	reasonFlag(c, &q.reason)
	if act.asks != "" {
		yesFlag(c)
	}
	runWaitFlags(c, &q.wait, &q.timeout)
	return c
}

// orderFor makes an order that applies only while the run stands as it was shown.
func (q *runAsk) orderFor(r runLook) api.RunOrder {
	order := api.RunOrder{Reason: q.reason, Override: q.override}
	if slices.Contains(strings.Split(stoppedRuns, ","), r.status) {
		order.Stage, order.FailureClass = r.stage, r.class
	}
	return order
}

func (k runs[R]) actOnOne(a *app, c *cobra.Command, remote *client.Client, q runAsk, id string) error {
	r, err := k.show(c.Context(), remote, id)
	if err != nil {
		return err
	}
	was := k.look(r)
	asks := q.asks
	if asks != "" && k.asks != nil {
		asks = k.asks(r, q.runAction)
	}
	if asks != "" {
		if err := a.confirm(c, "%s the %s of %s (%s, at %s)? %s", q.name, k.thing, was.hostname, was.status, was.stage, asks); err != nil {
			return err
		}
	}
	now, err := k.act(c.Context(), remote, was.id, q.path, q.orderFor(was))
	if err != nil {
		return err
	}
	if q.wait {
		return k.watch(a, c.Context(), remote, was.id, q.timeout)
	}
	note := ""
	if k.look(now).asked != "" {
		note = "the action takes effect when the step in progress has ended (hostler " + k.noun + " watch " + was.id + ")"
	}
	return k.print(a, []R{now}, note)
}

// actOnAll lists the runs, and asks before it acts. If one run refuses, the others still get their
// turn.
func (k runs[R]) actOnAll(a *app, c *cobra.Command, remote *client.Client, q runAsk) error {
	if err := needReason(q.reason); err != nil {
		return err
	}
	q.filter.Status = q.on
	l, err := k.list(c.Context(), remote, q.filter)
	if err != nil {
		return err
	}
	list := l.runs
	if len(list) == 0 {
		return broker.Errorf(broker.NotFound, "run_not_found", "no %s matches the filters (see hostler %s list)", k.thing, k.noun)
	}
	if !saidYes(c) {
		page := a.newQuestion()
		_, rows := k.rows(a, list)
		page.Table(k.heads, rows)
		_, _ = page.WriteTo(a.err)
	}
	if err := a.confirm(c, "%s %s? %s", q.name, plural(len(list), k.thing), q.asks); err != nil {
		return err
	}
	done := []R{}
	var first error
	for _, r := range list {
		was := k.look(r)
		now, err := k.act(c.Context(), remote, was.id, q.path, q.orderFor(was))
		if err != nil {
			e := broker.AsError(err)
			a.note("%s (%s): %s: %s", was.id, was.hostname, e.Code, e.Message)
			first = errors.Join(first, err)
			continue
		}
		done = append(done, now)
	}
	ids, rows := k.rows(a, done)
	if err := a.show(done, ids, func(p *render.Page) { p.Table(k.heads, rows) }); err != nil || first == nil {
		return err
	}
	e := broker.AsError(first)
	return broker.Errorf(e.Kind, e.Code, "%d of %s were refused: %s", len(list)-len(done), plural(len(list), k.thing), e.Message)
}
