package store_test

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/store"
	"github.com/hostler/hostler/broker/store/storetest"
	"github.com/hostler/hostler/taskcatalog"
)

// replicas are two brokers on the same PostgreSQL, and their database.
func replicas(t *testing.T) (a, b *store.DB, url string) {
	t.Helper()
	url = storetest.URL(t, "postgres")
	return storetest.Reopen(t, url, nil), storetest.Reopen(t, url, nil), url
}

func TestAHintReachesTheOtherReplicaOnce(t *testing.T) {
	a, b, _ := replicas(t)
	here, there := a.Hints(t.Context()), b.Hints(t.Context())
	deadline := time.After(20 * time.Second)
	// Neither replica may listen yet, and a hint may be lost: repeat the hint until it arrives.
	warm := func(from *store.DB, to <-chan store.Hint, id string) {
		tick := time.NewTicker(50 * time.Millisecond)
		defer tick.Stop()
		for {
			from.Hint(store.Hint{Kind: store.HintTask, ID: id})
			select {
			case h := <-to:
				if h.ID == id {
					return
				}
			case <-tick.C:
			case <-deadline:
				t.Fatalf("no hint %q has reached the other replica", id)
			}
		}
	}
	warm(a, there, "warm-a")
	warm(b, here, "warm-b")
	a.Hint(store.Hint{Kind: store.HintDeny, ID: "ff"})
	marker := store.Hint{Kind: store.HintEnded, ID: "marker"}
	b.Hint(marker)
	var got []store.Hint
	for len(got) == 0 || got[len(got)-1] != marker {
		select {
		case h := <-here:
			if !strings.HasPrefix(h.ID, "warm-") {
				got = append(got, h)
			}
		case <-deadline:
			t.Fatalf("the other's hint did not come: %v", got)
		}
	}
	if fmt.Sprint(got) != "[{deny ff} {ended marker}]" {
		t.Fatalf("its own came more than once: %v", got)
	}
}

func TestNoTaskIsClaimedByTwo(t *testing.T) {
	a, b, _ := replicas(t)
	n := newMember(t, a, "one")
	const tasks = 60
	for range tasks {
		enqueue(t, a, n, taskcatalog.LaneConcurrent)
	}
	exclusive := enqueue(t, a, n, taskcatalog.LaneExclusive)
	enqueue(t, a, n, taskcatalog.LaneExclusive)
	var claimed sync.Map
	var total, exclusives atomic.Int64
	var work sync.WaitGroup
	for i := range 8 {
		db := []*store.DB{a, b}[i%2]
		work.Go(func() {
			for {
				got, _, err := db.ClaimTasks(ctx, n.ID, n.Epoch, lanes, 3)
				if err != nil {
					t.Error(err)
					return
				}
				if len(got) == 0 {
					return
				}
				for _, k := range got {
					if _, twice := claimed.LoadOrStore(k.ID, true); twice {
						t.Errorf("%s was claimed twice", k.ID)
					}
					if k.Lane == taskcatalog.LaneExclusive {
						exclusives.Add(1)
					}
					total.Add(1)
				}
			}
		})
	}
	work.Wait()
	if _, ok := claimed.Load(exclusive.ID); !ok || total.Load() != tasks+1 || exclusives.Load() != 1 {
		t.Fatalf("%d claimed, %d of them exclusive", total.Load(), exclusives.Load())
	}
}

func TestOneIdempotencyKeyMakesOneTaskOnAllReplicas(t *testing.T) {
	a, b, _ := replicas(t)
	n := newMember(t, a, "one")
	ids := make(chan string, 16)
	for i := range cap(ids) {
		db, k := []*store.DB{a, b}[i%2], newTask(a, n, taskcatalog.LaneExclusive)
		k.IdempotencyKey = "once"
		go func() {
			got, _, err := db.InsertTask(ctx, admin, k)
			if err != nil {
				t.Error(err)
			}
			ids <- got.ID
		}()
	}
	first := <-ids
	for range cap(ids) - 1 {
		if id := <-ids; id != first {
			t.Errorf("%s and %s", first, id)
		}
	}
}

func TestResultsFromTwoReplicasAreOneResult(t *testing.T) {
	a, b, _ := replicas(t)
	n := newMember(t, a, "one")
	k := enqueue(t, a, n, taskcatalog.LaneExclusive)
	claim(t, a, n, k.ID)
	var firsts atomic.Int64
	var work sync.WaitGroup
	for i := range 8 {
		db := []*store.DB{a, b}[i%2]
		work.Go(func() {
			_, repeat, err := db.RecordResult(ctx, succeeded(k), []broker.Effect{broker.ConfirmTrust{Version: 1}})
			if err != nil {
				t.Error(err)
			} else if !repeat {
				firsts.Add(1)
			}
		})
	}
	work.Wait()
	if firsts.Load() != 1 || audited(t, a, "task.end", "") != 1 {
		t.Fatalf("%d firsts", firsts.Load())
	}
}

// The lock and the work end together: when the connection dies, the leader's writes over it fail,
// and another replica takes over.
func TestOneReplicaLeadsAndAnotherTakesOver(t *testing.T) {
	a, b, url := replicas(t)
	run, stop := context.WithCancel(ctx)
	defer stop()
	type term struct {
		name string
		ctx  context.Context
	}
	terms := make(chan term, 8)
	var leading atomic.Int64
	var lost atomic.Bool // from then on the old leader may not know yet
	var work sync.WaitGroup
	for name, db := range map[string]*store.DB{"a": a, "b": b} {
		work.Go(func() {
			_ = db.Lead(run, func(ctx context.Context) {
				if leading.Add(1) != 1 && !lost.Load() {
					t.Error("two lead")
				}
				terms <- term{name, ctx}
				<-ctx.Done()
				leading.Add(-1)
			})
		})
	}
	first := <-terms
	dbs := map[string]*store.DB{"a": a, "b": b}
	ok(t, dbs[first.name].Audit(first.ctx, broker.AuditEntry{Actor: "system", Action: "led"}))
	raw, err := sql.Open("pgx", url)
	ok(t, err)
	defer raw.Close() //nolint:errcheck // a test's
	lost.Store(true)
	var killed int
	ok(t, raw.QueryRow(`SELECT COUNT(pg_terminate_backend(pid)) FROM pg_locks WHERE locktype = 'advisory' AND granted AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`).Scan(&killed))
	if killed != 1 {
		t.Fatalf("%d held the lock", killed)
	}
	if err := dbs[first.name].Audit(first.ctx, broker.AuditEntry{Actor: "system", Action: "led"}); err == nil {
		t.Fatal("a leader without the lock has written")
	}
	select {
	case <-first.ctx.Done():
	case <-time.After(20 * time.Second):
		t.Fatal("the old leader goes on")
	}
	select {
	case <-terms:
	case <-time.After(20 * time.Second):
		t.Fatal("nobody took over")
	}
	stop()
	work.Wait()
	if got := audited(t, a, "led", ""); got != 1 {
		t.Fatalf("%d rows by leaders", got)
	}
}
