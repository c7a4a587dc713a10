package adminapi

import (
	"context"
	"slices"
	"strings"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/chain"
	"github.com/hostler/hostler/taskcatalog"
)

// runActions are the operator's actions on a run (architecture, chapter 6) by their paths.
var runActions = map[string]chain.Action{
	"retry": chain.RetryStage, "resume": chain.Resume, "rerun": chain.Rerun, "restart-clean": chain.RestartClean,
	"cancel": chain.Cancel, "adopt": chain.Adopt, "mark-manual-intervention": chain.MarkManual,
}

// needsReason are the actions that override what the run would do by itself.
var needsReason = []chain.Action{chain.RestartClean, chain.Cancel, chain.Adopt, chain.MarkManual}

// runOrder makes the engine's order from an operator's action on a run. Code: reason_missing.
func (a *API) runOrder(ctx context.Context, r chain.Record, action string, body api.RunOrder) (o chain.Order, err error) {
	o = chain.Order{
		ID: r.ID, Actor: a.orderedBy(ctx), Action: runActions[action],
		Reason: taskcatalog.Clean(strings.TrimSpace(body.Reason), 500),
	}
	if body.Stage != "" {
		o.Seen = &chain.Seen{Stage: body.Stage, Class: chain.Class(body.FailureClass)}
	}
	if slices.Contains(needsReason, o.Action) {
		o.Reason, err = a.reasonFor(ctx, body.Reason, "run."+string(o.Action), "run/"+r.ID, action+" run "+r.ID)
	}
	return o, err
}

// actOn carries out an operator's action on a run. Codes: run_actions_own, override_invalid,
// reason_missing, those of the engine.
func (a *API) actOn(ctx context.Context, of kinds, id, action string, body api.RunOrder) (chain.Record, error) {
	r, err := a.run(ctx, of, id)
	if err != nil {
		return r, err
	}
	kind := broker.RunKindOf(r.Kind)
	if kind.OwnActions {
		return r, broker.Errorf(broker.Refused, "run_actions_own",
			"cannot %s run %s: runs of kind %s have actions of their own (hostler help %s)", action, r.ID, kind.Name, kind.Noun)
	}
	o, err := a.runOrder(ctx, r, action, body)
	if err != nil {
		return r, err
	}
	if kind.TurnsOver {
		if o, err = a.withWaiver(ctx, o, r, action, body); err != nil {
			return r, err
		}
	}
	if r, err = a.c.Runs.Act(ctx, o); err != nil {
		return r, runError(err)
	}
	return r, nil
}

// withWaiver adds to an order that a turnover goes on without a stage. Code: override_invalid.
func (a *API) withWaiver(ctx context.Context, o chain.Order, r chain.Record, action string, body api.RunOrder) (chain.Order, error) {
	if o.Without = body.Override; o.Without == "" {
		return o, nil
	}
	if err := a.requireRole(ctx, admin, "override a stage of a turnover"); err != nil {
		return o, err
	}
	var err error
	if o.Reason, err = a.reasonFor(ctx, body.Reason, "decommission.override", "run/"+r.ID, "skip a stage"); err != nil {
		return o, err
	}
	if o.Action != chain.Resume {
		return o, broker.Errorf(broker.Invalid, "override_invalid", "cannot %s run %s without a stage: only resume takes override", action,
			r.ID)
	}
	return o, nil
}

func (a *API) orderedBy(ctx context.Context) chain.Actor {
	who := callerOf(ctx)
	return chain.Actor{Name: who.Name, Role: string(who.Role)}
}

// retryResult is the result of a batch's retry.
type retryResult struct {
	batch     chain.Batch
	continued bool
	runs      []chain.Record
	refused   []refusedRun
}

// refusedRun is a run that the retry left as it is.
type refusedRun struct{ id, code, detail string }

// retryFailed retries the failed runs of a batch, and lets a stopped batch begin runs again.
func (a *API) retryFailed(ctx context.Context, of kinds, batch, reason string) (out retryResult, err error) {
	if out.batch, err = a.batch(ctx, of, batch); err != nil {
		return out, err
	}
	reason = taskcatalog.Clean(reason, 500)
	if out.continued = !out.batch.StoppedAt.IsZero(); out.continued {
		if err := a.c.Runs.ContinueBatch(ctx, chain.Order{ID: out.batch.ID, Actor: a.orderedBy(ctx), Reason: reason}); err != nil {
			return out, runError(err)
		}
	}
	failed, _, err := a.runsOf(ctx, of, chain.Filter{
		Batch:    out.batch.ID,
		Statuses: []chain.Status{chain.FailedRetryable, chain.FailedManual},
	}, nil, 0)
	if err != nil {
		return out, err
	}
	for _, r := range failed {
		if r.Failure != nil && r.Failure.Code == chain.CodeMarked {
			continue // a person stopped the run and has not looked yet
		}
		now, err := a.c.Runs.Act(ctx, chain.Order{ID: r.ID, Actor: a.orderedBy(ctx), Action: chain.RetryStage, Reason: reason})
		if err != nil {
			e := broker.AsError(runError(err))
			out.refused = append(out.refused, refusedRun{r.ID, e.Code, taskcatalog.Clean(e.Message, 500)})
			continue
		}
		out.runs = append(out.runs, now)
	}
	return out, nil
}
