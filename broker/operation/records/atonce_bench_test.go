package records

import (
	"context"
	"crypto/rand"
	"fmt"
	"testing"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/chain"
	"github.com/hostler/hostler/broker/operation"
	"github.com/hostler/hostler/broker/store/storetest"
	"github.com/hostler/hostler/broker/taskqueue"
	"github.com/hostler/hostler/broker/taskstage"
	"github.com/hostler/hostler/pki"
	"github.com/hostler/hostler/taskcatalog"
)

// BenchmarkOperationsAtOnce carries out 100 and 1,000 operations at once, on SQLite, with nodes that answer at the
// second look. The time of one of the thousand is measured in times of one of the hundred: 1 is linear.
func BenchmarkOperationsAtOnce(b *testing.B) {
	var few, many time.Duration
	for range b.N {
		few += atOnce(b, 100)
		many += atOnce(b, 1000)
	}
	b.ReportMetric(float64(many)/10/float64(few), "times-of-100")
	b.ReportMetric(float64(many.Microseconds())/1000/1000/float64(b.N), "ms/operation")
}

// atOnce is the time of n operations, each on an allocation of its own.
func atOnce(b *testing.B, n int) time.Duration {
	b.Helper()
	const ofProject = 100 // as many as a project may have under way
	clock := storetest.NewClock()
	db := storetest.Open(b, "sqlite", clock.Now)
	s := &site{TB: b, db: db, clock: clock, records: &Records{DB: db, Queue: taskqueue.New(taskqueue.Config{DB: db, Rand: rand.Reader}), Signer: theKey{}}}
	nodes := &quick{Records: s.records, byKey: map[string]*broker.Task{}, byNode: map[string]*broker.Task{}}
	var err error
	s.engine, err = chain.New(db, chain.Classes{}, chain.Options{}, (&operation.Chains{Records: nodes}).All()...)
	s.ok(err)
	s.stock()
	var orders []Order
	for i := range n {
		if i%ofProject == 0 {
			id := fmt.Sprint("p-b", i/ofProject)
			s.project, err = db.CreateProject(b.Context(), ada, broker.Project{ID: id, OrganisationID: "org-1", Name: id})
			s.ok(err)
			_, err = db.SetQuota(b.Context(), ada, broker.Quota{ProjectID: id, SKU: "h100", Nodes: ofProject}, "")
			s.ok(err)
		}
		s.join(fmt.Sprint("n-b", i))
		w := s.onLab()
		w.Allocation = s.allocated(fmt.Sprint("alc-b", i), s.project.ID, 1)
		orders = append(orders, w)
	}
	begun := time.Now()
	var last broker.Operation
	for _, w := range orders {
		last = s.begun(w)
	}
	for live := 1; live > 0; {
		s.settle()
		all, err := db.LiveOperations(b.Context())
		s.ok(err)
		live = len(all)
	}
	took := time.Since(begun)
	s.stands(last.ID, broker.OperationSucceeded, 1, "")
	return took
}

// quick are tasks whose nodes answer at the second look. A task is found at once, however many there are.
type quick struct {
	*Records
	byKey, byNode map[string]*broker.Task
}

func (q *quick) Request(_ context.Context, t taskstage.Task) (broker.Task, error) {
	if k := q.byKey[t.Key]; k != nil {
		succeeds(k)
		return *k, nil
	}
	k := &broker.Task{
		ID: "t-" + t.Key, IdempotencyKey: t.Key, NodeID: t.NodeID, CorrelationID: t.RunID, Status: broker.TaskDispatched,
		EnvelopeDigest: pki.Digest([]byte(t.Key)), Outcome: taskcatalog.OutcomeSucceeded,
	}
	q.byKey[t.Key], q.byNode[t.NodeID] = k, k
	return *k, nil
}

func (q *quick) Tasks(_ context.Context, nodeID, _ string) ([]broker.Task, error) {
	return []broker.Task{*q.byNode[nodeID]}, nil
}

func (q *quick) Statement(ctx context.Context, o broker.Operation, end broker.EndOperation) (file, receipt []byte, err error) {
	return q.state(ctx, o, end, q.Tasks)
}
