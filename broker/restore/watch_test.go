package restore

import (
	"context"
	"fmt"
	"io/fs"
	"net/http"
	"slices"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/maas"
	"github.com/hostler/hostler/broker/store"
	"github.com/hostler/hostler/broker/store/storetest"
	"github.com/hostler/hostler/broker/taskqueue"
	"github.com/hostler/hostler/test/maassim"
)

var ada = broker.Actor{Name: "ada", Role: broker.RolePlatformAdmin}

// kept are secrets in memory.
type kept map[string][]byte

func (k kept) Get(_ context.Context, path string) ([]byte, error) {
	if v, ok := k[path]; ok {
		return slices.Clone(v), nil
	}
	return nil, fmt.Errorf("no secret %s: %w", path, fs.ErrNotExist)
}

func (k kept) Put(_ context.Context, path string, v []byte) error {
	k[path] = slices.Clone(v)
	return nil
}

// world is a held database, and the data that a Watch reads.
type world struct {
	t       *testing.T
	db      *store.DB
	clock   *storetest.Clock
	region  *maassim.Region
	watch   *Watch
	down    bool // MAAS does not answer
	reads   int  // of MAAS
	unasked map[string]bool
	asked   []string
}

func (w *world) ok(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// RoundTrip sends a request to the region.
func (w *world) RoundTrip(req *http.Request) (*http.Response, error) {
	w.reads++
	if w.down {
		return nil, fmt.Errorf("no route to it")
	}
	return w.region.RoundTripper().RoundTrip(req)
}

// Enqueue stands for the task queue.
func (w *world) Enqueue(_ context.Context, _ broker.Actor, r taskqueue.Request) (broker.Task, bool, error) {
	if w.unasked[r.NodeID] {
		return broker.Task{}, false, broker.Errorf(broker.Unavailable, "store_unavailable", "it fails for %s", r.NodeID)
	}
	w.asked = append(w.asked, r.NodeID)
	return broker.Task{}, false, nil
}

func newWorld(t *testing.T, db *store.DB, clock *storetest.Clock, nodes int) *world {
	t.Helper()
	w := &world{t: t, db: db, clock: clock, unasked: map[string]bool{}}
	w.region = &maassim.Region{
		Seed: 3, Now: clock.Now, Sleep: func(context.Context, time.Duration) error { return nil },
		Networks: []maassim.Network{{VID: 46, CIDR: "10.10.0.0/16", Gateway: "10.10.0.1", DHCP: true}},
	}
	s := broker.NewSite("00000000-0000-4000-8000-000000000001")
	s.Name, s.RegionCode, s.APIBaseURL, s.PXEIface, s.NodePXEIface, s.PXEVLANVID = "dc1", "eu-1", maassim.URL, "ens19", "eno8303", 46
	s, err := db.CreateSite(t.Context(), ada, s, broker.NewProfile("00000000-0000-4000-8000-000000000002", s.ID, broker.DefaultProfile))
	w.ok(err)
	secrets := kept{}
	key, err := maas.ParseKey(w.region.APIKey())
	w.ok(err)
	w.ok(maas.PutToken(t.Context(), secrets, s, key))
	for i := range nodes {
		w.node(fmt.Sprintf("n-%d", i+1), i+1)
	}
	_, err = db.MarkRestored(t.Context(), ada, clock.Now(), "a backup")
	w.ok(err)
	w.watch = &Watch{
		DB: db, Tasks: w, Log: zap.NewNop(),
		Regions: &maas.Sites{Secrets: secrets, Now: clock.Now, Transport: func(broker.Site) http.RoundTripper { return w }},
	}
	return w
}

// node arranges a node on a machine that is marked for the node.
func (w *world) node(id string, box int) {
	w.t.Helper()
	systemID := w.region.Arrange(maassim.Arranged{
		Hostname: id, Hardware: maassim.Box(box), Status: maassim.Deployed, Owner: "admin", Series: "ubuntu/noble", PowerOn: true,
		Annotations: map[string]string{"hostler-node": id, "hostler-run": "r-" + id},
	})
	_, err := w.db.CreateNode(w.t.Context(), ada, store.NewNode{ID: id, Hostname: id, Site: "dc1", MAASSystemID: systemID, TokenHash: "hash-" + id, TokenExpires: w.clock.Now().Add(time.Hour)})
	w.ok(err)
	_, err = w.db.Enroll(w.t.Context(), store.EnrollInput{TokenHash: "hash-" + id, PublicKeyDigest: keyOf(id), MAASSystemID: systemID, Issue: func(broker.Node, int64) (store.IssuedCert, error) {
		return w.cert("before-" + id), nil
	}})
	w.ok(err)
}

// keyOf is the digest of a node's key.
func keyOf(id string) string { return "key-" + id + "-0123456789" }

func (w *world) cert(serial string) store.IssuedCert {
	return store.IssuedCert{Serial: serial, PublicKey: []byte(serial), NotAfter: w.clock.Now().Add(time.Hour)}
}

// letIn has an operator accept a node, and the node renew.
func (w *world) letIn(id string) {
	w.t.Helper()
	r := store.RestoredRenewal{Renewal: store.Renewal{NodeID: id, Epoch: 1, OldSerial: "before-" + id, PublicKeyDigest: keyOf(id), Cert: w.cert("since-" + id), Remote: "192.0.2.1"}}
	_, _ = w.db.RenewRestored(w.t.Context(), r) // asks
	_, err := w.db.AcceptRestored(w.t.Context(), ada, id, r.PublicKeyDigest[:16], "it is")
	w.ok(err)
	_, err = w.db.RenewRestored(w.t.Context(), r)
	w.ok(err)
}

func (w *world) look() error {
	w.t.Helper()
	last, err := w.db.LastRestore(w.t.Context())
	w.ok(err)
	return w.watch.Look(w.t.Context(), last)
}

// missing returns what prevents the release of the database.
func (w *world) missing() string {
	w.t.Helper()
	all, err := w.db.NotCompared(w.t.Context())
	w.ok(err)
	return fmt.Sprint(all)
}

// A list of all machines is long, and an unchanged report is on record already.
func TestMachinesAreReadOnceAMinuteAndWrittenWhereTheyDiffer(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, clock *storetest.Clock) {
		w := newWorld(t, db, clock, 3)
		asks := func() int64 {
			t.Helper()
			before := db.Statements()
			w.ok(w.look())
			return db.Statements() - before
		}
		first, reads := asks(), w.reads
		if reads == 0 || w.missing() != "[]" {
			t.Fatalf("%d reads, and %s is missing", reads, w.missing())
		}
		clock.Advance(machinesEvery - time.Second)
		w.ok(w.look())
		if w.reads != reads {
			t.Error("machines were read twice within a minute")
		}
		clock.Advance(time.Second)
		again := asks()
		if w.reads == reads || again >= first {
			t.Errorf("%d reads of MAAS; the first look made %d statements, and one that found the same %d", w.reads, first, again)
		}
		w.node("n-4", 4)
		_, err := db.MarkRestored(t.Context(), ada, clock.Now(), "another")
		w.ok(err)
		clock.Advance(machinesEvery)
		w.ok(w.look())
		if w.missing() != "[]" {
			t.Errorf("what is new was not written: %s", w.missing())
		}
	})
}

func TestASiteThatAnswersAgainIsRead(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, clock *storetest.Clock) {
		w := newWorld(t, db, clock, 1)
		w.down = true
		w.ok(w.look())
		if w.missing() != "[site dc1]" {
			t.Errorf("with a MAAS that does not answer %s is missing", w.missing())
		}
		w.down = false
		clock.Advance(machinesEvery)
		w.ok(w.look())
		found, err := db.Differences(t.Context())
		w.ok(err)
		if w.missing() != "[]" || slices.ContainsFunc(found, func(d store.Difference) bool { return d.Code == "maas_unread" }) {
			t.Errorf("with one that answers again %s is missing, and listed is %+v", w.missing(), found)
		}
	})
}

func TestANodeThatCannotBeAskedHoldsUpNoOther(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, clock *storetest.Clock) {
		w := newWorld(t, db, clock, 2)
		w.letIn("n-1")
		w.letIn("n-2")
		w.unasked["n-1"] = true
		if err := w.look(); err == nil {
			t.Error("that a node cannot be asked is not told")
		}
		if !slices.Equal(w.asked, []string{"n-2"}) {
			t.Errorf("asked were %v", w.asked)
		}
		delete(w.unasked, "n-1")
		w.ok(w.look())
		if !slices.Contains(w.asked, "n-1") {
			t.Error("it is not tried again")
		}
	})
}
