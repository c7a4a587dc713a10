package adminapi

import (
	"context"
	"encoding/json"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/baseline"
	"github.com/hostler/hostler/broker/store"
	"github.com/hostler/hostler/broker/taskqueue"
	"github.com/hostler/hostler/pki"
	"github.com/hostler/hostler/taskcatalog"
)

func (a *API) showBaseline(ctx context.Context, in *NodeInput) (*api.Baseline, error) {
	n, err := a.node(ctx, in.Node)
	if err != nil {
		return nil, err
	}
	b, err := a.baselineOf(ctx, n)
	if err != nil {
		return nil, err
	}
	out := &api.Baseline{NodeID: n.ID, Digest: n.BaselineDigest, Baseline: *b}
	accepted, err := a.c.DB.AcceptedBaselines(ctx, n.ID)
	if err != nil {
		return nil, err
	}
	if len(accepted) > 0 && accepted[len(accepted)-1].Digest == n.BaselineDigest {
		last := accepted[len(accepted)-1]
		out.AcceptedBy, out.Reason, out.AcceptedAt = last.By, last.Reason, last.At
	}
	return out, nil
}

// baselineOf reads the baseline in force and checks its content against the digest, so that a
// changed row is noticed.
func (a *API) baselineOf(ctx context.Context, n broker.Node) (*taskcatalog.Baseline, error) {
	if n.BaselineDigest == "" {
		return nil, broker.Errorf(broker.NotFound, "baseline_not_found",
			"node %s has no baseline yet (the broker takes one when the node enrols; hostler node baseline retake %s takes one now)",
			n.ID, n.ID)
	}
	raw, err := a.c.DB.Baseline(ctx, n.BaselineDigest)
	if err != nil {
		return nil, err
	}
	if pki.Digest(raw) != n.BaselineDigest {
		return nil, broker.Errorf(broker.Refused, "baseline_untrusted",
			"cannot use the baseline of node %s: its content does not match its digest (the database may have been changed)", n.ID)
	}
	b := new(taskcatalog.Baseline)
	return b, taskcatalog.DecodeStrict(raw, b)
}

// candidate returns the baseline that the node took last, unless that baseline is in force; raw is
// nil if there is no candidate.
func (a *API) candidate(ctx context.Context, n broker.Node) (raw []byte, digest string, err error) {
	page, _, err := a.c.DB.ListTasks(ctx, store.TaskFilter{
		NodeID: n.ID, Type: "node.validate_clean", Statuses: []broker.TaskStatus{broker.TaskSucceeded},
	})
	if err != nil {
		return nil, "", err
	}
	for _, t := range page {
		var params taskcatalog.ValidateCleanParams
		if json.Unmarshal(t.Params, &params) != nil || !params.TakeBaseline || t.NodeEpoch != n.Epoch {
			continue
		}
		full, err := a.c.DB.Task(ctx, t.ID)
		if err != nil {
			return nil, "", err
		}
		var result taskcatalog.ValidateCleanResult
		if err := taskcatalog.DecodeStrict(full.Result, &result); err != nil || result.Baseline == nil {
			return nil, "", err
		}
		if raw, err = taskcatalog.Encode(result.Baseline); err != nil {
			return nil, "", err
		}
		if digest = pki.Digest(raw); digest == n.BaselineDigest {
			return nil, "", nil
		}
		return raw, digest, nil
	}
	return nil, "", nil
}

func (a *API) diffBaseline(ctx context.Context, in *NodeInput) (*api.BaselineDiff, error) {
	n, err := a.node(ctx, in.Node)
	if err != nil {
		return nil, err
	}
	was, err := a.baselineOf(ctx, n)
	if err != nil {
		return nil, err
	}
	out := &api.BaselineDiff{NodeID: n.ID, Digest: n.BaselineDigest, Lines: []api.BaselineLine{}}
	raw, digest, err := a.candidate(ctx, n)
	if err != nil || raw == nil {
		return out, err
	}
	var is taskcatalog.Baseline
	if err := taskcatalog.DecodeStrict(raw, &is); err != nil {
		return nil, err
	}
	out.Candidate, out.TakenAt = digest, is.TakenAt
	for _, l := range baseline.Diff(was, &is) {
		out.Lines = append(out.Lines, api.BaselineLine(l))
	}
	return out, nil
}

type retakeInput struct {
	NodeInput
	Body api.ReasonBody
}

func (a *API) retakeBaseline(ctx context.Context, in *retakeInput) (*api.Task, error) {
	n, err := a.node(ctx, in.Node)
	if err != nil {
		return nil, err
	}
	who := callerOf(ctx)
	t, _, err := a.c.Queue.Enqueue(withReason(ctx, in.Body.Reason), who.actor(), taskqueue.Request{
		NodeID: n.ID, Type: "node.validate_clean", Params: []byte(`{"take_baseline":true}`),
		CorrelationID: who.correlationID, TraceParent: traceParent(ctx),
	})
	if err != nil {
		return nil, err
	}
	out := taskResource(t, n.Hostname)
	return &out, nil
}

type acceptInput struct {
	NodeInput
	Body api.BaselineAccept
}

// acceptBaseline puts in force exactly the candidate named by the caller's digest, never a newer
// candidate.
func (a *API) acceptBaseline(ctx context.Context, in *acceptInput) (*api.Baseline, error) {
	n, err := a.node(ctx, in.Node)
	if err != nil {
		return nil, err
	}
	if n.BaselineDigest != in.Body.Digest {
		raw, digest, err := a.candidate(ctx, n)
		if err != nil {
			return nil, err
		}
		if raw == nil || digest != in.Body.Digest {
			return nil, broker.Errorf(broker.Refused, "baseline_not_candidate",
				"cannot accept this baseline of node %s: it is not the newest candidate (review the candidate: hostler node baseline diff %s)", n.ID, n.ID)
		}
		if err := a.c.DB.AcceptBaseline(ctx, callerOf(ctx).actor(), n.ID, digest, raw, in.Body.Reason); err != nil {
			return nil, err
		}
	}
	return a.showBaseline(ctx, &in.NodeInput)
}
