package trust

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/hostler/hostler/broker/store"
	"github.com/hostler/hostler/broker/store/storetest"
	"github.com/hostler/hostler/pki"
	"github.com/hostler/hostler/taskcatalog"
)

// beside opens another replica on the bench's database, with a copy of its keys in a
// directory of its own.
func (b *bench) beside(t *testing.T) *bench {
	t.Helper()
	other := &bench{dir: filepath.Join(t.TempDir(), "keys"), db: b.db, clock: b.clock}
	other.copyFrom(t, b)
	other.reopen(t)
	return other
}

// copyFrom is what an operator does: the files of one replica, over those of another.
func (b *bench) copyFrom(t *testing.T, from *bench) {
	t.Helper()
	files, err := os.ReadDir(from.dir)
	if err == nil {
		err = os.MkdirAll(b.dir, 0o700)
	}
	for _, f := range files {
		var raw []byte
		if raw, err = os.ReadFile(filepath.Join(from.dir, f.Name())); err == nil {
			err = os.WriteFile(filepath.Join(b.dir, f.Name()), raw, 0o600)
		}
		if err != nil {
			break
		}
	}
	if err != nil {
		t.Fatal(err)
	}
}

// follow is a tick of the replica.
func (b *bench) follow(t *testing.T) {
	t.Helper()
	if err := b.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func (b *bench) gaps(t *testing.T) []store.KeyGap {
	t.Helper()
	gaps, err := b.Gaps(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return gaps
}

func TestARotationEndsOnceEveryReplicaHasTheKey(t *testing.T) {
	for _, use := range rotatable {
		t.Run(string(use), func(t *testing.T) {
			storetest.Each(t, func(t *testing.T, db *store.DB, clock *storetest.Clock) {
				b := newBench(t, db, clock)
				other := b.beside(t)
				n := b.enroll(t, "node")
				r := b.rotate(t, use)
				b.hear(t, n)
				if use == pki.UseRoot {
					b.renew(t, n)
				}
				other.follow(t)
				host, err := os.Hostname()
				if err != nil {
					t.Fatal(err)
				}
				gaps := b.gaps(t)
				if want := string(use) + " key " + r.NewID; len(gaps) != 1 || gaps[0].Replica.Name != host || len(gaps[0].Lacks) != 1 || gaps[0].Lacks[0] != want {
					t.Fatalf("gaps %+v, want one of %s that lacks the %s", gaps, host, want)
				}
				for _, replica := range []*bench{b, other} {
					refusedWith(t, replica.Finish(t.Context(), admin, nil, "done"), "replica_lacks_keys")
				}
				if got := b.Version(); got != r.Version {
					t.Fatalf("a refused finish changed the bundle to version %d", got)
				}
				// It works on with what it has. Of certificates that is nothing: whoever got one
				// since the rotation began counts as one that knows the new root.
				if _, err := other.ask(t, n); err != nil {
					t.Error(err)
				}
				_, _, err = other.IssueNode(n.key, n.id, clock.Now(), time.Hour)
				if use == pki.UseRoot {
					refusedWith(t, err, "key_mismatch")
				} else if err != nil {
					t.Error(err)
				}

				other.copyFrom(t, b)
				other.follow(t)
				if gaps := b.gaps(t); len(gaps) != 0 {
					t.Fatalf("gaps %+v, after the keys were copied", gaps)
				}
				if _, _, err = other.IssueNode(n.key, n.id, clock.Now(), time.Hour); err != nil {
					t.Error(err)
				}
				if err := other.Finish(t.Context(), admin, nil, "done"); err != nil {
					t.Fatal(err)
				}
				b.follow(t)
				b.hear(t, n)
				for _, replica := range []*bench{b, other} {
					if _, ok := replica.ring.find(use, r.OldID); ok {
						t.Error("the old key is still in a ring")
					}
					if left, _ := filepath.Glob(filepath.Join(replica.dir, "*"+r.OldID[:16]+"*")); len(left) > 0 {
						t.Errorf("the old private key is still there: %v", left)
					}
					if _, err := replica.ask(t, n); err != nil {
						t.Error(err)
					}
					replica.reopen(t)
				}
			})
		})
	}
}

func TestAReplicaThatHasGoneHoldsNoRotationUp(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, clock *storetest.Clock) {
		b := newBench(t, db, clock)
		other := b.beside(t)
		n := b.enroll(t, "node")
		b.rotate(t, pki.UseTask)
		b.hear(t, n)
		other.follow(t)
		clock.Advance(gapLife - time.Second)
		refusedWith(t, b.Finish(t.Context(), admin, nil, "done"), "replica_lacks_keys")
		clock.Advance(time.Second)
		if err := b.Finish(t.Context(), admin, nil, "done"); err != nil {
			t.Fatal(err)
		}
		// If it was only cut off, it says what it lacks, and not that the node was left behind.
		other.follow(t)
		b.hear(t, n)
		_, _, err := other.SignTask(t.Context(), taskcatalog.Task{NodeID: n.id.NodeID, Params: []byte("{}")}, b.Version())
		refusedWith(t, err, "key_mismatch")
		other.copyFrom(t, b)
		other.follow(t)
		if _, err := other.ask(t, n); err != nil {
			t.Error(err)
		}
	})
}
