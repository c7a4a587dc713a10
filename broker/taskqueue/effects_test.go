package taskqueue_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/presence"
	"github.com/hostler/hostler/broker/store"
	"github.com/hostler/hostler/broker/taskqueue"
	"github.com/hostler/hostler/pki"
	"github.com/hostler/hostler/taskcatalog"
	"github.com/hostler/hostler/taskcatalog/wire"
)

func TestTheFirstBaselineMakesANodeActive(t *testing.T) {
	each(t, func(w *world) {
		n := w.node("one", nil)
		w.enqueue(n, "node.validate_clean", `{"take_baseline":true}`)
		raw := baseline(w)
		result, err := json.Marshal(map[string]any{"findings": 0, "checks_made": 1, "checks_not_made": 0, "baseline": json.RawMessage(raw)})
		w.ok(err)
		w.succeed(n, w.fetch(n)[0], string(result))
		got, err := w.db.Node(ctx, n.Peer.NodeID)
		w.ok(err)
		if got.Status != broker.Active || got.BaselineDigest != pki.Digest(raw) {
			w.t.Fatalf("%s with baseline %q", got.Status, got.BaselineDigest)
		}
		kept, err := w.db.Baseline(ctx, got.BaselineDigest)
		w.ok(err)
		if string(kept) != string(raw) {
			w.t.Fatalf("kept %s", kept)
		}
	})
}

func TestABaselineThatIsMissingEndsNothing(t *testing.T) {
	each(t, func(w *world) {
		n := w.node("one", nil)
		k := w.enqueue(n, "node.validate_clean", `{"take_baseline":true}`)
		const result = `{"findings":0,"checks_made":1,"checks_not_made":0}`
		d := w.fetch(n)[0]
		_, err := w.queue.Result(ctx, n.Peer, k.ID, w.answer(n, d, w.evidence(n, d, taskcatalog.OutcomeSucceeded, result), result))
		w.refused(err, "bad_result")
		if w.status(n) != broker.Enrolling {
			w.t.Fatal("the node is " + w.status(n))
		}
	})
}

// A validation without take_baseline changes no baseline.
func TestABaselineNotAskedForIsNotTaken(t *testing.T) {
	each(t, func(w *world) {
		n := w.active("one")
		k := w.enqueue(n, "node.validate_clean", "")
		raw, err := json.Marshal(map[string]any{"verdict": "clean", "findings": 0, "checks_made": 1, "checks_not_made": 0, "baseline": json.RawMessage(baseline(w))})
		w.ok(err)
		d, result := w.fetch(n)[0], string(raw)
		ev := w.evidence(n, d, taskcatalog.OutcomeSucceeded, result)
		ev.Report = taskcatalog.Report{Verdict: "clean", Checks: allMade()}
		_, err = w.queue.Result(ctx, n.Peer, k.ID, w.answer(n, d, ev, result))
		w.ok(err)
		if got, err := w.db.Node(ctx, n.Peer.NodeID); err != nil || got.BaselineDigest != "" {
			w.t.Fatalf("baseline %q, %v", got.BaselineDigest, err)
		}
	})
}

func TestWhatFollowsFromADrainAndAnUninstall(t *testing.T) {
	const drained, stuck, resumed = `{"drained":true,"sessions_ended":0,"processes_stopped":0}`, `{"drained":false,"sessions_ended":0,"processes_stopped":0}`, `{"drained":false,"sessions_ended":0,"processes_stopped":0}`
	const removed = `{"removes":[]}`
	table := []struct {
		name, typ, params string
		from              broker.NodeStatus
		outcome           taskcatalog.Outcome
		result            string
		want              broker.NodeStatus
	}{
		{"drained", "node.drain", "", broker.Draining, taskcatalog.OutcomeSucceeded, drained, broker.Retired},
		{"drained, but nobody asked the node to retire", "node.drain", "", broker.Active, taskcatalog.OutcomeSucceeded, drained, broker.Active},
		{"something would not end", "node.drain", "", broker.Draining, taskcatalog.OutcomeSucceeded, stuck, broker.Draining},
		{"the drain failed", "node.drain", "", broker.Draining, taskcatalog.OutcomeFailed, "", broker.Draining},
		{"the drain was refused", "node.drain", "", broker.Draining, taskcatalog.OutcomeRefused, "", broker.Draining},
		{"the node canceled it by itself", "node.drain", "", broker.Draining, taskcatalog.OutcomeCanceled, "", broker.Draining},
		{"the agent died in the drain", "node.drain", "", broker.Draining, taskcatalog.OutcomeInterrupted, "", broker.Draining},
		{"the mark was taken back", "node.drain", `{"resume":true}`, broker.Draining, taskcatalog.OutcomeSucceeded, resumed, broker.Draining},
		{"uninstalled", "node.uninstall", "", broker.Removing, taskcatalog.OutcomeSucceeded, removed, broker.Deleted},
		{"the uninstall failed", "node.uninstall", "", broker.Removing, taskcatalog.OutcomeFailed, "", broker.Retired},
		{"the agent died in the uninstall", "node.uninstall", "", broker.Removing, taskcatalog.OutcomeInterrupted, "", broker.Removing},
	}
	each(t, func(w *world) {
		for i, c := range table {
			w.run(c.name, func(w *world) {
				n := w.active(fmt.Sprintf("node-%d", i))
				for _, s := range []broker.NodeStatus{broker.Draining, broker.Retired, broker.Removing} {
					if w.status(n) != c.from {
						by := map[broker.NodeStatus]broker.Owner{broker.Draining: broker.OwnerOperator, broker.Retired: broker.OwnerDrain, broker.Removing: broker.OwnerRemoval}[s]
						w.move(n, s, by)
					}
				}
				w.enqueue(n, c.typ, c.params)
				d := w.fetch(n)[0]
				_, err := w.queue.Result(ctx, n.Peer, d.TaskID, w.answer(n, d, w.evidence(n, d, c.outcome, c.result), c.result))
				w.ok(err)
				if got := w.status(n); got != c.want {
					w.t.Fatalf("the node is %s, want %s", got, c.want)
				}
			})
		}
	})
}

// Whoever took a node out of service decides when it returns: of all ends of the drain only
// success or a cancel moves the node, however often the node is heard.
func TestAFailedDrainLeavesTheNodeOutOfService(t *testing.T) {
	each(t, func(w *world) {
		for outcome, why := range map[taskcatalog.Outcome]string{taskcatalog.OutcomeFailed: "did not finish", taskcatalog.OutcomeRefused: "did not finish", taskcatalog.OutcomeInterrupted: "did not finish", "unknown": ""} {
			w.run(string(outcome), func(w *world) {
				n := w.active(string(outcome))
				w.move(n, broker.Draining, broker.OwnerOperator)
				k := w.enqueue(n, "node.drain", "")
				d := w.fetch(n)[0]
				if outcome == "unknown" {
					w.clock.Advance(2*time.Hour + store.UnknownGrace)
					_, err := w.queue.Sweep(ctx)
					w.ok(err)
				} else {
					_, err := w.queue.Result(ctx, n.Peer, k.ID, w.answer(n, d, w.evidence(n, d, outcome, ""), ""))
					w.ok(err)
				}
				if got := w.task(k.ID); got.Status != broker.TaskFailed {
					w.t.Fatalf("the drain is %s", got.Status)
				}
				watch := &presence.Watch{DB: w.db, Now: w.clock.Now, Log: zap.NewNop()}
				for range 3 {
					w.clock.Advance(presence.Every)
					w.ok(w.db.TouchNodes(ctx, map[string]time.Time{n.Peer.NodeID: w.clock.Now()}))
					w.ok(watch.Look(ctx))
				}
				got, err := w.db.Node(ctx, n.Peer.NodeID)
				w.ok(err)
				if got.Status != broker.Draining || !strings.Contains(got.StatusReason, why) || why != "" && !strings.Contains(got.StatusReason, k.ID) {
					w.t.Fatalf("the node is %s because %q", got.Status, got.StatusReason)
				}
				// A person may continue the drain.
				w.enqueue(n, "node.drain", "")
				w.succeed(n, w.fetch(n)[0], `{"drained":true,"sessions_ended":0,"processes_stopped":0}`)
				if got := w.status(n); got != broker.Retired {
					w.t.Fatalf("after a second drain the node is %s", got)
				}
			})
		}
	})
}

func TestADrainThatWasCalledOffGivesTheNodeBack(t *testing.T) {
	each(t, func(w *world) {
		n := w.active("one")
		w.move(n, broker.Draining, broker.OwnerOperator)
		k := w.enqueue(n, "node.drain", "")
		d := w.fetch(n)[0]
		_, err := w.queue.Cancel(ctx, operator, k.ID, "wrong node")
		w.ok(err)
		_, err = w.queue.Result(ctx, n.Peer, k.ID, w.answer(n, d, w.evidence(n, d, taskcatalog.OutcomeCanceled, ""), ""))
		w.ok(err)
		if got := w.status(n); got != broker.Offline {
			w.t.Fatalf("the node is %s", got)
		}
	})
}

func TestADeletedNodeCannotComeBack(t *testing.T) {
	each(t, func(w *world) {
		n := w.active("one")
		w.move(n, broker.Draining, broker.OwnerOperator)
		w.move(n, broker.Retired, broker.OwnerDrain)
		w.move(n, broker.Removing, broker.OwnerRemoval)
		w.enqueue(n, "node.uninstall", "")
		waiting := w.enqueue(n, "node.heartbeat_check", "")
		d := w.fetch(n)
		w.succeed(n, d[0], `{"removes":[]}`)
		if w.status(n) != broker.Deleted {
			w.t.Fatal("the node is " + w.status(n))
		}
		denied, err := w.db.DenyList(ctx, time.Time{})
		w.ok(err)
		if denied[n.Serial] == "" {
			w.t.Fatal("its certificate is still good")
		}
		if k := w.task(waiting.ID); k.Status != broker.TaskFailed || k.Code != "node_deleted" {
			w.t.Fatalf("what was open is %s %s", k.Status, k.Code)
		}
	})
}

func TestATrustUpdateConfirmsWhatTheNodeHas(t *testing.T) {
	each(t, func(w *world) {
		n := w.active("one")
		w.enqueue(n, "node.trust_update", "")
		w.succeed(n, w.fetch(n)[0], `{"version":2,"changed":true}`)
		if got, _ := w.db.Node(ctx, n.Peer.NodeID); got.TrustVersion != 2 {
			w.t.Fatalf("version %d", got.TrustVersion)
		}
		// An unknown version changes nothing.
		w.enqueue(n, "node.trust_update", "")
		w.succeed(n, w.fetch(n)[0], `{"version":99,"changed":true}`)
		if got, _ := w.db.Node(ctx, n.Peer.NodeID); got.TrustVersion != 2 {
			w.t.Fatalf("version %d", got.TrustVersion)
		}
		rows, err := w.db.ListAudit(ctx, store.AuditFilter{Code: "trust_version_unknown"})
		w.ok(err)
		if len(rows) != 1 {
			w.t.Fatalf("audited %d times", len(rows))
		}
	})
}

func TestWhatAnEarlierEnrolmentLeftOpenEnds(t *testing.T) {
	each(t, func(w *world) {
		n := w.active("one")
		k := w.enqueue(n, "node.drain", "")
		d := w.fetch(n)[0]
		w.ok(w.db.IssueToken(ctx, operator, n.Peer.NodeID, "hash-2", w.clock.Now().Add(1<<40), "again"))
		again := w.enroll(n.Peer.NodeID, "hash-2", 2, nil)
		if got := w.task(k.ID); got.Status != broker.TaskFailed || got.Code != taskcatalog.CodeNodeReenrolled {
			w.t.Fatalf("the task is %s %s", got.Status, got.Code)
		}
		denied, err := w.db.DenyList(ctx, time.Time{})
		w.ok(err)
		if denied[n.Serial] != "node_reenrolled" || denied[again.Serial] != "" {
			w.t.Fatalf("denied: %v", denied)
		}
		// The old enrolment neither fetches nor reports any more.
		_, err = w.queue.Wait(ctx, n.Peer, lanes, 0)
		w.refused(err, "epoch_superseded")
		r, err := w.queue.Result(ctx, n.Peer, k.ID, w.answer(n, d, w.evidence(n, d, taskcatalog.OutcomeSucceeded, `{"drained":true,"sessions_ended":0,"processes_stopped":0}`), `{"drained":true,"sessions_ended":0,"processes_stopped":0}`))
		if err != nil || !r.Repeat || r.Status != "failed" {
			w.t.Fatalf("%+v, %v", r, err)
		}
		// The old enrolment cannot report on a task of the new enrolment either.
		fresh, _, err := w.queue.Enqueue(ctx, operator, taskqueue.Request{NodeID: n.Peer.NodeID, Type: "node.heartbeat_check"})
		w.ok(err)
		w.fetch(again)
		_, err = w.queue.Result(ctx, n.Peer, fresh.ID, wire.ResultRequest{Attempt: 1, Outcome: taskcatalog.OutcomeFailed})
		w.refused(err, "epoch_superseded")
	})
}
