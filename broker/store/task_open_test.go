package store_test

import (
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/store"
	"github.com/hostler/hostler/broker/store/storetest"
	"github.com/hostler/hostler/taskcatalog"
	"github.com/hostler/hostler/taskcatalog/wire"
)

func TestOpenTasksAreCountedAndListedAtTheSitesThatAreAskedFor(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, _ *storetest.Clock) {
		open := map[string][]string{} // by site, newest first
		for _, site := range []string{"dc1", "dc2"} {
			must(db.CreateNode(ctx, admin, store.NewNode{ID: "n-" + site, Hostname: site, Site: site, Bootstrap: "command", TokenHash: "hash-" + site, TokenExpires: db.Now().Add(time.Hour)}))(t)
			e := enroll(t, db, "hash-"+site, "key-"+site)
			must(db.FirstContact(ctx, "n-"+site, 1, e.Cert.Serial))(t)
			n := must(db.Node(ctx, "n-"+site))(t)
			ended := enqueue(t, db, n, taskcatalog.LaneConcurrent)
			claim(t, db, n, ended.ID)
			finish(t, db, ended)
			taken := enqueue(t, db, n, taskcatalog.LaneConcurrent)
			claim(t, db, n, taken.ID)
			open[site] = []string{enqueue(t, db, n, taskcatalog.LaneConcurrent).ID, taken.ID}
		}
		queued := enqueue(t, db, must(db.Node(ctx, "n-dc2"))(t), taskcatalog.LaneConcurrent).ID
		open["dc2"] = append([]string{queued}, open["dc2"]...)
		for _, c := range []struct {
			sites []string
			want  map[broker.TaskStatus]int
			ids   []string
		}{
			{nil, map[broker.TaskStatus]int{broker.TaskQueued: 3, broker.TaskDispatched: 2}, slices.Concat(open["dc2"], open["dc1"])},
			{[]string{"dc1"}, map[broker.TaskStatus]int{broker.TaskQueued: 1, broker.TaskDispatched: 1}, open["dc1"]},
			{[]string{"dc2"}, map[broker.TaskStatus]int{broker.TaskQueued: 2, broker.TaskDispatched: 1}, open["dc2"]},
			{[]string{"dc1", "dc2"}, map[broker.TaskStatus]int{broker.TaskQueued: 3, broker.TaskDispatched: 2}, slices.Concat(open["dc2"], open["dc1"])},
			{[]string{"dc3"}, nil, nil},
		} {
			if got := must(db.CountOpenTasks(ctx, c.sites))(t); !maps.Equal(got, c.want) {
				t.Errorf("at %v %v are open, want %v", c.sites, got, c.want)
			}
			var ids []string
			f := store.TaskFilter{Sites: c.sites, Statuses: []broker.TaskStatus{broker.TaskQueued, broker.TaskDispatched}, Limit: 2}
			for {
				page, next, err := db.ListTasks(ctx, f)
				ok(t, err)
				for _, k := range page {
					ids = append(ids, k.ID)
				}
				if next == "" {
					break
				}
				f.After = next
			}
			if !slices.Equal(ids, c.ids) {
				t.Errorf("at %v it lists %v, want %v", c.sites, ids, c.ids)
			}
		}
	})
}

// A server with many GPUs takes its time to start: a task that may restart the machine outlives a longer silence.
func TestASilentRestartIsNoUnknownOutcome(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, clock *storetest.Clock) {
		n := newMember(t, db, "one")
		k := newTask(db, n, taskcatalog.LaneExclusive)
		k.Type = broker.OperationTask
		_, _, err := db.InsertTask(ctx, admin, k)
		ok(t, err)
		claim(t, db, n, k.ID)
		clock.Advance(2 * time.Hour) // the last word comes late in a long operation
		_, _, err = db.RecordProgress(ctx, n.ID, k.ID, 1, broker.Progress{})
		ok(t, err)
		silent := func(d time.Duration, want broker.TaskStatus) {
			t.Helper()
			clock.Advance(d)
			for range 3 {
				must(db.SweepTasks(ctx))(t)
			}
			if got := must(db.Task(ctx, k.ID))(t); got.Status != want {
				t.Errorf("after a further silence of %s the task is %s (%s), want %s", d, got.Status, got.Code, want)
			}
		}
		silent(store.UnknownGrace+wire.LeaseTime, broker.TaskQueued)
		silent(store.RestartGrace-store.UnknownGrace-time.Microsecond, broker.TaskQueued)
		claim(t, db, n, k.ID) // the node is asked for the outcome, and says nothing
		clock.Advance(wire.LeaseTime)
		silent(time.Minute, broker.TaskFailed)
	})
}
