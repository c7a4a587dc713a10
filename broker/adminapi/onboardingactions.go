package adminapi

import (
	"context"
	"slices"
	"strings"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/adminapi/resource"
	"github.com/hostler/hostler/broker/chain"
	"github.com/hostler/hostler/taskcatalog"
)

// runActions are the actions of seed 001 §4.15 by their paths.
var runActions = map[string]chain.Action{
	"retry": chain.RetryStage, "resume": chain.Resume, "rerun": chain.Rerun, "restart-clean": chain.RestartClean,
	"cancel": chain.Cancel, "adopt": chain.Adopt, "mark-manual-intervention": chain.MarkManual,
}

// needsReason are the actions that overrule what the run would do by itself.
var needsReason = []chain.Action{chain.RestartClean, chain.Cancel, chain.Adopt, chain.MarkManual}

type runActionInput struct {
	OnboardingInput
	Action string `path:"action" enum:"retry,resume,rerun,restart-clean,cancel,adopt,mark-manual-intervention"`
	Body   resource.RunOrder
}

func (a *API) actOnOnboarding(ctx context.Context, in *runActionInput) (*resource.Onboarding, error) {
	r, err := a.onboarding(ctx, in.Onboarding)
	if err != nil {
		return nil, err
	}
	o := chain.Order{ID: r.ID, Actor: a.orderedBy(ctx), Action: runActions[in.Action], Reason: taskcatalog.Clean(strings.TrimSpace(in.Body.Reason), 500)}
	if slices.Contains(needsReason, o.Action) {
		if o.Reason, err = a.reasonFor(ctx, in.Body.Reason, "run."+string(o.Action), "run/"+r.ID, in.Action+" run "+r.ID); err != nil {
			return nil, err
		}
	}
	if in.Body.Stage != "" {
		o.Seen = &chain.Seen{Stage: in.Body.Stage, Class: chain.Class(in.Body.FailureClass)}
	}
	if r, err = a.c.Runs.Act(ctx, o); err != nil {
		return nil, runError(err)
	}
	out := onboardingResource(r)
	return &out, nil
}

func (a *API) orderedBy(ctx context.Context) chain.Actor {
	who := callerOf(ctx)
	return chain.Actor{Name: who.Name, Role: string(who.Role)}
}

type retryBatchInput struct {
	Batch string `path:"batch" maxLength:"64"`
	Body  resource.ReasonBody
}

// retryBatch tries again what failed of a batch, and lets one that stopped begin
// runs again.
func (a *API) retryBatch(ctx context.Context, in *retryBatchInput) (*resource.OnboardingBatchRetried, error) {
	b, err := a.batch(ctx, in.Batch)
	if err != nil {
		return nil, err
	}
	out := &resource.OnboardingBatchRetried{BatchID: b.ID, Continued: !b.StoppedAt.IsZero(), Retried: []resource.Onboarding{}}
	reason := taskcatalog.Clean(in.Body.Reason, 500)
	if out.Continued {
		if err := a.c.Runs.ContinueBatch(ctx, chain.Order{ID: b.ID, Actor: a.orderedBy(ctx), Reason: reason}); err != nil {
			return nil, runError(err)
		}
	}
	failed, _, err := a.runsOf(ctx, chain.Filter{Batch: b.ID, Statuses: []chain.Status{chain.FailedRetryable, chain.FailedManual}}, "", 0)
	if err != nil {
		return nil, err
	}
	for _, r := range failed {
		if r.Failure != nil && r.Failure.Code == chain.CodeMarked {
			continue // a person stopped it, and has not looked yet
		}
		now, err := a.c.Runs.Act(ctx, chain.Order{ID: r.ID, Actor: a.orderedBy(ctx), Action: chain.RetryStage, Reason: reason})
		if err != nil {
			e := broker.AsError(runError(err))
			out.Refused = append(out.Refused, resource.OnboardingRefusal{OnboardingID: r.ID, Code: e.Code, Detail: taskcatalog.Clean(e.Message, 500)})
			continue
		}
		out.Retried = append(out.Retried, onboardingResource(now))
	}
	return out, nil
}

// batch finds a batch of onboardings of a site that the caller may see.
func (a *API) batch(ctx context.Context, id string) (chain.Batch, error) {
	b, err := a.c.DB.Batch(ctx, id)
	if err == nil && (!bringsIn(b.Kind) || !callerOf(ctx).MaySee(b.Site)) {
		err = chain.NotFound("batch", id)
	}
	if err != nil {
		return b, runError(err)
	}
	return b, nil
}
