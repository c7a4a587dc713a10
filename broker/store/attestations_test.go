package store_test

import (
	"sync"
	"testing"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/store"
	"github.com/hostler/hostler/broker/store/storetest"
)

// lacks is an active node that had these parts and now reports others.
func lacks(t testing.TB, db *store.DB, hostname string) broker.Node {
	t.Helper()
	n := member(t, db, hostname)
	ok(t, store.SaveReport(ctx, db, n.ID, store.NodeReport{Digest: "1", Facts: parts("d1 d2 d3", "g1 g2")}))
	ok(t, store.SaveReport(ctx, db, n.ID, store.NodeReport{Digest: "2", Facts: parts("d1 d9", "g1")}))
	return n
}

func attest(db *store.DB, n broker.Node, device string) (store.Attestation, error) {
	d, id, err := db.Attestable(ctx, n, device)
	if err != nil {
		return store.Attestation{}, err
	}
	a := store.Attestation{ID: id, NodeID: n.ID, Kind: d.Kind, DeviceID: d.ID, Statement: []byte(`{}`), Digest: "sha256:" + id, IssuedAt: db.Now(), File: []byte("f")}
	return a, db.KeepAttestation(ctx, admin, a, "destroyed, says Bo", "shredded")
}

func TestOnlyAPartThatShallBeThereAndIsNotIsAttested(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, clock *storetest.Clock) {
		n := lacks(t, db, "gpu-1")
		for device, code := range map[string]string{"d1": "device_present", "d9": "device_present", "g1": "device_present", "WD-77": "device_unknown", "": "device_unknown", "d2\x1b[2J": "device_unknown"} {
			_, err := attest(db, n, device)
			refused(t, err, code)
		}
		if n := len(must(db.Attestations(ctx, n.ID))(t)); n != 0 {
			t.Fatalf("%d were kept all the same", n)
		}
		for _, device := range []string{"d2", "g2"} {
			a := must(attest(db, n, device))(t)
			if got := must(db.Attestation(ctx, a.ID))(t); got.DeviceID != device || string(got.File) != "f" {
				t.Errorf("%+v", got)
			}
		}
		_, err := attest(db, n, "d2")
		refused(t, err, "device_attested")
		if got := stand(must(db.Devices(ctx, n.ID))(t)); got != "d1:found d9:unexpected d3:missing d2:removed g1:found g2:removed" && got != "d1:found d2:removed d9:unexpected d3:missing g1:found g2:removed" {
			t.Errorf("it has %s", got)
		}
		if audited(t, db, "certificate.attest", "") != 2 {
			t.Error("not each is audited")
		}
		must(db.AcceptDevices(ctx, admin, n.ID, []string{"d3"}, false, "gone"))(t)
		_, err = attest(db, n, "d3")
		refused(t, err, "device_not_expected")
		_, err = db.Attestation(ctx, "att-none")
		refused(t, err, "certificate_not_found")
	})
}

// Of many concurrent attestations of a part, one succeeds.
func TestAPartIsAttestedOnce(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, _ *storetest.Clock) {
		n := lacks(t, db, "gpu-1")
		var all sync.WaitGroup
		errs := make([]error, 4)
		for i := range errs {
			all.Go(func() { _, errs[i] = attest(db, n, "d2") })
		}
		all.Wait()
		kept := 0
		for _, err := range errs {
			if err == nil {
				kept++
			} else if broker.AsError(err).Code != "device_attested" {
				t.Error(err)
			}
		}
		if n := len(must(db.Attestations(ctx, n.ID))(t)); kept != 1 || n != 1 {
			t.Errorf("%d were told that it is kept, and %d are", kept, n)
		}
	})
}

// An attestation appears on the next certificate only. A part that comes back is unexpected; when
// the part goes again, a new attestation is needed.
func TestAWordIsForTheNextTurnover(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, clock *storetest.Clock) {
		n := lacks(t, db, "gpu-1")
		first := must(attest(db, n, "d2"))(t)
		clock.Advance(time.Minute)
		must(db.BeginTurnover(ctx, admin, turn(n, "r-1")))(t)
		must(db.Transition(ctx, admin, n.ID, store.Change{To: broker.Retired, By: broker.OwnerDrain, Reason: "drained"}))(t)
		certified(t, db, n, "c-1", "r-1", true)
		clock.Advance(time.Minute)
		later := must(attest(db, n, "d3"))(t)
		ok(t, db.EndTurnover(ctx, admin, turn(n, "r-1"), "c-1"))
		if left := must(db.Attestations(ctx, n.ID))(t); len(left) != 1 || left[0].ID != later.ID {
			t.Errorf("left for the next certificate: %+v", left)
		}
		ok(t, store.SaveReport(ctx, db, n.ID, store.NodeReport{Digest: "3", Facts: parts("d1 d2", "g1")}))
		_, err := attest(db, n, "d2")
		refused(t, err, "device_present")
		must(db.AcceptDevices(ctx, admin, n.ID, []string{"d2"}, false, "it was mended"))(t)
		ok(t, store.SaveReport(ctx, db, n.ID, store.NodeReport{Digest: "4", Facts: parts("d1", "g1")}))
		if again := must(attest(db, n, "d2"))(t); again.ID == first.ID {
			t.Error("two words have one id")
		}
	})
}
