package taskqueue

import (
	"context"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/store"
	"github.com/hostler/hostler/taskcatalog"
	"github.com/hostler/hostler/taskcatalog/lazyregexp"
	"github.com/hostler/hostler/taskcatalog/wire"
)

// Result ends a task. The first result stands: a repeat gets the recorded result, whatever its
// content. Refusals are audited, equal refusals once a minute, because a node with unbelievable
// results needs attention. Codes: task_not_found, epoch_superseded, attempt_unknown, bad_outcome,
// bad_result, bad_archive, evidence_key_too_old, rotation_not_made, and those of checkEvidence.
func (q *Queue) Result(ctx context.Context, p Peer, taskID string, r wire.ResultRequest) (wire.ResultReply, error) {
	reply, err := q.result(ctx, p, taskID, r)
	if err == nil {
		return reply, nil
	}
	if e := broker.AsError(err); e.Kind != broker.Internal && e.Kind != broker.Unavailable {
		if err := q.c.DB.AuditRefusal(ctx, broker.AuditEntry{
			Actor: "node:" + p.NodeID, Action: "result.refused", Subject: "task/" + taskcatalog.Clean(taskID, maxKey), Code: e.Code,
			Reason: e.Message,
		}); err != nil {
			return reply, err
		}
	}
	return reply, err
}

func (q *Queue) result(ctx context.Context, p Peer, taskID string, r wire.ResultRequest) (wire.ResultReply, error) {
	k, err := q.c.DB.Asked(ctx, taskID)
	if err != nil {
		return wire.ResultReply{}, err
	}
	switch {
	case k.NodeID != p.NodeID:
		return wire.ResultReply{}, broker.Errorf(broker.NotFound, "task_not_found", "node %s has no task %s", p.NodeID, taskID)
	case k.Status.Ended():
		return replyOf(k, true), q.storeLate(ctx, k, p, r)
	case k.NodeEpoch != p.Epoch:
		return wire.ResultReply{}, broker.Errorf(broker.Forbidden, "epoch_superseded",
			"cannot accept the result of task %s: the task was for epoch %d of node %s, not %d", taskID, k.NodeEpoch, p.NodeID, p.Epoch)
	}
	if r.Evidence != "" {
		if err := q.checkIdentity(ctx, k, p); err != nil {
			return wire.ResultReply{}, err
		}
	}
	out, decoded, err := judge(k, p, r)
	if err != nil {
		return wire.ResultReply{}, err
	}
	if r.Attempt == 0 && k.Attempt == 0 && r.Outcome == taskcatalog.OutcomeRefused {
		// A carried task is not delivered yet: the audit log keeps the node's reason for the
		// refusal, and the later delivery is judged by itself.
		return wire.ResultReply{}, broker.Errorf(broker.Refused, "attempt_unknown",
			"task %s stays queued: node %s refused the task before its delivery was recorded: %s: %s", k.ID, k.NodeID, out.Code,
			out.Message)
	}
	if scrub, ok := decoded.(*taskcatalog.GPUScrubResult); ok && out.Verdict == taskcatalog.VerdictClean {
		if out.Verdict, err = q.scrubbedAll(ctx, k, scrub); err != nil {
			return wire.ResultReply{}, err
		}
	}
	if _, ok := decoded.(*taskcatalog.ValidateCleanResult); ok {
		if err := q.applies(ctx, k, p, r); err != nil {
			return wire.ResultReply{}, err
		}
	}
	if rotated, ok := decoded.(*taskcatalog.RotateIdentityResult); ok && out.Status == broker.TaskSucceeded {
		if err := q.rotated(ctx, k, p, rotated); err != nil {
			return wire.ResultReply{}, err
		}
	}
	effects, err := effectsOf(k, out, decoded)
	if err != nil {
		return wire.ResultReply{}, err
	}
	k, repeat, err := q.c.DB.RecordResult(ctx, out, effects)
	if err == nil && !repeat && q.c.Ended != nil {
		q.c.Ended(k)
	}
	return replyOf(k, repeat), err
}

func replyOf(k broker.Task, repeat bool) wire.ResultReply {
	return wire.ResultReply{TaskID: k.ID, Status: string(k.Status), Outcome: k.Outcome, Code: k.Code, Repeat: repeat}
}

// codePattern is the form of a code.
var codePattern = lazyregexp.New(`^[a-z][a-z0-9_]{0,63}$`)

// judge turns a node's result into the stored result. decoded is a pointer to the result type of
// a successful task.
func judge(k broker.Task, p Peer, r wire.ResultRequest) (out store.Result, decoded any, err error) {
	if !r.Outcome.Valid() {
		return out, nil, broker.Errorf(broker.Invalid, "bad_outcome", "cannot accept the result of task %s: %q is not an outcome", k.ID,
			taskcatalog.Clean(string(r.Outcome), 64))
	}
	if r.Code != "" && !codePattern.MatchString(string(r.Code)) || r.Outcome == taskcatalog.OutcomeSucceeded && r.Code != "" {
		return out, nil, broker.Errorf(broker.Invalid, "bad_outcome",
			"cannot accept the result of task %s: its code is not valid for the outcome", k.ID)
	}
	typ, err := taskcatalog.Lookup(k.Type, k.Version)
	if err != nil {
		return out, nil, err
	}
	if len(r.Result) > 0 && string(r.Result) != "null" {
		if decoded, err = typ.DecodeResult(r.Result); err != nil {
			return out, nil, broker.Errorf(broker.Invalid, "bad_result", "cannot accept the result of task %s: %v", k.ID, err)
		}
	} else if r.Outcome == taskcatalog.OutcomeSucceeded {
		return out, nil, broker.Errorf(broker.Invalid, "bad_result",
			"cannot accept the result of task %s: the task succeeded without a result", k.ID)
	}
	verdict, err := checkEvidence(k, p, r)
	if err != nil {
		return out, nil, err
	}
	out = store.Result{
		NodeID: p.NodeID, Epoch: p.Epoch, TaskID: k.ID, Attempt: r.Attempt, Outcome: r.Outcome, Code: r.Code,
		Message: taskcatalog.Clean(r.Message, taskcatalog.MaxText), Evidence: []byte(r.Evidence), Verdict: verdict,
	}
	if decoded != nil {
		out.Result = r.Result
	}
	if out.Archive, err = archiveOf(k, decoded, r); err != nil {
		return out, nil, err
	}
	switch r.Outcome {
	case taskcatalog.OutcomeSucceeded:
		out.Status = broker.TaskSucceeded
	case taskcatalog.OutcomeCanceled:
		out.Status = broker.TaskCanceled
	default: // refused and interrupted end as failed too, and are never requeued
		out.Status = broker.TaskFailed
	}
	if out.Code == "" && r.Outcome != taskcatalog.OutcomeSucceeded {
		out.Code = defaultCodes[r.Outcome]
	}
	return out, decoded, nil
}

var defaultCodes = map[taskcatalog.Outcome]taskcatalog.Code{
	taskcatalog.OutcomeFailed:      taskcatalog.CodeHandlerFailed,
	taskcatalog.OutcomeRefused:     "refused",
	taskcatalog.OutcomeInterrupted: taskcatalog.CodeInterrupted,
	taskcatalog.OutcomeCanceled:    taskcatalog.CodeCanceled,
}
