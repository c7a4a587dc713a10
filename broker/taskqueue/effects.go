package taskqueue

import (
	"encoding/json"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/store"
	"github.com/hostler/hostler/pki"
	"github.com/hostler/hostler/taskcatalog"
)

// effectsOf are the broker's effects of an ended task. result is a pointer to the type's result,
// or nil.
func effectsOf(k broker.Task, r store.Result, result any) ([]broker.Effect, error) {
	done := r.Status == broker.TaskSucceeded
	// After a crash the progress is unknown: the status stays until somebody resumes the task.
	gaveUp := !done && r.Outcome != taskcatalog.OutcomeInterrupted
	switch k.Type {
	case "node.drain":
		return drained(k, r, result)
	case "node.uninstall":
		if done {
			const gone = "the agent has removed itself"
			return []broker.Effect{
				broker.SetStatus{From: broker.Removing, To: broker.Deleted, By: broker.OwnerRemoval, Reason: gone},
				broker.SetStatus{From: broker.Enrolling, To: broker.Deleted, By: broker.OwnerRemoval, Reason: gone},
			}, nil
		}
		if gaveUp {
			return []broker.Effect{broker.SetStatus{
				From: broker.Removing, To: broker.Retired, By: broker.OwnerRemoval,
				Reason: "uninstall ended " + string(r.Outcome),
			}}, nil
		}
	case "node.validate_clean":
		if v, ok := result.(*taskcatalog.ValidateCleanResult); ok && done {
			return baselineTaken(k, v)
		}
	case "node.resolver_config":
		if v, ok := result.(*taskcatalog.ResolverConfigResult); ok && done {
			return []broker.Effect{broker.ConfirmResolver{Digest: taskcatalog.Clean(v.Digest, 128)}, broker.LetIn{}}, nil
		}
	case "allocation.revoke_user":
		var asked taskcatalog.RevokeUserParams
		if err := json.Unmarshal(k.Params, &asked); err != nil || !done {
			return nil, err
		}
		return []broker.Effect{broker.EndAllocation{AllocationID: asked.AllocationID}}, nil
	case "node.rotate_identity":
		if !done {
			return []broker.Effect{broker.VoidRotation{}}, nil
		}
	case "node.task_probe":
		if v, ok := result.(*taskcatalog.TaskProbeResult); ok && done {
			return lateEffects(k, v)
		}
	case "node.trust_update":
		if v, ok := result.(*taskcatalog.TrustUpdateResult); ok && done {
			return []broker.Effect{broker.ConfirmTrust{Version: v.Version}}, nil
		}
	}
	return nil, nil
}

func drained(k broker.Task, r store.Result, result any) ([]broker.Effect, error) {
	var asked taskcatalog.DrainParams
	if err := json.Unmarshal(k.Params, &asked); err != nil {
		return nil, err
	}
	if asked.Resume {
		return nil, nil
	}
	if v, ok := result.(*taskcatalog.DrainResult); ok && r.Status == broker.TaskSucceeded && v.Drained {
		return []broker.Effect{broker.SetStatus{From: broker.Draining, To: broker.Retired, By: broker.OwnerDrain, Reason: "drained"}}, nil
	}
	if k.CancelRequested && r.Outcome == taskcatalog.OutcomeCanceled {
		// A person called the drain off: the node is back as soon as it is heard.
		return []broker.Effect{broker.SetStatus{
			From: broker.Draining, To: broker.Offline, By: broker.OwnerDrain,
			Reason: "the drain was canceled (task " + k.ID + ")",
		}}, nil
	}
	// From offline the next heartbeat would let tenants in again, so an operator decides how to
	// continue.
	return []broker.Effect{broker.SetReason{
		Status: broker.Draining,
		Reason: "the drain did not finish (task " + k.ID + "): resume it, or retire the node with --force",
	}}, nil
}

// baselineTaken stores the baseline that the task asked for. The first baseline lets a node in.
func baselineTaken(k broker.Task, v *taskcatalog.ValidateCleanResult) ([]broker.Effect, error) {
	var asked taskcatalog.ValidateCleanParams
	if err := json.Unmarshal(k.Params, &asked); err != nil || !asked.TakeBaseline {
		return nil, err
	}
	if v.Baseline == nil {
		return nil, broker.Errorf(broker.Invalid, "bad_result",
			"cannot accept the result of task %s: the result lacks the requested baseline", k.ID)
	}
	raw, err := taskcatalog.Encode(v.Baseline)
	if err != nil {
		return nil, err
	}
	return []broker.Effect{
		broker.SaveBaseline{Digest: pki.Digest(raw), Baseline: raw},
		broker.LetIn{},
	}, nil
}
