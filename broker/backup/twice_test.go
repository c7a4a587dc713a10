package backup

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/store"
	"github.com/hostler/hostler/broker/trust"
	"github.com/hostler/hostler/pki/pkitest"
	"github.com/hostler/hostler/taskcatalog"
)

// numbers are the counters that others compare with earlier values.
type numbers struct{ bundle, epoch, event int64 }

// serves has a restored broker give out the first number of each, and more numbers.
func (p *plant) serves(t *testing.T, file string, restored time.Time, key string) (first, last numbers) {
	t.Helper()
	ctx, now := t.Context(), func() time.Time { return restored.Add(time.Minute) }
	o := p.into(t)
	o.File, o.Now = file, restored
	_, _, err := Restore(ctx, o)
	ok(t, err)
	db := must(store.Open(ctx, store.Options{URL: "sqlite:" + filepath.Join(o.DataDir, "hostler.db"), Now: now}))(t)
	defer func() { _ = db.Close() }()
	a := must(trust.Open(ctx, trust.Options{Dir: filepath.Join(o.DataDir, "keys"), DB: db, Now: now}))(t)
	for i := range 3 {
		must(a.AddReleaseKey(ctx, admin, pkitest.NewSigner(t).Key.Public(), "releases"))(t)
		hash := key + string(rune('a'+i))
		ok(t, db.IssueToken(ctx, admin, "n-one", hash, now().Add(time.Hour), "again"))
		e := must(db.Enroll(ctx, store.EnrollInput{
			TokenHash: hash, PublicKeyDigest: hash, TrustVersion: a.Version(), Remote: "192.0.2.1",
			Report: store.NodeReport{AgentVersion: "1.0", TaskTypes: taskcatalog.IDs(), Digest: "d"},
			Issue: func(broker.Node, int64) (store.IssuedCert, error) {
				return store.IssuedCert{Serial: hash, PEM: hash, PublicKey: []byte(hash), NotBefore: now(), NotAfter: now().Add(time.Hour)}, nil
			},
		}))(t)
		for must(db.PlaceEvents(ctx, 100))(t) > 0 {
		}
		newest, _, err := db.OutboxEnds(ctx)
		ok(t, err)
		last = numbers{a.Version(), e.Node.Epoch, newest}
		if i == 0 {
			page, _, err := db.Outbox(ctx, store.OutboxFilter{Types: []string{"node.status.changed"}})
			ok(t, err)
			first = numbers{a.Version(), e.Node.Epoch, page[len(page)-1].Position}
		}
	}
	return first, last
}

// Nodes and readers of events remember the numbers of the first broker that was restored from a
// backup: a second broker from the same backup gives out none of these numbers.
func TestABackupThatIsRestoredTwiceGivesNoNumberTwice(t *testing.T) {
	p := newPlant(t)
	file := p.write(t)
	lost := numbers{1000, 1000, 400_000} // more than the hour after the backup gave out
	first, before := p.serves(t, file, noon.Add(time.Hour), "one")
	again, _ := p.serves(t, file, noon.Add(2*time.Hour), "two")
	for _, n := range []struct {
		name                    string
		lost, first, last, then int64
	}{
		{"trust bundle", lost.bundle, first.bundle, before.bundle, again.bundle},
		{"epoch", lost.epoch, first.epoch, before.epoch, again.epoch},
		{"event", lost.event, first.event, before.event, again.event},
	} {
		if n.first <= n.lost || n.then <= n.last {
			t.Errorf("%s: the first restore gave %d to %d, and the second %d", n.name, n.first, n.last, n.then)
		}
	}
}
