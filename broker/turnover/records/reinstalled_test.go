package records

import (
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

// A reinstalled system becomes the node's baseline if only installation values differ; other
// differences are only reported.
func TestAFreshSystemBecomesTheBaselineUnlessMoreDiffers(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, clock *storetest.Clock) {
		ctx, ada := t.Context(), broker.Actor{Name: "ada"}
		ok := func(err error) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
		}
		n, err := db.CreateNode(ctx, ada, store.NewNode{ID: "n-abcdefghijklmnop", Hostname: "gpu-1", TokenHash: "h", TokenExpires: db.Now().Add(time.Hour)})
		ok(err)
		enrols := func(token string) store.EnrollInput {
			return store.EnrollInput{
				TokenHash: token, PublicKeyDigest: "k" + token, Report: store.NodeReport{AgentVersion: "1.0", TaskTypes: taskcatalog.IDs(), Digest: "d", Facts: boots("old")},
				Issue: func(broker.Node, int64) (store.IssuedCert, error) {
					return store.IssuedCert{Serial: "01" + token, PEM: "pem", PublicKey: []byte("k" + token), NotBefore: db.Now(), NotAfter: db.Now().Add(time.Hour)}, nil
				},
			}
		}
		enrolled, err := db.Enroll(ctx, enrols("h"))
		ok(err)
		nodes := &Nodes{DB: db}
		made := 0
		// taken is a task that has taken a baseline.
		taken := func(epoch int64, b *taskcatalog.Baseline) string {
			t.Helper()
			made++
			id := fmt.Sprint("t-baseline-", made)
			b.TakenAt = clock.Now().Add(time.Duration(made) * time.Second)
			raw, err := taskcatalog.Encode(taskcatalog.ValidateCleanResult{Baseline: b})
			ok(err)
			_, _, err = db.InsertTask(ctx, ada, broker.Task{
				ID: id, NodeID: n.ID, NodeEpoch: epoch, Type: "node.validate_clean", Version: 1, Class: taskcatalog.ClassProbe, Lane: taskcatalog.LaneConcurrent,
				Params: []byte(`{"take_baseline":true}`), Envelope: []byte(id), EnvelopeDigest: id, IssuedAt: db.Now(), NotAfter: db.Now().Add(time.Hour), KeyID: "k1", Nonce: "n",
			})
			ok(err)
			_, _, err = db.ClaimTasks(ctx, n.ID, epoch, []taskcatalog.Lane{taskcatalog.LaneConcurrent}, 1)
			ok(err)
			_, _, err = db.RecordResult(ctx, store.Result{NodeID: n.ID, Epoch: epoch, TaskID: id, Attempt: 1, Status: broker.TaskSucceeded, Outcome: taskcatalog.OutcomeSucceeded, Result: raw}, nil)
			ok(err)
			return id
		}
		system := func(own string, more ...string) *taskcatalog.Baseline {
			b := &taskcatalog.Baseline{Files: []taskcatalog.BaselineFile{{Path: "/etc/machine-id", Digest: own, Mode: 0o444}}}
			for _, name := range more {
				b.Users = append(b.Users, taskcatalog.BaselineUser{Name: name, UID: 1001})
			}
			return b
		}
		inForce := func() string {
			t.Helper()
			n, err := db.Node(ctx, n.ID)
			ok(err)
			return n.BaselineDigest
		}
		epoch := enrolled.Node.Epoch
		first, err := taskcatalog.Encode(system("11111111111111111111111111111111"))
		ok(err)
		ok(db.SaveBaseline(ctx, ada, n.ID, pki.Digest(first), first, "enrolled"))
		_, err = db.Transition(ctx, ada, n.ID, store.Change{To: broker.Active, By: broker.OwnerOnboarding})
		ok(err)
		storetest.Report(t, db, n.ID, store.NodeReport{Digest: "e", Facts: boots("new")}) // another disk was chosen
		runsFrom := func(want string) {
			t.Helper()
			all, err := db.Devices(ctx, n.ID)
			ok(err)
			for _, d := range all {
				if (d.Role == broker.RoleSystem) != (d.ID == want) {
					t.Errorf("disk %s is on record as %s, and the system runs from %s", d.ID, d.Role, want)
				}
			}
		}

		other := taken(epoch, system("22222222222222222222222222222222", "eve"))
		if unlike, err := nodes.Reinstalled(ctx, n.ID, "r-1", other, false); err != nil || !slices.Equal(unlike, []string{"added users eve"}) || inForce() != pki.Digest(first) {
			t.Errorf("a system with another user: %q, %v, baseline %s", unlike, err, inForce())
		}
		runsFrom("old")
		same := taken(epoch, system("33333333333333333333333333333333"))
		for range 2 { // a repeated step changes nothing more
			if unlike, err := nodes.Reinstalled(ctx, n.ID, "r-1", same, false); err != nil || len(unlike) != 0 || inForce() == pki.Digest(first) {
				t.Errorf("a system with a machine-id of its own: %q, %v, baseline %s", unlike, err, inForce())
			}
		}
		runsFrom("new")
		raw, err := db.Baseline(ctx, inForce())
		ok(err)
		var now taskcatalog.Baseline
		ok(taskcatalog.DecodeStrict(raw, &now))
		if now.Files[0].Digest != "33333333333333333333333333333333" {
			t.Errorf("the baseline in force is %+v", now)
		}

		// With another image the hardware must be the same, and the software that which the node had on the image before.
		judge := func(when, image string, chosen bool, b *taskcatalog.Baseline, want ...string) {
			t.Helper()
			clock.Advance(time.Minute)
			token := "h-" + when
			ok(db.IssueToken(ctx, ada, n.ID, token, db.Now().Add(time.Hour), when))
			e, err := db.Enroll(ctx, enrols(token))
			ok(err)
			epoch = e.Node.Epoch
			ok(db.RecordImage(ctx, ada, n.ID, epoch, broker.NodeImage{Name: image, RunID: when}))
			before := inForce()
			unlike, err := nodes.Reinstalled(ctx, n.ID, "r-1", taken(epoch, b), chosen)
			if err != nil || !slices.Equal(unlike, want) || (before == inForce()) != (len(want) > 0) {
				t.Errorf("%s: %q, %v, want %q; baseline %s, was %s", when, unlike, err, want, inForce(), before)
			}
		}
		const other1, other2 = "44444444444444444444444444444444", "55555555555555555555555555555555"
		judge("it is not known what the baseline was taken on", "ubuntu/noble", false, system(other1, "golden"), "added users golden")
		judge("asked for", "custom/golden", true, system(other1, "golden"))
		judge("the same again, with a user", "custom/golden", true, system(other2, "golden", "eve"), "added users eve")
		judge("the site's image", "ubuntu/noble", false, system(other1))
		judge("the other one again, with a user", "custom/golden", true, system(other2, "golden", "eve"), "added users eve")
		swapped := system(other2, "golden")
		swapped.Inventory.Disks = []string{"another"}
		judge("another disk", "custom/golden", true, swapped, "added inventory.disks another")
		judge("the other one again", "custom/golden", true, system(other2, "golden"))
	})
}

// boots are the facts of a machine with two disks whose system runs from one of them.
func boots(from string) *taskcatalog.Facts {
	f := &taskcatalog.Facts{DisksListed: true}
	for _, serial := range []string{"old", "new"} {
		f.Disks = append(f.Disks, taskcatalog.DiskFacts{Name: serial, Serial: serial, SizeBytes: 512, Transport: "sata", System: serial == from})
	}
	return f
}
