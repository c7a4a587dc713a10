package records

import (
	"context"
	"crypto/rand"
	"fmt"
	"runtime"
	"syscall"
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

// BenchmarkOperationsAtOnce carries out 100, 250 and 1,000 operations at once, on SQLite, with nodes that answer at the
// second look. The processor time of one of the thousand is measured in times of one of the hundred, and of one of the
// 250: 1 is linear. The clock's time says more about what else the machine does.
func BenchmarkOperationsAtOnce(b *testing.B) {
	each := map[int]time.Duration{} // of one operation, by their number
	for range b.N {
		for _, n := range []int{100, 250, 1000} {
			each[n] += atOnce(b, n) / time.Duration(n)
		}
	}
	b.ReportMetric(float64(each[1000])/float64(each[100]), "times-of-100")
	b.ReportMetric(float64(each[1000])/float64(each[250]), "times-of-250")
	b.ReportMetric(float64(each[1000].Microseconds())/1000/float64(b.N), "cpu-ms/operation")
}

// used is the processor time of this process.
func used(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// atOnce is the processor time of n operations, each on an allocation of its own.
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
	runtime.GC() // of what made the site
	begun := used(b)
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
	took := used(b) - begun
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
