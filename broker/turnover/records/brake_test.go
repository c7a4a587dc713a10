package records

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/chain"
	"github.com/hostler/hostler/broker/store"
	"github.com/hostler/hostler/broker/store/storetest"
	"github.com/hostler/hostler/broker/turnover"
)

// rack is a broker with the given number of nodes, without any agent's answer.
func rack(t *testing.T, db *store.DB, clock *storetest.Clock, nodes int) (q *quiet, ids []string) {
	t.Helper()
	q = newQuiet(t, db, clock, "abc100", wants)
	ids = []string{q.node}
	for i := 1; i < nodes; i++ {
		id := fmt.Sprintf("n-abcdefghijklmno%d", i)
		q.join(id, fmt.Sprintf("rack-%d", i), fmt.Sprintf("abc10%d", i))
		ids = append(ids, id)
	}
	return q, ids
}

// fall begins soft resets of nodes together, and lets them stop.
func (q *quiet) fall(nodes ...string) (runs []string) {
	q.t.Helper()
	for _, id := range nodes {
		runs = append(runs, q.begins(id))
	}
	for _, id := range runs {
		q.settle(id)
	}
	return runs
}

// held checks that a run is left to a person, with the reason.
func (q *quiet) held(id string, many int) {
	q.t.Helper()
	r, err := q.db.Run(q.ctx, id)
	q.ok(err)
	why := fmt.Sprintf("%d nodes of site dc1 would be reimaged within an hour, more than silent_reimages_at_once (3)", many)
	if r.Status != chain.FailedManual || r.Stage != "drain_node" || r.Failure.Code != turnover.TooManySilent || r.Failure.Class != chain.Class(broker.AgentSilent) ||
		!strings.Contains(r.Failure.Message, why) || !strings.HasPrefix(r.NextAction, "if the node is at fault, reimage it (") {
		q.t.Errorf("%s at %s, %+v, next %q", r.Status, r.Stage, r.Failure, r.NextAction)
	}
	if h, err := q.silence.Starts.Handover(q.ctx, r); err != nil || h != (Handover{}) {
		q.t.Errorf("what comes in its place: %+v, %v", h, err)
	}
}

// alerts counts the messages about a held-back run.
func (q *quiet) alerts(run string) (n int) {
	q.t.Helper()
	_, err := q.db.PlaceEvents(q.ctx, 1000)
	q.ok(err)
	events, _, err := q.db.Outbox(q.ctx, store.OutboxFilter{Types: []string{"node.decommission.manual_intervention_required"}, Subject: "run/" + run, Limit: 1000})
	q.ok(err)
	for _, e := range events {
		var data struct {
			Code string `json:"error_code"`
			Next string `json:"recommended_next_action"`
		}
		q.ok(json.Unmarshal(e.Data, &data))
		if data.Code != turnover.TooManySilent {
			continue
		}
		if n++; !strings.HasPrefix(data.Next, "if the node is at fault, reimage it (") {
			q.t.Errorf("told with next action %q", data.Next)
		}
	}
	return n
}

// A switch dies: no machine is reinstalled because of that, and each run gives the reason.
func TestARackThatFallsSilentIsNotReimaged(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, clock *storetest.Clock) {
		q, ids := rack(t, db, clock, 5)
		runs := q.fall(ids...)
		q.look(3)
		for range 2 { // another leader, and then the hour is over
			q.silence = &Silence{Starts: q.silence.Starts, Log: q.silence.Log}
			q.look(2)
			clock.Advance(2 * time.Hour)
		}
		for _, id := range runs {
			q.held(id, 5)
			if n := q.alerts(id); n != 1 {
				t.Errorf("run %s was told of %d times", id, n)
			}
		}
		if all := q.reimages(); len(all) != 0 {
			t.Errorf("%d machines are installed anew", len(all))
		}
		// The fault was in one node after all: a person has it drained again, and it is silent.
		q.act(runs[0], chain.RetryStage)
		q.settle(runs[0])
		q.look(1)
		q.settle(runs[0])
		q.look(1)
		if all := q.reimages(); len(all) != 1 || all[0].ID != turnover.FollowerOf(runs[0]) {
			t.Errorf("%+v", all)
		}
		q.held(runs[1], 5)
	})
}

// Within an hour no more nodes are reimaged than the policy allows, also one after the other; an
// unfinished reimage counts for longer.
func TestSilentNodesAreReimagedOnlySoManyWithinAnHour(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, clock *storetest.Clock) {
		q, ids := rack(t, db, clock, 6)
		var runs []string
		for i, id := range ids[:4] {
			runs = append(runs, q.fall(id)...)
			q.look(1)
			if i < 3 {
				q.settle(runs[i])
				q.look(1)
			}
		}
		if all := q.reimages(); len(all) != 3 {
			t.Fatalf("%d reimages", len(all))
		}
		q.held(runs[3], 4)
		clock.Advance(2 * time.Hour)
		runs = append(runs, q.fall(ids[4])...)
		q.look(1)
		q.held(runs[4], 4) // of three that have not ended
		for _, r := range q.reimages() {
			q.act(r.ID, chain.Cancel)
			q.settle(r.ID)
		}
		clock.Advance(2 * time.Hour)
		runs = append(runs, q.fall(ids[5])...)
		q.look(1)
		q.settle(runs[5])
		q.look(1)
		if all := q.reimages(); len(all) != 4 {
			t.Errorf("%d reimages", len(all))
		}
	})
}

// A node that cannot be reimaged is not counted.
func TestASilentNodeWithoutAMachineInMAASDoesNotCount(t *testing.T) {
	clock := storetest.NewClock()
	q, ids := rack(t, storetest.Open(t, "sqlite", clock.Now), clock, 3)
	for i := range 2 {
		id := fmt.Sprintf("n-abcdefghijklmnz%d", i)
		q.join(id, fmt.Sprintf("bare-%d", i), "")
		ids = append(ids, id)
	}
	runs := q.fall(ids...)
	q.look(1)
	for _, id := range runs {
		q.settle(id)
	}
	q.look(1)
	if all := q.reimages(); len(all) != 3 {
		t.Errorf("%d reimages", len(all))
	}
}

// Somebody may set the run in motion between the look and the order: the run then continues.
func TestARunThatGoesOnIsNotHeldBack(t *testing.T) {
	clock := storetest.NewClock()
	q, _ := rack(t, storetest.Open(t, "sqlite", clock.Now), clock, 1)
	r := q.reset()
	d, is, err := q.silence.due(q.ctx, r)
	if q.ok(err); !is {
		t.Fatal("it is not due")
	}
	q.act(r.ID, chain.RetryStage)
	q.ok(q.silence.holdBack(q.ctx, d, 5))
	if now, err := q.db.Run(q.ctx, r.ID); err != nil || now.Status != chain.Pending || now.Asked != chain.AskNothing {
		t.Errorf("%+v, %v", now, err)
	}
}
