package store_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/store"
	"github.com/hostler/hostler/broker/store/storetest"
	"github.com/hostler/hostler/pki"
	"github.com/hostler/hostler/taskcatalog"
)

var (
	ctx   = context.Background()
	admin = broker.Actor{Name: "ada", Role: broker.RolePlatformAdmin}
	lanes = []taskcatalog.Lane{taskcatalog.LaneExclusive, taskcatalog.LaneConcurrent}
)

func must[T any](v T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func ok(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// refused checks that err is a refusal with a code.
func refused(t testing.TB, err error, code string) {
	t.Helper()
	if err == nil {
		t.Fatalf("it was let through, want %s", code)
	}
	if got := broker.AsError(err).Code; got != code {
		t.Fatalf("code %s (%v), want %s", got, err, code)
	}
}

// audited counts the rows with an action and a code.
func audited(t testing.TB, db *store.DB, action, code string) int {
	t.Helper()
	return len(must(db.ListAudit(ctx, store.AuditFilter{Action: action, Code: code, Limit: 10000}))(t))
}

func newNode(t testing.TB, db *store.DB, hostname string) broker.Node {
	t.Helper()
	return must(db.CreateNode(ctx, admin, store.NewNode{
		ID: "n-" + hostname, Hostname: hostname, Bootstrap: "command", TokenHash: "hash-" + hostname, TokenExpires: db.Now().Add(time.Hour),
	}))(t)
}

var serials int

// enroll lets a node in with a key.
func enroll(t testing.TB, db *store.DB, tokenHash, key string) store.Enrolled {
	t.Helper()
	return must(db.Enroll(ctx, enrollment(db, tokenHash, key)))(t)
}

func enrollment(db *store.DB, tokenHash, key string) store.EnrollInput {
	return store.EnrollInput{
		TokenHash: tokenHash, PublicKeyDigest: key, TrustVersion: 1, Remote: "192.0.2.1",
		Report: store.NodeReport{AgentVersion: "1.0", TaskTypes: taskcatalog.IDs(), Capabilities: map[string]string{"os": "linux"}, Digest: "d1"},
		Issue: func(broker.Node, int64) (store.IssuedCert, error) {
			serials++
			return store.IssuedCert{
				Serial: fmt.Sprintf("%08x", serials), PEM: "pem of " + key, PublicKey: []byte(key),
				NotBefore: db.Now().Add(-pki.Backdate), NotAfter: db.Now().Add(24 * time.Hour),
			}, nil
		},
	}
}

// newMember is an enrolled node that has been heard, at epoch 1.
func newMember(t testing.TB, db *store.DB, hostname string) broker.Node {
	t.Helper()
	n := newNode(t, db, hostname)
	e := enroll(t, db, "hash-"+hostname, "key-"+hostname)
	must(db.FirstContact(ctx, n.ID, 1, e.Cert.Serial))(t)
	return must(db.Node(ctx, n.ID))(t)
}

var taskNumber int

func newTask(db *store.DB, n broker.Node, lane taskcatalog.Lane) broker.Task {
	taskNumber++
	return broker.Task{
		ID: fmt.Sprintf("t-%08d", taskNumber), NodeID: n.ID, NodeEpoch: n.Epoch, Type: "node.drain", Version: 1,
		Class: taskcatalog.ClassMutating, Lane: lane, Params: []byte(`{}`), Envelope: []byte(fmt.Sprintf("envelope %d", taskNumber)),
		EnvelopeDigest: "sha256:x", KeyID: "k1", Nonce: "nonce", IssuedAt: db.Now(), NotAfter: db.Now().Add(time.Hour),
	}
}

func enqueue(t testing.TB, db *store.DB, n broker.Node, lane taskcatalog.Lane) broker.Task {
	t.Helper()
	k, _, err := db.InsertTask(ctx, admin, newTask(db, n, lane))
	ok(t, err)
	return k
}

func claim(t testing.TB, db *store.DB, n broker.Node, want ...string) []broker.Task {
	t.Helper()
	tasks, _, err := db.ClaimTasks(ctx, n.ID, n.Epoch, lanes, 10)
	ok(t, err)
	var got []string
	for _, k := range tasks {
		got = append(got, k.ID)
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Fatalf("claimed %v, want %v", got, want)
	}
	return tasks
}

func succeeded(k broker.Task) store.Result {
	return store.Result{
		NodeID: k.NodeID, Epoch: k.NodeEpoch, TaskID: k.ID, Attempt: max(k.Attempt, 1), Status: broker.TaskSucceeded,
		Outcome: taskcatalog.OutcomeSucceeded, Result: []byte(`{"drained":true}`), Evidence: []byte("evidence"),
	}
}

func TestATaskGoesFromEnqueueToResult(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, clock *storetest.Clock) {
		n := newMember(t, db, "one")
		k := enqueue(t, db, n, taskcatalog.LaneExclusive)
		got := claim(t, db, n, k.ID)[0]
		if got.Attempt != 1 || string(got.Envelope) != string(k.Envelope) || !got.LeaseUntil.Equal(clock.Now().Add(time.Minute)) {
			t.Fatalf("delivered %+v", got)
		}
		claim(t, db, n)
		done, repeat, err := db.RecordResult(ctx, succeeded(got), nil)
		ok(t, err)
		if repeat || done.Status != broker.TaskSucceeded {
			t.Fatalf("recorded %+v, repeat %v", done, repeat)
		}
		whole := must(db.Task(ctx, k.ID))(t)
		if string(whole.Result) != `{"drained":true}` || string(whole.Evidence) != "evidence" || string(whole.Envelope) != string(k.Envelope) || !whole.EndedAt.Equal(clock.Now()) {
			t.Fatalf("stored %+v", whole)
		}
	})
}

// A node that works on its only task is not woken for that task.
func TestANodeIsToldOfWhatItIsToFetchOrStop(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, _ *storetest.Clock) {
		n := newMember(t, db, "a")
		want := func(when string, told bool) {
			t.Helper()
			if got := must(db.NodesToTell(ctx))(t); slices.Contains(got, n.ID) != told || len(got) > 1 {
				t.Errorf("%s: to be told: %v", when, got)
			}
		}
		want("at first", false)
		k := enqueue(t, db, n, taskcatalog.LaneExclusive)
		want("queued", true)
		claim(t, db, n, k.ID)
		want("dispatched", false)
		enqueue(t, db, n, taskcatalog.LaneExclusive)
		want("another one waits for the lane", true)
		other := newMember(t, db, "b")
		k = enqueue(t, db, other, taskcatalog.LaneExclusive)
		claim(t, db, other, k.ID)
		_, err := db.CancelTask(ctx, admin, k.ID, "")
		ok(t, err)
		if got := must(db.NodesToTell(ctx))(t); !slices.Contains(got, other.ID) {
			t.Errorf("to be stopped: to be told: %v", got)
		}
	})
}

// A poll may rely on NothingOpen: with nothing open, a claim would neither lease, nor cancel, nor
// refuse anything.
func TestNothingIsOpenOnlyWhereAClaimWouldDoNothing(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, _ *storetest.Clock) {
		n := newMember(t, db, "a")
		want := func(when string, epoch int64, nothing bool) {
			t.Helper()
			if got := must(db.NothingOpen(ctx, n.ID, epoch))(t); got != nothing {
				t.Errorf("%s: nothing open = %v", when, got)
			}
		}
		want("at first", n.Epoch, true)
		want("of another enrolment", n.Epoch+1, false)
		k := enqueue(t, db, n, taskcatalog.LaneExclusive)
		want("queued", n.Epoch, false)
		got, _, err := db.ClaimTasks(ctx, n.ID, n.Epoch, lanes, 1)
		ok(t, err)
		want("dispatched", n.Epoch, false)
		_, _, err = db.RecordResult(ctx, succeeded(got[0]), nil)
		ok(t, err)
		want("ended", n.Epoch, true)
		if nothing := must(db.NothingOpen(ctx, "n-unknown", 1))(t); nothing || k.ID != got[0].ID {
			t.Error("a node that is not there has nothing open")
		}
	})
}
