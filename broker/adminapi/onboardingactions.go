package adminapi

import (
	"context"

	"github.com/hostler/hostler/broker/api"
)

type onboardingActionInput struct {
	OnboardingInput
	Action string `path:"action" enum:"retry,resume,rerun,restart-clean,cancel,adopt,mark-manual-intervention"`
	Body   api.RunOrder
}

func (a *API) actOnOnboarding(ctx context.Context, in *onboardingActionInput) (*api.Onboarding, error) {
	r, err := a.actOn(ctx, onboardingKinds, in.Onboarding, in.Action, in.Body)
	if err != nil {
		return nil, err
	}
	out := onboardingResource(r)
	return &out, nil
}

type retryBatchInput struct {
	Batch string `path:"batch" maxLength:"64"`
	Body  api.ReasonBody
}

// retryBatch retries the failed runs of a batch, and lets a stopped batch begin runs again.
func (a *API) retryBatch(ctx context.Context, in *retryBatchInput) (*api.OnboardingBatchRetried, error) {
	did, err := a.retryFailed(ctx, onboardingKinds, in.Batch, in.Body.Reason)
	if err != nil {
		return nil, err
	}
	out := &api.OnboardingBatchRetried{BatchID: did.batch.ID, Continued: did.continued, Retried: []api.Onboarding{}}
	for _, r := range did.runs {
		out.Retried = append(out.Retried, onboardingResource(r))
	}
	for _, no := range did.refused {
		out.Refused = append(out.Refused, api.OnboardingRefusal{OnboardingID: no.id, Code: no.code, Detail: no.detail})
	}
	return out, nil
}
