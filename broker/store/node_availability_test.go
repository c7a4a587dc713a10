package store_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/chain"
	"github.com/hostler/hostler/broker/store"
	"github.com/hostler/hostler/broker/store/storetest"
)

// word is a node's availability on record, with its codes.
func word(t testing.TB, db *store.DB, nodeID string) string {
	t.Helper()
	a := must(db.Availability(ctx, []string{nodeID}))(t)[nodeID]
	return strings.TrimSpace(fmt.Sprint(a.Word, " ", strings.Join(a.Codes, " ")))
}

// swept sweeps, checks that the facts of all nodes at once are the facts of each node, and that
// a second sweep changes nothing.
func swept(t testing.TB, db *store.DB) (changed int) {
	t.Helper()
	changed = must(db.SweepAvailability(ctx))(t)
	if again := must(db.SweepAvailability(ctx))(t); again != 0 {
		t.Fatalf("a second sweep changes %d nodes", again)
	}
	nodes, _, err := db.ListNodes(ctx, store.NodeFilter{Deleted: true})
	ok(t, err)
	for _, n := range nodes {
		judged, codes := must(db.Handout(ctx, n))(t).Availability()
		if want, got := strings.TrimSpace(fmt.Sprint(judged, " ", strings.Join(codes, " "))), word(t, db, n.ID); got != want {
			t.Fatalf("node %s is on record as %q, and the judge says %q", n.ID, got, want)
		}
	}
	return changed
}

// takesNode gives a node to a run of a kind.
func takesNode(t testing.TB, db *store.DB, n broker.Node, run, kind string) chain.Record {
	t.Helper()
	r := chain.Record{ID: run, Kind: kind, Site: n.Site, Status: chain.Pending, Stage: "one", State: json.RawMessage(`{}`)}
	ok(t, db.Insert(ctx, []chain.NewRun{{Record: r, Locks: []string{"node/" + n.ID}}}, nil))
	return must(db.Run(ctx, run))(t)
}

func TestTheRecordOfANodesAvailabilityFollowsItsLife(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, clock *storetest.Clock) {
		n := member(t, db, "gpu-1")
		is := func(when, want string) {
			t.Helper()
			swept(t, db)
			if got := word(t, db, n.ID); got != want {
				t.Fatalf("%s: %q, want %q", when, got, want)
			}
		}
		if got := word(t, db, n.ID); got != "unknown" {
			t.Fatalf("before anybody judged it is %q", got)
		}
		is("fresh", "available")
		ends(t, db, must(letsIn(db, n, "a-1", "acme", true))(t), done)
		is("a tenant is on it", "allocated allocation_live")
		leaves(t, db, n, "a-1")
		is("the tenant has left", "in_turnover turnover_missing")
		takesNode(t, db, n, "r-1", "node.decommission/soft_reset")
		must(db.BeginTurnover(ctx, admin, turn(n, "r-1")))(t)
		is("a turnover cleans it", "in_turnover node_in_run node_status turnover_owed turnover_missing")
		stopped(t, db, "r-1", chain.FailedManual)
		is("the turnover waits for a person", "held turnover_owed node_status node_in_run turnover_missing")
		must(db.Transition(ctx, admin, n.ID, store.Change{To: broker.Retired, By: broker.OwnerDrain, Reason: "drained"}))(t)
		certified(t, db, n, "c-1", "r-1", true)
		ok(t, db.EndTurnover(ctx, admin, turn(n, "r-1"), "c-1"))
		is("the run holds it still", "held node_in_run")
		stopped(t, db, "r-1", chain.Completed)
		is("turned over", "available")
		clock.Advance(broker.SilentAfter + time.Second)
		is("time alone passed", "held node_silent")
		ok(t, db.TouchNodes(ctx, map[string]time.Time{n.ID: clock.Now()}))
		is("heard again", "available")
		freeze(t, db, "")
		is("frozen", "maintenance frozen")
		_, _, err := db.Unfreeze(ctx, olga, "", "", false)
		ok(t, err)
		must(db.Transition(ctx, admin, n.ID, store.Change{To: broker.Quarantined, By: broker.OwnerOperator, Reason: "a smell"}))(t)
		is("quarantined", "held node_status")

		must(db.PlaceEvents(ctx, 100))(t)
		told, _, err := db.Outbox(ctx, store.OutboxFilter{Types: []string{store.AvailabilityEvent}})
		ok(t, err)
		var got []string
		for _, e := range told {
			var d struct {
				From, To, Code string
				Allocation     string `json:"allocation_id"`
				Run            string `json:"run_id"`
				Certificate    string `json:"certificate_id"`
			}
			ok(t, json.Unmarshal(e.Data, &d))
			got = append(got, strings.Join(slices.DeleteFunc([]string{d.From, d.To, d.Code, d.Allocation, d.Run, d.Certificate}, func(s string) bool { return s == "" }), " "))
		}
		want := []string{
			"unknown available", "available allocated allocation_live a-1", "allocated in_turnover turnover_missing a-1",
			"in_turnover held turnover_owed a-1 r-1", "held available c-1", "available held node_silent c-1", "held available c-1",
			"available maintenance frozen c-1", "maintenance held node_status c-1",
		}
		if !slices.Equal(got, want) {
			t.Errorf("told is\n%q, want\n%q", got, want)
		}
	})
}

// An available node that nobody judges any more is unknown to every reader. A word that promises
// nothing stands.
func TestAvailableLapsesWithoutASweep(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, clock *storetest.Clock) {
		free, kept := member(t, db, "free"), member(t, db, "kept")
		must(db.Transition(ctx, admin, kept.ID, store.Change{To: broker.Quarantined, By: broker.OwnerOperator, Reason: "a smell"}))(t)
		judged := clock.Now()
		swept(t, db)
		is := func(when string, want broker.Availability) {
			t.Helper()
			if got := word(t, db, free.ID); got != string(want) {
				t.Errorf("%s: the node is %s, want %s", when, got, want)
			}
			for _, w := range []broker.Availability{broker.Available, broker.AvailabilityUnknown, broker.Held} {
				page, _, err := db.ListNodes(ctx, store.NodeFilter{Availabilities: []broker.Availability{w}, Statuses: broker.NodeStatuses})
				ok(t, err)
				if listed := slices.ContainsFunc(page, func(n broker.Node) bool { return n.ID == free.ID }); listed != (w == want) {
					t.Errorf("%s: listed as %s: %v", when, w, listed)
				}
				if listed := slices.ContainsFunc(page, func(n broker.Node) bool { return n.ID == kept.ID }); listed != (w == broker.Held) {
					t.Errorf("%s: the held node is listed as %s: %v", when, w, listed)
				}
			}
			counts := must(db.CountAvailability(ctx, nil))(t)
			if !slices.ContainsFunc(counts, func(c store.AvailabilityCount) bool { return c.Word == want && c.Nodes == 1 }) || len(counts) != 2 {
				t.Errorf("%s: counted are %+v", when, counts)
			}
			if age := must(db.Gauges(ctx))(t).AvailabilityAge; age != clock.Now().Sub(judged) {
				t.Errorf("%s: the age is %v", when, age)
			}
		}
		is("just judged", broker.Available)
		clock.Advance(store.ConfirmedWithin)
		is("in time", broker.Available)
		clock.Advance(time.Second)
		is("not judged again", broker.AvailabilityUnknown)
		if a := must(db.Availability(ctx, []string{free.ID}))(t)[free.ID]; !a.Since.Equal(judged.Add(store.ConfirmedWithin)) || !a.At.Equal(judged) {
			t.Errorf("%+v", a)
		}
		ok(t, db.TouchNodes(ctx, map[string]time.Time{free.ID: clock.Now()}))
		judged = clock.Now()
		swept(t, db)
		is("judged again", broker.Available)
		ok(t, store.Exec(ctx, db, `UPDATE availability_sweep SET at = 9000000000000000`)) // the clock was ahead
		swept(t, db)
		is("the clock was stepped back", broker.Available)
	})
}

// A sweep locks nodes in the order of a placement: by site, then by id.
func TestASweepJudgesNodesInTheOrderOfAPlacement(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, _ *storetest.Clock) {
		for hostname, site := range map[string]string{"a": "dc2", "b": "dc1", "c": "dc1", "d": "dc0"} {
			n := memberAt(t, db, hostname, site)
			must(db.Transition(ctx, admin, n.ID, store.Change{To: broker.Quarantined, By: broker.OwnerOperator, Reason: "a smell"}))(t)
		}
		swept(t, db)
		must(db.PlaceEvents(ctx, 100))(t)
		told, _, err := db.Outbox(ctx, store.OutboxFilter{Types: []string{store.AvailabilityEvent}})
		ok(t, err)
		var order []string
		for _, e := range told {
			order = append(order, e.Subject)
		}
		if want := []string{"node/n-d", "node/n-b", "node/n-c", "node/n-a"}; !slices.Equal(order, want) {
			t.Errorf("judged are %v, want %v", order, want)
		}
	})
}

// The time of a node that nobody turns over begins when its last tenant has left. A node that an
// allocation is about to use, or that is out of service, does not count.
func TestWhatCountsAsANodeThatNobodyTurnsOver(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, clock *storetest.Clock) {
		n := member(t, db, "gpu-1")
		visit := func() {
			t.Helper()
			ok(t, db.TouchNodes(ctx, map[string]time.Time{n.ID: clock.Now()}))
			ends(t, db, must(letsIn(db, n, fmt.Sprint("a-", clock.Now().Unix()), "acme", true))(t), done)
			clock.Advance(time.Second)
		}
		is := func(when string, want int) {
			t.Helper()
			swept(t, db)
			if got := must(db.LeftAlone(ctx, nil))(t); len(got) != want || want > 0 && got[0].Nodes != want {
				t.Fatalf("%s: %+v, want %d", when, got, want)
			}
		}
		visit()
		leaves(t, db, n, live(t, db, n.ID)[0])
		clock.Advance(store.TurnoverWithin + time.Second)
		is("late", 1)
		visit()
		is("the tenant is back", 0)
		leaves(t, db, n, live(t, db, n.ID)[0])
		clock.Advance(time.Minute)
		is("the tenant left again", 0)
		clock.Advance(store.TurnoverWithin)
		is("late again", 1)
		claim := `INSERT INTO tenant_allocations (id, project_id, status, sku, nodes, gpus, site, image, key_ids, ends_at, labels, code, certificate_ids,
			requested_at, provisioning_at, active_at, releasing_at, released_at, failed_at, release_failed_at)
			VALUES ('t-1', 'p-1', 'active', 's', 1, 0, '', '', '[]', 0, '{}', '', '[]', 1, 1, 1, 0, 0, 0, 0)`
		ok(t, store.Exec(ctx, db, claim))
		ok(t, store.Exec(ctx, db, `INSERT INTO allocation_claims (allocation_id, node_id, since, ended_at) VALUES ('t-1', '`+n.ID+`', 1, 0)`))
		is("an allocation holds it", 0)
		ok(t, store.Exec(ctx, db, `UPDATE tenant_allocations SET status = 'release_failed'`))
		is("the release failed", 1)
		must(db.Transition(ctx, admin, n.ID, store.Change{To: broker.Draining, By: broker.OwnerOperator, Reason: "test"}))(t)
		is("draining", 1)
		must(db.Transition(ctx, admin, n.ID, store.Change{To: broker.Retired, By: broker.OwnerDrain, Reason: "test"}))(t)
		is("retired", 0)
	})
}

// A node with a tenant is counted as allocated, and as faulty if it needs a repair.
func TestFaultsOfAllocatedNodesAreCounted(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, clock *storetest.Clock) {
		n := member(t, db, "gpu-1")
		ends(t, db, must(letsIn(db, n, "a-1", "acme", true))(t), done)
		is := func(when string, faulty int) {
			t.Helper()
			swept(t, db)
			if got := must(db.CountAvailability(ctx, nil))(t); len(got) != 1 || got[0].Word != broker.Allocated || got[0].Faulty != faulty {
				t.Errorf("%s: %+v, want %d faulty", when, got, faulty)
			}
		}
		is("sound", 0)
		for _, code := range []string{"device_missing", "device_unexpected", "certificate_falls_short"} {
			ok(t, store.Exec(ctx, db, `UPDATE node_availability SET codes = '["allocation_live","`+code+`"]'`))
			if got := must(db.CountAvailability(ctx, nil))(t); got[0].Faulty != 1 {
				t.Errorf("with %s: %+v", code, got)
			}
		}
		clock.Advance(broker.SilentAfter + time.Second)
		is("silent", 1)
		ok(t, db.TouchNodes(ctx, map[string]time.Time{n.ID: clock.Now()}))
		is("heard again", 0)
		must(db.Transition(ctx, admin, n.ID, store.Change{To: broker.Quarantined, By: broker.OwnerOperator, Reason: "a smell"}))(t)
		is("quarantined", 1)
	})
}

// stopped brings a run to a status, as the engine saves it.
func stopped(t testing.TB, db *store.DB, run string, status chain.Status) {
	t.Helper()
	must(db.Act(ctx, chain.Order{ID: run, Actor: chain.Actor{Name: "ada"}}, func(_ time.Time, r chain.Record) (chain.Change, error) {
		r.Status = status
		return chain.Change{Record: r}, nil
	}))(t)
}

// A node that its tenant left and that nobody turns over is counted once its time is up, until a
// turnover begins.
func TestANodeThatNobodyTurnsOverIsCounted(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, clock *storetest.Clock) {
		n, other := memberAt(t, db, "left", "dc1"), memberAt(t, db, "other", "dc2")
		for _, m := range []broker.Node{n, other} {
			ok(t, db.SaveBaseline(ctx, admin, m.ID, "sha256:b", []byte("{}"), "test"))
			must(db.Transition(ctx, admin, m.ID, store.Change{To: broker.Active, By: broker.OwnerOnboarding, Reason: "test"}))(t)
			ends(t, db, must(letsIn(db, m, "a-"+m.Hostname, "acme", true))(t), done)
		}
		left := clock.Now()
		leaves(t, db, n, "a-left")
		is := func(when string, want ...store.LeftAlone) {
			t.Helper()
			swept(t, db)
			if got := must(db.LeftAlone(ctx, nil))(t); !slices.Equal(got, want) {
				t.Fatalf("%s: %+v, want %+v", when, got, want)
			}
			if g := must(db.Gauges(ctx))(t); g.LeftAlone != len(want) {
				t.Fatalf("%s: the gauge is %d", when, g.LeftAlone)
			}
		}
		is("in time")
		clock.Advance(store.TurnoverWithin + time.Second)
		is("late, and silent, too", store.LeftAlone{Site: "dc1", Nodes: 1, Since: left})
		if got := must(db.LeftAlone(ctx, []string{"dc2"}))(t); len(got) != 0 {
			t.Errorf("at another site: %+v", got)
		}
		takesNode(t, db, n, "r-1", "node.decommission/soft_reset")
		is("begun")
	})
}

// The word keeps its time while its codes change. A sweep confirms the word, and writes nothing else.
func TestAWordKeepsItsTime(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, clock *storetest.Clock) {
		n := member(t, db, "gpu-1")
		must(db.Transition(ctx, admin, n.ID, store.Change{To: broker.Quarantined, By: broker.OwnerOperator, Reason: "a smell"}))(t)
		swept(t, db)
		since := clock.Now()
		is := func(at time.Time, codes ...string) {
			t.Helper()
			a := must(db.Availability(ctx, []string{n.ID}))(t)[n.ID]
			if a.Word != broker.Held || !a.Since.Equal(since) || !a.At.Equal(at) || !slices.Equal(a.Codes, codes) {
				t.Fatalf("%+v, want since %v, at %v, %v", a, since, at, codes)
			}
		}
		is(since, "node_status")
		clock.Advance(time.Minute)
		freeze(t, db, "")
		if changed := must(db.RenewAvailability(ctx, []string{n.ID}))(t); changed != 0 {
			t.Errorf("%d words changed", changed)
		}
		is(since.Add(time.Minute), "node_status", "frozen")
		clock.Advance(time.Minute)
		swept(t, db)
		is(since.Add(2*time.Minute), "node_status", "frozen")
		if types := must(store.OutboxTypes(ctx, db))(t); len(slices.DeleteFunc(types, func(s string) bool { return s != store.AvailabilityEvent })) != 1 {
			t.Errorf("told is %v", types)
		}
	})
}

// The number of queries of a sweep does not grow with the fleet.
func TestASweepThatFindsNothingAsksNoNodeByItself(t *testing.T) {
	db := storetest.Open(t, "sqlite", nil)
	cost := func() int64 {
		swept(t, db)
		before := db.Statements()
		must(db.SweepAvailability(ctx))(t)
		return db.Statements() - before
	}
	member(t, db, "gpu-0")
	one := cost()
	for i := range 20 {
		member(t, db, fmt.Sprint("gpu-", i+1))
	}
	if many := cost(); many != one || one > 6 {
		t.Errorf("%d statements with one node, and %d with 21", one, many)
	}
}

func TestNodesAreListedByAvailability(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, _ *storetest.Clock) {
		free, kept := member(t, db, "free"), member(t, db, "kept")
		must(db.Transition(ctx, admin, kept.ID, store.Change{To: broker.Quarantined, By: broker.OwnerOperator, Reason: "a smell"}))(t)
		swept(t, db)
		fresh := newNode(t, db, "new")
		for want, words := range map[string][]broker.Availability{
			free.ID:                  {broker.Available},
			kept.ID:                  {broker.Held, broker.Allocated},
			fresh.ID:                 {broker.AvailabilityUnknown},
			free.ID + " " + fresh.ID: {broker.AvailabilityUnknown, broker.Available},
			"":                       {broker.OutOfService},
		} {
			page, _, err := db.ListNodes(ctx, store.NodeFilter{Availabilities: words, Statuses: broker.NodeStatuses})
			ok(t, err)
			var got []string
			for _, n := range page {
				got = append(got, n.ID)
			}
			if wants := strings.Fields(want); !slices.Equal(got, slices.Sorted(slices.Values(wants))) {
				t.Errorf("%v are %v, want %v", words, got, wants)
			}
		}
	})
}

// A deleted node is judged once, and then left alone.
func TestADeletedNodeIsOutOfService(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, _ *storetest.Clock) {
		n := newNode(t, db, "gone")
		swept(t, db)
		must(db.Transition(ctx, admin, n.ID, store.Change{To: broker.Deleted, By: broker.OwnerRemoval, Reason: "gone"}))(t)
		swept(t, db)
		if got := word(t, db, n.ID); got != "out_of_service node_status" {
			t.Errorf("it is %s", got)
		}
		if types := must(store.OutboxTypes(ctx, db))(t); slices.Contains(types, store.AvailabilityEvent) {
			t.Errorf("a node that was never in service is announced: %v", types)
		}
	})
}

// Whatever decides about a node announces itself with the node's id, or for all nodes.
func TestFactsAboutANodeAreHinted(t *testing.T) {
	db := storetest.Open(t, "sqlite", nil)
	hints := db.Hints(ctx)
	var n broker.Node
	var k broker.Task
	for _, fact := range []struct {
		name string
		do   func()
	}{
		{"a node", func() { n = member(t, db, "gpu-1") }},
		{"an allocation", func() { k = must(letsIn(db, n, "a-1", "acme", true))(t); ends(t, db, k, done) }},
		{"its end", func() { leaves(t, db, n, "a-1") }},
		{"a run", func() { takesNode(t, db, n, "r-1", "node.decommission/soft_reset") }},
		{"a stop of the run", func() { stopped(t, db, "r-1", chain.FailedManual) }},
		{"a turnover", func() { must(db.BeginTurnover(ctx, admin, turn(n, "r-1")))(t) }},
		{"a status", func() {
			must(db.Transition(ctx, admin, n.ID, store.Change{To: broker.Retired, By: broker.OwnerDrain, Reason: "drained"}))(t)
		}},
		{"a certificate", func() { certified(t, db, n, "c-1", "r-1", true) }},
		{"the end of the turnover", func() { ok(t, db.EndTurnover(ctx, admin, turn(n, "r-1"), "c-1")) }},
		{"the end of the run", func() { stopped(t, db, "r-1", chain.Completed) }},
		{"a freeze", func() { freeze(t, db, "") }},
		{"the end of the freeze", func() { _, _, err := db.Unfreeze(ctx, olga, "", "", false); ok(t, err) }},
		{"a device", func() {
			in := enrollment(db, "hash-gpu-2", "key")
			newNode(t, db, "gpu-2")
			in.Report = store.NodeReport{Digest: "1", Facts: parts("d1", "g1")}
			must(db.Enroll(ctx, in))(t)
			must(db.Transition(ctx, admin, "n-gpu-2", store.Change{To: broker.Active, By: broker.OwnerOnboarding, Reason: "test"}))(t)
		}},
		{"a claim", func() {
			offered(t, db, "h100")
			ok(t, store.Exec(ctx, db, `UPDATE nodes SET sku = 'h100' WHERE id = '`+n.ID+`'`))
			must(asks(db, "claims", "h100", 1))(t)
		}},
		{"its end", func() {
			walk(t, db, must(db.Allocation(ctx, "claims"))(t), waysTo[broker.AllocationFailed]...)
		}},
	} {
		for len(hints) > 0 {
			<-hints
		}
		fact.do()
		hinted := false
		for len(hints) > 0 {
			if h := <-hints; h.Kind == store.HintNode {
				hinted = true
			}
		}
		if !hinted {
			t.Errorf("%s is not hinted", fact.name)
		}
	}
}
