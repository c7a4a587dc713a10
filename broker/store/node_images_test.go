package store_test

import (
	"testing"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/store"
	"github.com/hostler/hostler/broker/store/storetest"
)

// An image counts for the enrolment that came with it: what an agent that enrolled again runs on is not
// known. The baseline keeps the image on which it was taken.
func TestAnImageCountsForOneEnrolment(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, clock *storetest.Clock) {
		n := member(t, db, "gpu-1")
		is := func(when, name, baseline string) {
			t.Helper()
			if i := must(db.NodeImage(ctx, n.ID))(t); i.Name != name || i.BaselineOf != baseline {
				t.Errorf("%s: image %q, baseline of %q, want %q and %q", when, i.Name, i.BaselineOf, name, baseline)
			}
			if c := must(db.ColumnsOf(ctx, []string{n.ID}))(t)[n.ID]; c.Image != name {
				t.Errorf("%s: a list says %q, want %q", when, c.Image, name)
			}
		}
		installs := func(run, image string, epoch int64) {
			t.Helper()
			for range 2 { // a repeated call changes nothing more
				ok(t, db.RecordImage(ctx, admin, n.ID, epoch, broker.NodeImage{Name: image, RunID: run}))
			}
		}
		is("no run has installed one", "", "")
		installs("r-1", "ubuntu/noble", n.Epoch)
		is("installed", "ubuntu/noble", "ubuntu/noble")
		ok(t, db.SaveBaseline(ctx, admin, n.ID, "sha256:1", []byte(`{}`), "accepted"))
		is("another baseline was accepted", "ubuntu/noble", "ubuntu/noble")

		must(db.BeginTurnover(ctx, admin, turn(n, "r-2")))(t)
		ok(t, db.CutOff(ctx, admin, turn(n, "r-2")))
		ok(t, db.Wiped(ctx, admin, turn(n, "r-2")))
		is("MAAS has the machine back", "", "ubuntu/noble")
		installs("r-2", "custom/golden", n.Epoch+1)
		is("the agent has not enrolled", "", "ubuntu/noble")
		ok(t, db.IssueToken(ctx, admin, n.ID, "second", clock.Now().Add(time.Hour), "reimage"))
		enroll(t, db, "second", "key-2")
		is("the agent has enrolled", "custom/golden", "ubuntu/noble")
		if got := audited(t, db, "node.image", ""); got != 2 {
			t.Errorf("%d audit rows, want one an installation", got)
		}

		clock.Advance(time.Minute)
		ok(t, db.IssueToken(ctx, admin, n.ID, "third", clock.Now().Add(time.Hour), "by hand"))
		enroll(t, db, "third", "key-3")
		is("an agent enrolled by hand", "", "ubuntu/noble")
		ok(t, db.SaveBaseline(ctx, admin, n.ID, "sha256:2", []byte(`{"a":1}`), "accepted"))
		is("its baseline was accepted", "", "")
	})
}

// The agent may enrol, and its baseline be taken, before the run sees the end of the installation.
func TestABaselineMayBeTakenBeforeItsImageIsRecorded(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, clock *storetest.Clock) {
		fresh, old := newMember(t, db, "gpu-1"), newMember(t, db, "gpu-2")
		for _, n := range []broker.Node{fresh, old} {
			ok(t, db.SaveBaseline(ctx, admin, n.ID, "sha256:"+n.ID, []byte(`{}`), "enrolled"))
		}
		clock.Advance(time.Minute)
		ok(t, db.IssueToken(ctx, admin, old.ID, "again", clock.Now().Add(time.Hour), "reimage"))
		enroll(t, db, "again", "key-again")
		for n, want := range map[string]string{fresh.ID: "ubuntu/noble", old.ID: ""} {
			now := must(db.Node(ctx, n))(t)
			ok(t, db.RecordImage(ctx, admin, n, now.Epoch, broker.NodeImage{Name: "ubuntu/noble", RunID: "r-1"}))
			if i := must(db.NodeImage(ctx, n))(t); i.BaselineOf != want || i.Name != "ubuntu/noble" {
				t.Errorf("node %s: %+v, want a baseline of %q", n, i, want)
			}
		}
	})
}
