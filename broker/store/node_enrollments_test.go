package store_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/store"
	"github.com/hostler/hostler/broker/store/storetest"
	"github.com/hostler/hostler/taskcatalog"
)

func TestALostAnswerIsGivenAgainToTheSameKeyOnly(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, clock *storetest.Clock) {
		n := newNode(t, db, "one")
		first := enroll(t, db, "hash-one", "key-a")
		if first.Repeat || first.Node.Epoch != 1 || first.Node.Status != broker.Enrolling {
			t.Fatalf("first %+v", first)
		}
		clock.Advance(30 * time.Hour) // the token has expired; the answer was given before
		again := enroll(t, db, "hash-one", "key-a")
		if !again.Repeat || again.Cert.Serial != first.Cert.Serial || again.Cert.PEM != first.Cert.PEM || again.Node.Epoch != 1 {
			t.Fatalf("again %+v", again)
		}
		_, err := db.Enroll(ctx, enrollment(db, "hash-one", "key-b"))
		refused(t, err, "token_used")
		must(db.FirstContact(ctx, n.ID, 1, first.Cert.Serial))(t)
		clock.Advance(time.Minute)
		_, err = db.Enroll(ctx, enrollment(db, "hash-one", "key-a"))
		refused(t, err, "token_used")
		if got := audited(t, db, "enroll.refused", "token_used"); got != 2 {
			t.Fatalf("audited %d refusals", got)
		}
	})
}

// A key belongs to a single enrolment. A new token with a certified key comes from a copy, or from
// a former system that got the token: on the same node, on another node, or by an earlier key that
// a rotation has replaced.
func TestAKeyEnrolsOnce(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, clock *storetest.Clock) {
		n := newMember(t, db, "one") // key-one
		newNode(t, db, "two")
		_, err := db.Enroll(ctx, enrollment(db, "hash-two", "key-one"))
		refused(t, err, "enrol_key_known")
		must(db.Transition(ctx, admin, n.ID, store.Change{To: broker.Active, By: broker.OwnerOnboarding}))(t)
		_, _, cert := rotates(t, db, clock, n, "key-new")
		must(db.RotationUsed(ctx, n.ID, n.Epoch, cert.Serial))(t)
		ok(t, db.IssueToken(ctx, admin, n.ID, "hash-again", clock.Now().Add(time.Hour), "by hand"))
		for _, key := range []string{"key-one", "key-new"} {
			clock.Advance(2 * time.Minute)
			_, err = db.Enroll(ctx, enrollment(db, "hash-again", key))
			refused(t, err, "enrol_key_known")
		}
		if got := must(db.Node(ctx, n.ID))(t); got.Epoch != 1 || audited(t, db, "enroll.refused", "enrol_key_known") != 3 {
			t.Errorf("epoch %d, or the refusals are not audited", got.Epoch)
		}
		if _, drifts, err := db.MAASState(ctx, n.ID); err != nil || drifts {
			t.Errorf("a node whose machine was never given back has a drift (%v)", err)
		}
		// The token stays valid, and the answer is repeated until the certificate is used.
		for i := range 2 {
			if e := enroll(t, db, "hash-again", "key-fresh"); e.Node.Epoch != 2 || e.Repeat != (i > 0) {
				t.Errorf("epoch %d, repeat %v", e.Node.Epoch, e.Repeat)
			}
		}
	})
}

// The former system reads the token of the reimage, or has the token on its disk, and shows its key
// without its certificate: the enrolment is refused, and announced as the former system's.
func TestTheSystemOfBeforeDoesNotEnrolByTheTokenOfAReimage(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, clock *storetest.Clock) {
		n := member(t, db, "gpu-1")
		serial := must(db.Certificates(ctx, n.ID))(t)[0].Serial
		must(db.BeginTurnover(ctx, admin, turn(n, "r-1"), "a-1"))(t)
		ok(t, db.CutOff(ctx, admin, turn(n, "r-1")))
		ok(t, db.Wiped(ctx, admin, turn(n, "r-1")))
		ok(t, db.IssueToken(ctx, admin, n.ID, "hash-run", clock.Now().Add(time.Hour), "for the first boot"))
		clock.Advance(time.Minute)
		in := enrollment(db, "hash-run", "key-gpu-1")
		in.Remote = "10.0.0.9"
		_, err := db.Enroll(ctx, in)
		refused(t, err, "enrol_key_known")
		s, _, err := db.MAASState(ctx, n.ID)
		if err != nil || !s.Drift || s.Rule != store.RulePreviousSystem {
			t.Errorf("%+v, %v", s, err)
		}
		if r, _, err := db.LastRelease(ctx, n.ID); err != nil || r.Serial != serial || r.Remote != "10.0.0.9" || r.ShownAt.IsZero() {
			t.Errorf("%+v, %v", r, err)
		}
		if e := enroll(t, db, "hash-run", "key-fresh"); e.Node.Epoch != n.Epoch+1 {
			t.Errorf("the new system has epoch %d", e.Node.Epoch)
		}
	})
}

func TestATokenIsGoodForItsTimeAndItsMachine(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, clock *storetest.Clock) {
		_, err := db.Enroll(ctx, enrollment(db, "hash-of-nothing", "key"))
		refused(t, err, "token_unknown")
		newNode(t, db, "late")
		clock.Advance(time.Hour + time.Microsecond)
		_, err = db.Enroll(ctx, enrollment(db, "hash-late", "key"))
		refused(t, err, "token_expired")
		ok(t, db.ExtendToken(ctx, admin, "n-late", clock.Now().Add(time.Hour), "slow firmware"))
		enroll(t, db, "hash-late", "key")

		must(db.CreateNode(ctx, admin, store.NewNode{
			ID: "n-maas", Hostname: "maas", Bootstrap: "cloud-init", MAASSystemID: "abc123", TokenHash: "hash-maas", TokenExpires: clock.Now().Add(time.Hour),
		}))(t)
		in := enrollment(db, "hash-maas", "key-m")
		in.MAASSystemID = "xyz789"
		_, err = db.Enroll(ctx, in)
		refused(t, err, "maas_system_mismatch")
		in.MAASSystemID = "abc123"
		must(db.Enroll(ctx, in))(t)

		newNode(t, db, "gone")
		must(db.Transition(ctx, admin, "n-gone", store.Change{To: broker.Deleted, By: broker.OwnerRemoval}))(t)
		_, err = db.Enroll(ctx, enrollment(db, "hash-gone", "key-g"))
		refused(t, err, "node_deleted")
		refused(t, db.ExtendToken(ctx, admin, "n-gone", clock.Now().Add(time.Hour), "wanted back"), "node_deleted")
		refused(t, db.IssueToken(ctx, admin, "n-gone", "hash-new", clock.Now().Add(time.Hour), "wanted back"), "node_deleted")
	})
}

func TestATokenIsExtendedTwiceAtMost(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, clock *storetest.Clock) {
		n := newNode(t, db, "one")
		for i := range 2 {
			ok(t, db.ExtendToken(ctx, admin, n.ID, clock.Now().Add(time.Duration(i+2)*time.Hour), "again"))
		}
		refused(t, db.ExtendToken(ctx, admin, n.ID, clock.Now().Add(9*time.Hour), "again"), "token_extended_twice")
		ok(t, db.IssueToken(ctx, admin, n.ID, "hash-new", clock.Now().Add(time.Hour), "lost"))
		refused(t, db.ExtendToken(ctx, admin, n.ID, clock.Now().Add(time.Minute), "shorter"), "token_not_longer")
		_, err := db.Enroll(ctx, enrollment(db, "hash-one", "key"))
		refused(t, err, "token_used") // a later token replaced the token
		e := enroll(t, db, "hash-new", "key")
		must(db.FirstContact(ctx, n.ID, 1, e.Cert.Serial))(t)
		refused(t, db.ExtendToken(ctx, admin, n.ID, clock.Now().Add(9*time.Hour), ""), "token_none")
		refused(t, db.IssueToken(ctx, admin, "n-none", "h", clock.Now(), ""), "node_not_found")
	})
}

// An attacker with the token of an enrolment can take over from the enrolled machine only with the
// first request of the new enrolment, not before: an answer may have been lost.
func TestANewEnrolmentEndsTheOldOneAtItsFirstRequest(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, clock *storetest.Clock) {
		n := newMember(t, db, "one")
		old := must(db.Certificates(ctx, n.ID))(t)[0]
		k := enqueue(t, db, n, taskcatalog.LaneExclusive)
		ok(t, db.IssueToken(ctx, admin, n.ID, "hash-2", clock.Now().Add(time.Hour), "reimage"))
		e := enroll(t, db, "hash-2", "key-2")
		if e.Node.Epoch != 2 {
			t.Fatalf("epoch %d", e.Node.Epoch)
		}
		if len(must(db.DenyList(ctx, time.Time{}))(t)) != 0 || must(db.Task(ctx, k.ID))(t).Status != broker.TaskQueued {
			t.Fatal("it ended before the new enrolment was heard")
		}
		_, err := db.FirstContact(ctx, n.ID, 1, old.Serial)
		refused(t, err, "epoch_superseded")
		if !must(db.FirstContact(ctx, n.ID, 2, e.Cert.Serial))(t) {
			t.Fatal("the first contact was not the first")
		}
		if must(db.FirstContact(ctx, n.ID, 2, e.Cert.Serial))(t) {
			t.Fatal("the second contact was the first again")
		}
		if denied := must(db.DenyList(ctx, time.Time{}))(t); len(denied) != 1 || denied[old.Serial] != "node_reenrolled" {
			t.Fatalf("denied %v", denied)
		}
		if got := must(db.Task(ctx, k.ID))(t); got.Status != broker.TaskFailed || got.Code != taskcatalog.CodeNodeReenrolled {
			t.Fatalf("the task is %s %s", got.Status, got.Code)
		}
		_, _, err = db.InsertTask(ctx, admin, newTask(db, n, taskcatalog.LaneExclusive)) // signed for epoch 1
		refused(t, err, "node_changed")
	})
}

func TestARenewalNeedsTheEpochAndACertificateThatIsNotDenied(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, clock *storetest.Clock) {
		n := newMember(t, db, "one")
		old := must(db.Certificates(ctx, n.ID))(t)[0]
		ok(t, db.SaveBundle(ctx, admin, 1, []byte("b1"), ""))
		ok(t, db.SaveBundle(ctx, admin, 2, []byte("b2"), ""))
		r := store.Renewal{
			NodeID: n.ID, Epoch: 1, OldSerial: old.Serial, PublicKeyDigest: "key-one", TrustVersion: 2, Late: true,
			Cert:   store.IssuedCert{Serial: "ff01", PEM: "pem", PublicKey: []byte("key-one"), NotBefore: clock.Now(), NotAfter: clock.Now().Add(24 * time.Hour)},
			Report: store.NodeReport{AgentVersion: "1.1", TaskTypes: []string{"node.drain@1"}, Digest: "d2"},
		}
		got := must(db.RecordRenewal(ctx, r))(t)
		if got.AgentVersion != "1.1" || got.TrustVersion != 2 || !got.CertNotAfter.Equal(r.Cert.NotAfter) || audited(t, db, "node.late_renewal", "") != 1 {
			t.Fatalf("renewed %+v", got)
		}
		if stored := must(db.Node(ctx, n.ID))(t); stored.AgentVersion != "1.1" || len(stored.TaskTypes) != 1 {
			t.Fatalf("stored %+v", stored)
		}
		r.Epoch, r.Cert.Serial = 2, "ff02"
		_, err := db.RecordRenewal(ctx, r)
		refused(t, err, "epoch_superseded")
		r.Epoch = 1
		ok(t, db.Deny(ctx, admin, old.Serial, "stolen"))
		_, err = db.RecordRenewal(ctx, r)
		refused(t, err, "certificate_denied")
		r.OldSerial = "0000"
		_, err = db.RecordRenewal(ctx, r)
		refused(t, err, "certificate_denied")
		if got := len(must(db.Certificates(ctx, n.ID))(t)); got != 2 {
			t.Fatalf("%d certificates", got)
		}
	})
}

func TestDenyingIsHintedAndListed(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, _ *storetest.Clock) {
		n := newMember(t, db, "one")
		serial := must(db.Certificates(ctx, n.ID))(t)[0].Serial
		hints := db.Hints(t.Context())
		ok(t, db.Deny(ctx, admin, serial, "stolen"))
		if h := <-hints; h != (store.Hint{Kind: store.HintDeny, ID: serial}) {
			t.Fatalf("hint %+v", h)
		}
		ok(t, db.DenyNode(ctx, admin, n.ID, "again"))
		if got := must(db.DenyList(ctx, time.Time{}))(t); len(got) != 1 || got[serial] != "stolen" {
			t.Fatalf("denied %v", got)
		}
		ok(t, db.Deny(ctx, admin, serial, "for another reason"))
		if got := must(db.DenyList(ctx, time.Time{}))(t); got[serial] != "stolen" {
			t.Errorf("a second denial changed the reason: %v", got)
		}
		if got := audited(t, db, "certificate.deny", ""); got != 2 { // one for the certificate, one for the node
			t.Errorf("%d rows tell of denials, want 2", got)
		}
		refused(t, db.Deny(ctx, admin, "0000", "x"), "certificate_not_found")
	})
}

// A client with a certificate that the broker itself denied is still answered. An operator's denial
// ends that, and is audited like any other denial; no later denial replaces an operator's.
func TestAnOperatorsDenialTakesThePlaceOfOneThatIsStillAnswered(t *testing.T) {
	for reason, replaced := range map[string]bool{
		store.DenyRotated: true, store.DenyReleased: true, store.DenyKnown: true,
		"node_reenrolled": false, store.DenyOperator + "stolen before": false,
	} {
		t.Run(reason, func(t *testing.T) {
			storetest.Each(t, func(t *testing.T, db *store.DB, clock *storetest.Clock) {
				n := newMember(t, db, "one")
				serial := must(db.Certificates(ctx, n.ID))(t)[0].Serial
				ok(t, db.Deny(ctx, broker.Actor{Name: "system"}, serial, reason))
				first := must(db.Certificate(ctx, serial))(t).DeniedAt
				clock.Advance(time.Minute)
				hints := db.Hints(t.Context())
				want, more := reason, 0
				if replaced {
					want, more = store.DenyOperator+"stolen", 1
				}
				for range 2 {
					ok(t, db.Deny(ctx, admin, serial, store.DenyOperator+"stolen"))
				}
				if c := must(db.Certificate(ctx, serial))(t); c.DenyReason != want || !c.DeniedAt.Equal(first) {
					t.Errorf("it is denied for %q since %v, want %q since %v", c.DenyReason, c.DeniedAt, want, first)
				}
				if got := must(db.DenyList(ctx, time.Time{}))(t)[serial]; got != want {
					t.Errorf("the list has %q, want %q", got, want)
				}
				rows := must(db.ListAudit(ctx, store.AuditFilter{Action: "certificate.deny", Limit: 100}))(t)
				if len(rows) != 1+more {
					t.Fatalf("%d rows, want %d", len(rows), 1+more)
				}
				for placed := int64(1); placed > 0; {
					placed = must(db.PlaceEvents(ctx, 100))(t)
				}
				events, _, err := db.Outbox(ctx, store.OutboxFilter{Types: []string{store.CertificateDeniedEvent}})
				if err != nil || len(events) != 1+more {
					t.Errorf("%d events, want %d (%v)", len(events), 1+more, err)
				}
				if !replaced {
					return
				}
				if e := rows[1]; e.Actor != admin.Name || e.Reason != "stolen" || !strings.Contains(string(e.Before), reason) {
					t.Errorf("the row %+v", e)
				}
				if h := <-hints; h != (store.Hint{Kind: store.HintDeny, ID: serial}) {
					t.Errorf("hint %+v", h)
				}
			})
		})
	}
}

func TestACertificateThatIsGoodForNothingLeavesTheDenyList(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, _ *storetest.Clock) {
		n := newMember(t, db, "one")
		cert := must(db.Certificates(ctx, n.ID))(t)[0]
		ok(t, db.Deny(ctx, admin, cert.Serial, "stolen"))
		if got := must(db.DenyList(ctx, cert.NotAfter))(t); got[cert.Serial] != "stolen" {
			t.Errorf("in its last moment it is not denied: %v", got)
		}
		if got := must(db.DenyList(ctx, cert.NotAfter.Add(time.Microsecond)))(t); len(got) != 0 {
			t.Errorf("after it the list still has %v", got)
		}
	})
}

func TestNodesThatWereHeardAreCountedAndTheOthersNamed(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, clock *storetest.Clock) {
		began := clock.Now()
		var ids []string
		for i, to := range []broker.NodeStatus{broker.Active, broker.Active, broker.Active, broker.Offline, broker.Quarantined, ""} {
			n := newMember(t, db, fmt.Sprint("n", i))
			if to != "" {
				must(db.Transition(ctx, admin, n.ID, store.Change{To: broker.Active, By: broker.OwnerOnboarding}))(t)
			}
			if to == broker.Offline {
				must(db.Transition(ctx, admin, n.ID, store.Change{To: to, By: broker.OwnerHeartbeat}))(t)
			}
			if to == broker.Quarantined {
				must(db.Transition(ctx, admin, n.ID, store.Change{To: to, By: broker.OwnerOperator}))(t)
			}
			ids = append(ids, n.ID)
		}
		since := began.Add(time.Minute)
		ok(t, db.TouchNodes(ctx, map[string]time.Time{ids[0]: since, ids[1]: since.Add(time.Second), ids[2]: since.Add(-time.Microsecond), ids[3]: since.Add(time.Hour), ids[4]: since}))
		heard, others, err := db.HeardSince(ctx, since)
		ok(t, err)
		site := must(db.Node(ctx, ids[0]))(t).Site
		if len(heard) != 1 || heard[site] != 2 {
			t.Errorf("counted %v, want 2 of site %q", heard, site)
		}
		slices.SortFunc(others, func(a, b broker.Node) int { return strings.Compare(string(a.Status), string(b.Status)) })
		if len(others) != 2 || others[0].ID != ids[2] || others[1].ID != ids[3] || others[1].Site != site || !others[1].LastAgentContactAt.Equal(since.Add(time.Hour)) {
			t.Errorf("the others are %+v", others)
		}
		if heard, _, err = db.HeardSince(ctx, since.Add(time.Hour)); err != nil || len(heard) != 0 {
			t.Errorf("where none was heard it counts %v (%v)", heard, err)
		}
	})
}

func TestHeartbeatsWriteTimesAndNothingElse(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, clock *storetest.Clock) {
		n := newMember(t, db, "one")
		heard := clock.Now().Add(time.Minute)
		batch := map[string]time.Time{n.ID: heard} // of more nodes than a single statement writes
		for i := range 1200 {
			batch[fmt.Sprintf("a-none-%d", i)] = heard
		}
		ok(t, db.TouchNodes(ctx, batch))
		ok(t, db.TouchNodes(ctx, map[string]time.Time{n.ID: clock.Now()})) // an older batch, written later
		got := must(db.Node(ctx, n.ID))(t)
		if !got.LastAgentContactAt.Equal(heard) || got.Status != n.Status || !got.UpdatedAt.Equal(n.UpdatedAt) {
			t.Fatalf("%+v", got)
		}
	})
}
