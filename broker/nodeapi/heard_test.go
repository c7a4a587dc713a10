package nodeapi

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/store"
	"github.com/hostler/hostler/broker/store/storetest"
	"github.com/hostler/hostler/taskcatalog/wire"
)

// idlePoll is answered at once, because there is no work for the node.
func (n *testNode) idlePoll() { n.get(n.path("/tasks/wait?lanes=exclusive,concurrent")).nothing() }

// idles makes a node that is in service and polls.
func (b *testBroker) idles(i int) *testNode {
	b.t.Helper()
	n := b.member()
	n.header.Set(wire.HeaderInstance, fmt.Sprintf("%032x", i+1))
	n.header.Set(wire.HeaderPrefer, wire.PreferNoWait)
	n.fetch("node.validate_clean")
	for _, k := range n.baselines() {
		must(b.queue.Cancel(b.t.Context(), admin, k.ID, ""))(b.t)
		n.get(n.path("/tasks/wait?lanes=")).into(new(wire.WaitReply)) // the node is told to stop
		n.post(n.path("/tasks/"+k.ID+"/result"), wire.ResultRequest{Attempt: 1, Outcome: "canceled", Code: "canceled"}).into(new(wire.ResultReply))
	}
	must(b.db.Transition(b.t.Context(), admin, n.id, store.Change{To: broker.Active, By: broker.OwnerOnboarding}))(b.t)
	n.idlePoll()
	return n
}

// A node without work costs its broker no statement: its polls are answered from memory. The few
// statements meanwhile are the broker's own.
func TestAnIdlePollCostsNoStatement(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, clock *storetest.Clock) {
		b := newBrokerOn(t, db, clock)
		var nodes []*testNode
		for i := range 3 {
			nodes = append(nodes, b.idles(i))
		}
		const each, own = 30, 25
		before := db.Statements()
		for range each {
			for _, n := range nodes {
				n.idlePoll()
			}
		}
		if asked := db.Statements() - before; asked > own {
			t.Errorf("%d idle polls: %d statements", each*len(nodes), asked)
		}
		// The records are read again together, and are valid for another minute.
		for range 4 {
			b.clock.Advance(rereadEvery)
			must0(t, b.readDenyList(t.Context()))
			before = db.Statements()
			b.reread(t.Context())
			for range each / len(nodes) {
				for _, n := range nodes {
					n.idlePoll()
				}
			}
			if asked := db.Statements() - before; asked > own {
				t.Errorf("to read %d records and answer %d polls took %d statements", len(nodes), each, asked)
			}
		}
	})
}

// A change made by another broker is seen when the records are read again.
func TestAReadingOfAllRecordsLetsNoEarlierEnrolmentIn(t *testing.T) {
	b := newBroker(t)
	n := b.idles(1)
	_, token := b.reissue(n.id)
	b.machine().enroll(token)
	b.advance(recheckEvery)
	b.reread(t.Context())
	n.get(n.path("/tasks/wait?lanes=")).refused(b, 403, "epoch_superseded")
}

// A query that the database does not answer is cancelled and repeated.
func TestWhatIsDoneNowAndThenDoesNotHang(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		var times atomic.Int32
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			periodically(ctx, 5*time.Second, 30*time.Second, func(ctx context.Context) {
				times.Add(1)
				<-ctx.Done()
			})
		}()
		time.Sleep(2 * time.Minute)
		if n := times.Load(); n != 4 { // from 5, 35, 65, and 95 s on
			t.Errorf("begun %d times in two minutes", n)
		}
		stop()
		<-ended
	})
}
