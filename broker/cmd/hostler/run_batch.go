package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/api/client"
	"github.com/hostler/hostler/broker/cmd/hostler/render"
)

// retriedBatch is the result of a batch's retry.
type retriedBatch[R any] struct {
	answer    any // as the API gave it
	continued bool
	runs      []R
	refused   []refusedRun
}

// refusedRun is a run that the retry left as it is.
type refusedRun struct{ id, code, detail string }

// retryBatch retries the failed runs of a batch, and no others.
func (k runs[R]) retryBatch(a *app, c *cobra.Command, remote *client.Client, q runAsk) error {
	did, err := k.retry(c.Context(), remote, q.filter.Batch, q.reason)
	if err != nil {
		return err
	}
	slices.SortStableFunc(did.runs, func(x, y R) int { return strings.Compare(k.look(x).hostname, k.look(y).hostname) })
	ids, rows := k.rows(a, did.runs)
	if err := a.show(did.answer, ids, func(p *render.Page) { p.Table(k.heads, rows) }); err != nil {
		return err
	}
	if did.continued {
		a.note("the batch had stopped, and starts runs again")
	}
	if len(did.runs) == 0 && len(did.refused) == 0 {
		a.note("no run of the batch has failed")
	}
	for _, no := range did.refused {
		a.note("%s: %s: %s", no.id, no.code, no.detail)
	}
	if len(did.refused) > 0 {
		return broker.Errorf(broker.Refused, did.refused[0].code, "%s were refused: %s", plural(len(did.refused), "run"),
			did.refused[0].detail)
	}
	return nil
}

// startedBatch shows a new batch, or follows it.
func (k runs[R]) startedBatch(
	a *app, ctx context.Context, remote *client.Client, answer any, id string, rows [][]string, wait bool, timeout time.Duration,
) error {
	if wait {
		return k.watchBatch(a, ctx, remote, id, timeout)
	}
	ids := []string{}
	for _, r := range rows {
		ids = append(ids, r[0])
	}
	if err := a.show(answer, ids, func(p *render.Page) {
		p.Fields("batch", id)
		p.Blank()
		p.Table([]render.Column{render.ID("ID"), render.Keep("HOSTNAME")}, rows)
	}); err != nil {
		return err
	}
	a.note("the runs continue by themselves (hostler %s list --batch %s)", k.noun, id)
	return nil
}

// watchBatch follows the runs of a batch until none moves by itself.
func (k runs[R]) watchBatch(a *app, ctx context.Context, remote *client.Client, id string, timeout time.Duration) error {
	waiting, cancel := within(ctx, timeout)
	defer cancel()
	p := a.progress()
	defer p.done()
	for {
		l, err := k.list(waiting, remote, client.RunFilter{Batch: id})
		switch {
		case waiting.Err() != nil && ctx.Err() == nil:
			return timedOut("batch %s has not ended after %s (it continues: hostler %s list --batch %s)", id, timeout, k.noun, id)
		case ctx.Err() != nil:
			return broker.Errorf(broker.Internal, "interrupted", "stopped watching batch %s (it continues: hostler %s list --batch %s)", id,
				k.noun, id)
		case err != nil:
			return err
		}
		p.say(k.standing(l))
		if moving(l.batch) == 0 {
			p.done()
			ids, rows := k.rows(a, l.runs)
			if err := a.show(l.answer, ids, func(pg *render.Page) { pg.Table(k.heads, rows) }); err != nil {
				return err
			}
			return k.batchEnd(l.batch, len(l.runs))
		}
		pause(waiting, 2*tick)
	}
}

// standing describes how far a batch is: its runs by status, and the moving runs by stage. The mark
// changes with the counts and with the stages, but not with the number of runs at a stage, which
// would be a line for each step of each run.
func (k runs[R]) standing(l runPage[R]) (mark, text string) {
	at := map[string]int{}
	for _, r := range l.runs {
		if s := k.look(r); s.stage != "" && (s.status == "running" || s.status == "compensating") {
			at[s.stage]++
		}
	}
	stages := slices.Sorted(maps.Keys(at))
	text = countsOf(l.batch)
	mark = text + "|" + strings.Join(stages, ",")
	slices.SortStableFunc(stages, func(x, y string) int { return at[y] - at[x] })
	for i, stage := range stages {
		stages[i] = fmt.Sprintf("%d %s", at[stage], stage)
	}
	if len(stages) > 0 {
		text += "; at " + strings.Join(stages, ", ")
	}
	return mark, text
}

// moving is the number of a batch's runs that move by themselves. In a stopped batch the pending
// runs do not.
func moving(b *api.BatchState) int64 {
	n := b.Counts["running"] + b.Counts["compensating"]
	if b.StoppedAt.IsZero() {
		n += b.Counts["pending"]
	}
	return n
}

func (k runs[R]) batchEnd(b *api.BatchState, all int) error {
	good := b.Counts["completed"] + b.Counts["reconciled"]
	switch rest := int64(all) - good; {
	case !b.StoppedAt.IsZero():
		return broker.Errorf(broker.Internal, "batch_stopped", "batch %s stopped: %s (fix the cause, then run hostler %s retry --batch %s)",
			b.BatchID, b.StopReason, k.noun, b.BatchID)
	case rest > 0:
		return broker.Errorf(broker.Internal, "batch_incomplete", "%d of %s of batch %s %s (hostler %s retry --batch %s)", rest,
			plural(all, "run"), b.BatchID, k.short, k.noun, b.BatchID)
	}
	return nil
}
