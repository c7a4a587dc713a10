package store_test

import (
	"sync"
	"testing"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/store"
	"github.com/hostler/hostler/broker/store/storetest"
	"github.com/hostler/hostler/taskcatalog"
)

func selector(t *testing.T, text string) broker.Selector {
	t.Helper()
	return must(broker.ParseSelector(text))(t)
}

func push(t *testing.T, db *store.DB, version string) string {
	t.Helper()
	digest := "sha256:of-" + version
	must(db.PushResolverSet(ctx, admin, store.ResolverSet{Digest: digest, Version: version, Profiles: []byte(`{"x":"` + version + `"}`)}))(t)
	return digest
}

func TestAVersionNamesOneSet(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, _ *storetest.Clock) {
		digest := push(t, db, "v1")
		if had := must(db.PushResolverSet(ctx, admin, store.ResolverSet{Digest: digest, Version: "v1", Profiles: []byte(`{}`)}))(t); !had {
			t.Error("the same again was taken for a new one")
		}
		for _, s := range []store.ResolverSet{{Digest: "sha256:other", Version: "v1"}, {Digest: digest, Version: "v2"}} {
			s.Profiles = []byte(`{}`)
			if _, err := db.PushResolverSet(ctx, admin, s); broker.AsError(err).Code != "resolver_version_taken" {
				t.Errorf("%s as %s: %v", s.Digest, s.Version, err)
			}
		}
		for _, ref := range []string{"v1", digest} {
			if got := must(db.ResolverSet(ctx, ref))(t); got.Version != "v1" || string(got.Profiles) != `{"x":"v1"}` || got.PushedBy != admin.Name {
				t.Errorf("%s is %+v", ref, got)
			}
		}
		if _, err := db.ResolverSet(ctx, "v9"); broker.AsError(err).Code != "resolver_version_unknown" {
			t.Errorf("v9: %v", err)
		}
	})
}

func TestTheNewestWantThatMeansANodeIsWhatItShallHave(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, _ *storetest.Clock) {
		one, two := newMember(t, db, "h1"), newMember(t, db, "h2")
		v1, v2 := push(t, db, "v1"), push(t, db, "v2")
		want := func(sel, version string) (nodes int) {
			t.Helper()
			_, nodes, err := db.WantResolver(ctx, admin, selector(t, sel), version, "test")
			if err != nil {
				t.Fatal(err)
			}
			return nodes
		}
		has := func(id, digest string) {
			t.Helper()
			if got := must(db.Node(ctx, id))(t).ResolverWanted; got != digest {
				t.Errorf("%s shall have %q, want %q", id, got, digest)
			}
		}
		if n := want("all", "v1"); n != 2 {
			t.Errorf("all means %d nodes", n)
		}
		has(one.ID, v1)
		want("rack=b", "v2")
		has(two.ID, v1)
		must(db.SetLabels(ctx, admin, two.ID, map[string]string{"rack": "b"}))(t)
		has(two.ID, v2)
		want("all", "v1") // a later want for all precedes an earlier want for some
		has(two.ID, v1)
		want(two.ID, "v2")
		has(two.ID, v2)
		has(newMember(t, db, "h3").ID, v1)
		if _, _, err := db.WantResolver(ctx, admin, selector(t, "all"), "v9", ""); broker.AsError(err).Code != "resolver_version_unknown" {
			t.Errorf("a version that is not there: %v", err)
		}
		if all := must(db.ResolverWants(ctx))(t); len(all) != 3 || all[0].Selector != two.ID || all[0].Version != "v2" {
			t.Errorf("%+v", all)
		}
	})
}

func TestANodeIsActiveOnlyWithTheProfilesItShallHave(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, _ *storetest.Clock) {
		v1 := push(t, db, "v1")
		if _, _, err := db.WantResolver(ctx, admin, selector(t, "all"), "v1", ""); err != nil {
			t.Fatal(err)
		}
		n := newMember(t, db, "h1")
		status := func(want broker.NodeStatus) broker.Node {
			t.Helper()
			got := must(db.Node(ctx, n.ID))(t)
			if got.Status != want {
				t.Fatalf("the node is %s (%s), want %s", got.Status, got.StatusReason, want)
			}
			return got
		}
		taken := func(effects ...broker.Effect) {
			t.Helper()
			k := newTask(db, n, taskcatalog.LaneConcurrent)
			if _, _, err := db.InsertTask(ctx, admin, k); err != nil {
				t.Fatal(err)
			}
			if _, _, err := db.ClaimTasks(ctx, n.ID, n.Epoch, []taskcatalog.Lane{taskcatalog.LaneConcurrent}, 1); err != nil {
				t.Fatal(err)
			}
			_, _, err := db.RecordResult(ctx, store.Result{NodeID: n.ID, Epoch: n.Epoch, TaskID: k.ID, Attempt: 1, Status: broker.TaskSucceeded}, effects)
			if err != nil {
				t.Fatal(err)
			}
		}
		taken(broker.SaveBaseline{Digest: "sha256:b", Baseline: []byte(`{}`)}, broker.LetIn{})
		if got := status(broker.Enrolling); got.StatusReason == "" {
			t.Error("nothing says what it waits for")
		}
		if _, err := db.Transition(ctx, admin, n.ID, store.Change{To: broker.Active, By: broker.OwnerOnboarding}); broker.AsError(err).Code != "resolver_config_unconfirmed" {
			t.Errorf("it was let in: %v", err)
		}
		taken(broker.ConfirmResolver{Digest: v1}, broker.LetIn{})
		status(broker.Active)

		// A later set goes out in waves: nodes that were let in stay in.
		v2 := push(t, db, "v2")
		if _, _, err := db.WantResolver(ctx, admin, selector(t, "all"), "v2", ""); err != nil {
			t.Fatal(err)
		}
		status(broker.Active)
		says := func(report, digest, want string) {
			t.Helper()
			if err := store.SaveReport(ctx, db, n.ID, store.NodeReport{Digest: report, Capabilities: map[string]string{taskcatalog.CapabilityResolverDigest: digest}}); err != nil {
				t.Fatal(err)
			}
			if got := must(db.Node(ctx, n.ID))(t).ResolverDigest; got != want {
				t.Errorf("the node says it has %s: on record is %q, want %q", digest, got, want)
			}
		}
		says("d1", v2, v1) // a report alone confirms nothing
		taken(broker.ConfirmResolver{Digest: v2}, broker.LetIn{})
		if got := must(db.Node(ctx, n.ID))(t); got.ResolverDigest != v2 || got.ResolverBefore != v1 {
			t.Errorf("it has %q and had %q", got.ResolverDigest, got.ResolverBefore)
		}
		says("d2", v1, v1) // and revokes a task's confirmation
	})
}

func TestAStoppedWantStaysStoppedUntilItIsWantedAgain(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, clock *storetest.Clock) {
		push(t, db, "v1")
		w, _, err := db.WantResolver(ctx, admin, selector(t, "all"), "v1", "")
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if err := db.StopResolverWant(ctx, admin, w, "task t-1 failed"); err != nil {
				t.Fatal(err)
			}
			clock.Advance(time.Minute)
		}
		if got := must(db.ResolverWants(ctx))(t)[0]; got.StopReason != "task t-1 failed" || !got.StoppedAt.Before(clock.Now().Add(-time.Minute)) {
			t.Errorf("%+v", got)
		}
		again, _, err := db.WantResolver(ctx, admin, selector(t, "all"), "v1", "")
		if err != nil || again.ID <= w.ID {
			t.Fatalf("%+v after %+v, %v", again, w, err)
		}
		if err := db.StopResolverWant(ctx, admin, w, "late"); err != nil {
			t.Fatal(err)
		}
		if got := must(db.ResolverWants(ctx))(t)[0]; !got.StoppedAt.IsZero() {
			t.Errorf("what was said of the earlier one stopped the later: %+v", got)
		}
	})
}

// A set that a new node cannot take keeps the node out only while the set is wanted.
func TestAWaitingNodeIsLetInOnceItHasWhatIsWantedNow(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, _ *storetest.Clock) {
		v1, v2 := push(t, db, "v1"), push(t, db, "v2")
		want := func(version string) {
			t.Helper()
			if _, _, err := db.WantResolver(ctx, admin, selector(t, "all"), version, ""); err != nil {
				t.Fatal(err)
			}
		}
		want("v2")
		n := newMember(t, db, "h1")
		k := newTask(db, n, taskcatalog.LaneConcurrent)
		if _, _, err := db.InsertTask(ctx, admin, k); err != nil {
			t.Fatal(err)
		}
		if _, _, err := db.ClaimTasks(ctx, n.ID, n.Epoch, []taskcatalog.Lane{taskcatalog.LaneConcurrent}, 1); err != nil {
			t.Fatal(err)
		}
		_, _, err := db.RecordResult(ctx, store.Result{NodeID: n.ID, Epoch: n.Epoch, TaskID: k.ID, Attempt: 1, Status: broker.TaskSucceeded},
			[]broker.Effect{broker.SaveBaseline{Digest: "sha256:b", Baseline: []byte(`{}`)}, broker.ConfirmResolver{Digest: v1}, broker.LetIn{}})
		if err != nil {
			t.Fatal(err)
		}
		if got := must(db.Node(ctx, n.ID))(t); got.Status != broker.Enrolling || got.ResolverWanted != v2 {
			t.Fatalf("it is %s and shall have %s", got.Status, got.ResolverWanted)
		}
		want("v1")
		if got := must(db.Node(ctx, n.ID))(t); got.Status != broker.Active {
			t.Errorf("it has what it shall have and is %s (%s)", got.Status, got.StatusReason)
		}
	})
}

// Concurrent wants are ordered, and the later want holds.
func TestWantsSaidAtOnceAreInOneOrder(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, _ *storetest.Clock) {
		n := newMember(t, db, "h1")
		push(t, db, "v1")
		var wg sync.WaitGroup
		for i := range 8 {
			wg.Go(func() {
				s := selector(t, "all")
				if i%2 == 0 {
					s = selector(t, n.ID)
				}
				if _, _, err := db.WantResolver(ctx, admin, s, "v1", ""); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		wants := must(db.ResolverWants(ctx))(t)
		if got := must(db.Node(ctx, n.ID))(t).ResolverWant; got != wants[0].ID {
			t.Errorf("the node goes by want %d, the last is %d", got, wants[0].ID)
		}
	})
}

func TestTheTasksOfAWantAreFoundByNode(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, _ *storetest.Clock) {
		one, two := newMember(t, db, "h1"), newMember(t, db, "h2")
		give := func(n broker.Node, typ, key string) string {
			t.Helper()
			k := newTask(db, n, taskcatalog.LaneExclusive)
			k.Type, k.IdempotencyKey = typ, key
			if _, _, err := db.InsertTask(ctx, admin, k); err != nil {
				t.Fatal(err)
			}
			return k.ID
		}
		first := give(one, "node.resolver_config", broker.ResolverKey(7, "1"))
		second := give(one, "node.resolver_config", broker.ResolverKey(7, "2"))
		give(one, "node.resolver_config", broker.ResolverKey(77, "1"))
		give(one, "node.resolver_config", "of a person")
		give(one, "node.drain", broker.ResolverKey(7, "3"))
		other := give(two, "node.resolver_config", broker.ResolverKey(7, "1"))

		got := must(db.NodeResolverTasks(ctx, one.ID, 7))(t)
		if len(got) != 2 || got[0].ID != first || got[1].ID != second {
			t.Errorf("%+v", got)
		}
		all := must(db.ResolverTasks(ctx, 7))(t)
		if len(all) != 2 || len(all[one.ID]) != 2 || len(all[two.ID]) != 1 || all[two.ID][0].ID != other {
			t.Errorf("%+v", all)
		}
	})
}
