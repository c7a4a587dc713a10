package store_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/store"
	"github.com/hostler/hostler/broker/store/storetest"
	"github.com/hostler/hostler/pki"
	"github.com/hostler/hostler/taskcatalog"
)

// rotating is an active node that holds the lease of its rotation task, and the serial of its
// present certificate.
func rotating(t *testing.T, db *store.DB, clock *storetest.Clock, hostname string) (broker.Node, broker.Task, string) {
	t.Helper()
	n := newMember(t, db, hostname)
	must(db.Transition(ctx, admin, n.ID, store.Change{To: broker.Active, By: broker.OwnerOnboarding}))(t)
	k := newTask(db, n, taskcatalog.LaneExclusive)
	k.Type = "node.rotate_identity"
	k, _, err := db.InsertTask(ctx, admin, k)
	ok(t, err)
	claim(t, db, n, k.ID)
	clock.Advance(time.Second)
	return must(db.Node(ctx, n.ID))(t), k, must(db.Certificates(ctx, n.ID))(t)[0].Serial
}

func asksFor(db *store.DB, n broker.Node, serial, key string) store.Renewal {
	in := enrollment(db, "", key)
	cert, _ := in.Issue(n, n.Epoch)
	return store.Renewal{NodeID: n.ID, Epoch: n.Epoch, OldSerial: serial, PublicKeyDigest: key, Cert: cert, Report: in.Report, Remote: "192.0.2." + key}
}

// rotates gives a node without a rotation task such a task, and asks for a certificate for a new
// key.
func rotates(t testing.TB, db *store.DB, clock *storetest.Clock, n broker.Node, key string) (taskID, serial string, cert store.IssuedCert) {
	t.Helper()
	k := newTask(db, n, taskcatalog.LaneExclusive)
	k.Type = "node.rotate_identity"
	k, _, err := db.InsertTask(ctx, admin, k)
	ok(t, err)
	claim(t, db, n, k.ID)
	clock.Advance(time.Second)
	for _, c := range must(db.Certificates(ctx, n.ID))(t) {
		if c.DeniedAt.IsZero() {
			serial = c.Serial
		}
	}
	cert, err = db.Rotate(ctx, k.ID, asksFor(db, n, serial, key))
	ok(t, err)
	return k.ID, serial, cert
}

func TestAnEnrolmentIsSinceItsCertificate(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, _ *storetest.Clock) {
		n := newNode(t, db, "one")
		if !n.IdentitySince.IsZero() {
			t.Errorf("before any enrolment: since %v", n.IdentitySince)
		}
		e := enroll(t, db, "hash-one", "key-one")
		want := e.Cert.NotBefore.Add(pki.Backdate)
		if got := must(db.Node(ctx, n.ID))(t).IdentitySince; !got.Equal(want) || !e.Node.IdentitySince.Equal(want) {
			t.Errorf("since %v and %v, want %v", got, e.Node.IdentitySince, want)
		}
	})
}

// Several holders of the old key ask at the same time. One gets a certificate, from any broker, and
// the others are refused.
func TestOfTwoKeysForOneTaskOneIsTaken(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, clock *storetest.Clock) {
		n, k, serial := rotating(t, db, clock, "one")
		asked := []store.Renewal{asksFor(db, n, serial, "1"), asksFor(db, n, serial, "2"), asksFor(db, n, serial, "3")}
		given, refusals := make([]store.IssuedCert, len(asked)), make([]error, len(asked))
		var wg sync.WaitGroup
		for i, r := range asked {
			wg.Go(func() { given[i], refusals[i] = db.Rotate(ctx, k.ID, r) })
		}
		wg.Wait()
		var serials []string
		for i := range asked {
			if refusals[i] == nil {
				serials = append(serials, given[i].Serial)
			} else {
				refused(t, refusals[i], "identity_conflict")
			}
		}
		if got := must(db.Certificates(ctx, n.ID))(t); len(serials) != 1 || len(got) != 2 {
			t.Errorf("%v were given, %d are on record", serials, len(got))
		}
		if got := must(db.Node(ctx, n.ID))(t); got.Status != broker.Quarantined {
			t.Errorf("the node is %s", got.Status)
		}
		if got := audited(t, db, "node.identity_conflict", "identity_conflict"); got != 1 {
			t.Errorf("told of %d times", got)
		}
	})
}

func TestTheFirstRequestWithANewKeyCountsOnce(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, clock *storetest.Clock) {
		n, k, serial := rotating(t, db, clock, "one")
		cert := must(db.Rotate(ctx, k.ID, asksFor(db, n, serial, "1")))(t)
		if used := must(db.RotationUsed(ctx, n.ID, n.Epoch, serial))(t); used {
			t.Error("the old certificate put the new one in force")
		}
		uses := make([]bool, 8)
		var wg sync.WaitGroup
		for i := range uses {
			wg.Go(func() { uses[i], _ = db.RotationUsed(ctx, n.ID, n.Epoch, cert.Serial) })
		}
		wg.Wait()
		count := 0
		for _, used := range uses {
			if used {
				count++
			}
		}
		list := must(db.DenyList(ctx, time.Time{}))(t)
		if count != 1 || audited(t, db, "node.identity_rotated", "") != 1 || len(list) != 1 || list[serial] != store.DenyRotated {
			t.Errorf("used %d times, denied %v", count, list)
		}
		// Later certificates for the new key are no rotation.
		clock.Advance(time.Hour)
		r := asksFor(db, n, cert.Serial, "1")
		must(db.RecordRenewal(ctx, r))(t)
		if used := must(db.RotationUsed(ctx, n.ID, n.Epoch, r.Cert.Serial))(t); used {
			t.Error("a renewal is taken for a rotation")
		}
		if got := must(db.Node(ctx, n.ID))(t).IdentitySince; !got.Equal(cert.NotBefore.Add(pki.Backdate)) {
			t.Errorf("since %v", got)
		}
	})
}

// The task of a silent node is ended by the broker, not by the node: its rotation is neither in
// force nor void until the node reports. Another rotation may begin.
func TestASilentRotationGivesWayToTheNext(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, clock *storetest.Clock) {
		n, first, serial := rotating(t, db, clock, "one")
		cert := must(db.Rotate(ctx, first.ID, asksFor(db, n, serial, "1")))(t)
		clock.Advance(2 * time.Hour)
		for range 3 {
			must(db.SweepTasks(ctx))(t)
		}
		if got := must(db.Task(ctx, first.ID))(t); !got.Status.Ended() {
			t.Fatalf("the task is %s", got.Status)
		}
		second := newTask(db, n, taskcatalog.LaneExclusive)
		second.Type = "node.rotate_identity"
		_, _, err := db.InsertTask(ctx, admin, second)
		ok(t, err)
		claim(t, db, n, second.ID)
		must(db.Rotate(ctx, second.ID, asksFor(db, n, serial, "2")))(t)
		_, err = db.RotationUsed(ctx, n.ID, n.Epoch, cert.Serial)
		refused(t, err, "certificate_denied")
		_, err = db.Rotate(ctx, first.ID, asksFor(db, n, serial, "1"))
		refused(t, err, "rotation_over")
		if got := must(db.Node(ctx, n.ID))(t); got.Status == broker.Quarantined {
			t.Errorf("the node is %s (%s)", got.Status, got.StatusReason)
		}
	})
}

// A request for the certificate of a rotation whose task has ended voids the rotation; the node may
// then renew its present certificate.
func TestARotationWhoseTaskHasEndedIsVoidOnceTheNodeAsks(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, clock *storetest.Clock) {
		n, k, serial := rotating(t, db, clock, "one")
		r := asksFor(db, n, serial, "1")
		cert := must(db.Rotate(ctx, k.ID, r))(t)
		clock.Advance(2 * time.Hour)
		for range 3 {
			must(db.SweepTasks(ctx))(t)
		}
		_, err := db.Rotate(ctx, k.ID, r)
		refused(t, err, "rotation_over")
		if list := must(db.DenyList(ctx, time.Time{}))(t); len(list) != 1 || list[cert.Serial] == "" {
			t.Errorf("denied: %v", list)
		}
		must(db.RecordRenewal(ctx, asksFor(db, n, serial, "key-one")))(t)
		if got := must(db.Node(ctx, n.ID))(t); got.Status != broker.Active {
			t.Errorf("the node is %s (%s)", got.Status, got.StatusReason)
		}
	})
}

// However many agents come and go, a node's row stays small, and a conflict of two agents is
// announced once.
func TestAgentsThatComeAndGoLeaveLittle(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, clock *storetest.Clock) {
		n := newMember(t, db, "one")
		must(db.Transition(ctx, admin, n.ID, store.Change{To: broker.Active, By: broker.OwnerOnboarding}))(t)
		poll := func(i int) store.Poll {
			return store.Poll{NodeID: n.ID, Epoch: n.Epoch, Instance: fmt.Sprintf("%032x", i), Remote: fmt.Sprintf("192.0.2.%d", i%250), Came: db.Now()}
		}
		for i := range 100 {
			clock.Advance(time.Minute)
			if _, conflict, err := db.Polled(ctx, poll(i+1)); err != nil || conflict {
				t.Fatalf("agent %d: %v, %v", i, conflict, err)
			}
		}
		clock.Advance(time.Minute)
		if _, conflict, err := db.Polled(ctx, poll(1)); err != nil || conflict {
			t.Errorf("one that ran a hundred restarts ago is remembered: %v", err) // only eight are
		}
		clock.Advance(time.Minute)
		var wg sync.WaitGroup
		var mu sync.Mutex
		conflicts := 0
		for range 6 {
			wg.Go(func() {
				_, conflict, err := db.Polled(ctx, poll(98))
				mu.Lock()
				defer mu.Unlock()
				if err != nil {
					t.Error(err)
				}
				if conflict {
					conflicts++
				}
			})
		}
		wg.Wait()
		if conflicts != 1 || audited(t, db, "node.identity_conflict", "identity_conflict") != 1 {
			t.Errorf("%d conflicts", conflicts)
		}
	})
}
