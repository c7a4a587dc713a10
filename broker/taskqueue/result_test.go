package taskqueue_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/store"
	"github.com/hostler/hostler/pki"
	"github.com/hostler/hostler/pki/pkitest"
	"github.com/hostler/hostler/taskcatalog"
	"github.com/hostler/hostler/taskcatalog/wire"
)

// Each attack is by an enrolled node that has a task and signs with its own key, unless the row
// says otherwise. No attack may end the task.
func TestEvidenceThatCannotBeBelievedIsRefused(t *testing.T) {
	table := []struct {
		name string
		ev   func(ev *taskcatalog.Evidence) // the signed evidence
		ask  func(w *world, r *wire.ResultRequest, ev taskcatalog.Evidence)
		code string
	}{
		{name: "none at all", ask: func(_ *world, r *wire.ResultRequest, _ taskcatalog.Evidence) { r.Evidence = "" }, code: "evidence_missing"},
		{name: "of another task", ev: func(ev *taskcatalog.Evidence) { ev.TaskID = "t-other" }, code: "evidence_wrong_task"},
		{name: "of another node", ev: func(ev *taskcatalog.Evidence) { ev.NodeID = "n-other" }, code: "evidence_wrong_node"},
		{name: "of another epoch", ev: func(ev *taskcatalog.Evidence) { ev.NodeEpoch = 2 }, code: "evidence_wrong_epoch"},
		{name: "with another nonce", ev: func(ev *taskcatalog.Evidence) { ev.Nonce = strings.Repeat("A", 43) }, code: "evidence_wrong_nonce"},
		{name: "of another envelope", ev: func(ev *taskcatalog.Evidence) { ev.TaskDigest = pki.Digest([]byte("other")) }, code: "evidence_wrong_digest"},
		{name: "of another result", ev: func(ev *taskcatalog.Evidence) { ev.ResultDigest = pki.Digest([]byte("{}")) }, code: "evidence_wrong_result"},
		{name: "of another outcome", ev: func(ev *taskcatalog.Evidence) { ev.Outcome = taskcatalog.OutcomeFailed }, ask: func(_ *world, r *wire.ResultRequest, _ taskcatalog.Evidence) {
			r.Outcome = taskcatalog.OutcomeSucceeded
		}, code: "evidence_wrong_outcome"},
		{name: "by another key", ask: func(w *world, r *wire.ResultRequest, ev taskcatalog.Evidence) {
			raw, err := pki.SignEvidence(ev, pkitest.NewSigner(w.t).Key)
			w.ok(err)
			r.Evidence = string(raw)
		}, code: "unknown_key"},
		{name: "changed after it was signed", ask: func(w *world, r *wire.ResultRequest, _ taskcatalog.Evidence) {
			var env map[string]any
			w.ok(json.Unmarshal([]byte(r.Evidence), &env))
			payload := []byte(env["payload"].(string))
			payload[20] ^= 1 // still base64
			env["payload"] = string(payload)
			raw, err := json.Marshal(env)
			w.ok(err)
			r.Evidence = string(raw)
		}, code: "bad_signature"},
		{name: "signed as something else", ask: func(w *world, r *wire.ResultRequest, ev taskcatalog.Evidence) {
			r.Evidence = strings.Replace(r.Evidence, pki.PayloadEvidence, pki.PayloadTask, 1)
		}, code: "wrong_payload_type"},
		{name: "that is no envelope", ask: func(_ *world, r *wire.ResultRequest, _ taskcatalog.Evidence) { r.Evidence = "{}" }, code: "malformed"},
		{name: "with too many findings", ev: func(ev *taskcatalog.Evidence) {
			ev.Findings = make([]taskcatalog.Finding, taskcatalog.MaxFindings+1)
		}, code: "evidence_bounds"},
		{name: "with a finding too long", ev: func(ev *taskcatalog.Evidence) {
			ev.Findings = []taskcatalog.Finding{{Subject: strings.Repeat("x", taskcatalog.MaxText+1)}}
		}, code: "evidence_bounds"},
		{name: "with a verdict of its own", ev: func(ev *taskcatalog.Evidence) { ev.Verdict = "spotless" }, code: "evidence_verdict"},
		{name: "and an outcome that is none", ask: func(_ *world, r *wire.ResultRequest, _ taskcatalog.Evidence) { r.Outcome = "fine" }, code: "bad_outcome"},
		{name: "and a code that is none", ask: func(_ *world, r *wire.ResultRequest, _ taskcatalog.Evidence) {
			r.Outcome, r.Code = taskcatalog.OutcomeFailed, "\x1b[31m"
		}, code: "bad_outcome"},
		{name: "and a result of another shape", ask: func(_ *world, r *wire.ResultRequest, _ taskcatalog.Evidence) {
			r.Result = json.RawMessage(`{"rooted":true}`)
		}, code: "bad_result"},
		{name: "and an attempt that never was", ask: func(_ *world, r *wire.ResultRequest, _ taskcatalog.Evidence) { r.Attempt = 2 }, code: "attempt_unknown"},
	}
	each(t, func(w *world) {
		n := w.active("one")
		for _, attack := range table {
			w.run(attack.name, func(w *world) {
				w.clock.Advance(time.Minute) // each gets a row of its own
				k := w.enqueue(n, "node.heartbeat_check", "")
				d := w.fetch(n)[0]
				ev := w.evidence(n, d, taskcatalog.OutcomeSucceeded, heartbeat)
				if attack.ev != nil {
					attack.ev(&ev)
				}
				r := w.answer(n, d, ev, heartbeat)
				if attack.ask != nil {
					attack.ask(w, &r, ev)
				}
				_, err := w.queue.Result(ctx, n.Peer, k.ID, r)
				w.refused(err, attack.code)
				if got := w.task(k.ID); got.Status != broker.TaskDispatched || len(got.Evidence) != 0 {
					w.t.Fatalf("the task is %s", got.Status)
				}
				rows, err := w.db.ListAudit(ctx, store.AuditFilter{Action: "result.refused", Code: attack.code})
				w.ok(err)
				if len(rows) == 0 || rows[len(rows)-1].Subject != "task/"+k.ID || rows[len(rows)-1].Actor != "node:"+n.Peer.NodeID {
					w.t.Fatalf("audited: %+v", rows)
				}
			})
		}
	})
}

func TestAnotherNodesTaskIsNotThere(t *testing.T) {
	each(t, func(w *world) {
		n, eve := w.active("one"), w.active("eve")
		k := w.enqueue(n, "node.heartbeat_check", "")
		d := w.fetch(n)[0]
		ev := w.evidence(n, d, taskcatalog.OutcomeSucceeded, heartbeat)
		_, err := w.queue.Result(ctx, eve.Peer, k.ID, w.answer(eve, d, ev, heartbeat))
		w.refused(err, "task_not_found")
		_, err = w.queue.Progress(ctx, eve.Peer, k.ID, wire.ProgressRequest{Attempt: 1, StepStatus: "running"})
		w.refused(err, "task_not_found")
	})
}

func TestTheFirstResultStands(t *testing.T) {
	each(t, func(w *world) {
		n := w.active("one")
		k := w.enqueue(n, "node.heartbeat_check", "")
		d := w.fetch(n)[0]
		w.succeed(n, d, heartbeat)
		before := w.task(k.ID)
		w.clock.Advance(time.Minute)
		ev := w.evidence(n, d, taskcatalog.OutcomeFailed, "")
		r, err := w.queue.Result(ctx, n.Peer, k.ID, w.answer(n, d, ev, ""))
		w.ok(err)
		if !r.Repeat || r.Status != "succeeded" || r.Outcome != taskcatalog.OutcomeSucceeded {
			w.t.Fatalf("answered %+v", r)
		}
		after := w.task(k.ID)
		if after.Status != before.Status || !after.EndedAt.Equal(before.EndedAt) || string(after.Evidence) != string(before.Evidence) {
			w.t.Fatal("the second result changed the first")
		}
	})
}

func TestOutcomesEndAsTheyShould(t *testing.T) {
	table := []struct {
		outcome taskcatalog.Outcome
		code    taskcatalog.Code
		status  broker.TaskStatus
		want    taskcatalog.Code
	}{
		{taskcatalog.OutcomeFailed, "", broker.TaskFailed, taskcatalog.CodeHandlerFailed},
		{taskcatalog.OutcomeFailed, taskcatalog.CodeDeadlineExceeded, broker.TaskFailed, taskcatalog.CodeDeadlineExceeded},
		{taskcatalog.OutcomeRefused, taskcatalog.CodeBadSignature, broker.TaskFailed, taskcatalog.CodeBadSignature},
		{taskcatalog.OutcomeInterrupted, "", broker.TaskFailed, taskcatalog.CodeInterrupted},
		{taskcatalog.OutcomeCanceled, "", broker.TaskCanceled, taskcatalog.CodeCanceled},
	}
	each(t, func(w *world) {
		n := w.active("one")
		for _, c := range table {
			w.run(string(c.outcome)+"/"+string(c.code), func(w *world) {
				k := w.enqueue(n, "node.heartbeat_check", "")
				d := w.fetch(n)[0]
				_, err := w.queue.Result(ctx, n.Peer, k.ID, wire.ResultRequest{Attempt: d.Attempt, Outcome: c.outcome, Code: c.code, Message: "a\x1b[2Jb"})
				w.ok(err)
				got := w.task(k.ID)
				if got.Status != c.status || got.Code != c.want || got.Outcome != c.outcome || got.Message != `a\x1b[2Jb` {
					w.t.Fatalf("%s %s %s %q", got.Status, got.Outcome, got.Code, got.Message)
				}
				w.clock.Advance(time.Hour)
				if _, err := w.queue.Sweep(ctx); err != nil || len(w.fetch(n)) != 0 {
					w.t.Fatal("it was queued again")
				}
			})
		}
	})
}

// A node's refusal is recorded with its own code, under the node's name, and ends the task.
func TestEveryRefusalOfANodeIsAudited(t *testing.T) {
	codes := []taskcatalog.Code{
		taskcatalog.CodeTooLarge, taskcatalog.CodeMalformed, taskcatalog.CodeWrongPayloadType, taskcatalog.CodeUnknownKey, taskcatalog.CodeBadSignature,
		taskcatalog.CodeWrongNode, taskcatalog.CodeWrongEpoch, taskcatalog.CodeNotYetValid, taskcatalog.CodeTaskExpired, taskcatalog.CodeReplayed,
		taskcatalog.CodeUnknownType, taskcatalog.CodeUnknownVersion, taskcatalog.CodeBadParams, taskcatalog.CodeNotAllowed,
		taskcatalog.CodeCapabilityMissing, taskcatalog.CodeAllocationPresent, taskcatalog.CodeNodeDraining, taskcatalog.CodeLedgerUnavailable,
	}
	each(t, func(w *world) {
		n := w.active("one")
		for _, code := range codes {
			k := w.enqueue(n, "node.drain", "")
			d := w.fetch(n)[0]
			_, err := w.queue.Result(ctx, n.Peer, k.ID, wire.ResultRequest{Attempt: d.Attempt, Outcome: taskcatalog.OutcomeRefused, Code: code, Message: "cannot\x1b[2J"})
			w.ok(err)
			if got := w.task(k.ID); got.Status != broker.TaskFailed || got.Code != code || len(got.Result) != 0 {
				w.t.Errorf("%s: the task is %s %s", code, got.Status, got.Code)
			}
			rows, err := w.db.ListAudit(ctx, store.AuditFilter{Action: "task.end", Subject: "task/" + k.ID})
			w.ok(err)
			if len(rows) != 1 || rows[0].Code != string(code) || rows[0].Actor != "node:"+n.Peer.NodeID || rows[0].Reason != `cannot\x1b[2J` {
				w.t.Errorf("%s: audited as %+v", code, rows)
			}
		}
	})
}
