package turnovertest

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/certificate"
	"github.com/hostler/hostler/broker/turnover"
	"github.com/hostler/hostler/pki/pkitest"
)

// Book is turnover.Nodes in memory.
type Book struct {
	Now func() time.Time
	// Broken, if set, is called before each method, with its name; an error is returned.
	Broken func(method string) error

	t  testing.TB
	ca *pkitest.Authority

	mu      sync.Mutex
	nodes   map[string]*Machine
	files   map[string][]byte                  // certificates by id
	accepts map[string][]certificate.Downgrade // by run
	owed    map[string]certificate.Verdict
	of      map[string]string // certificate → run
	epoch   map[string]int64  // of the node, by certificate
	issued  []string          // certificates, in order
	tasks   map[string]*broker.Task
	made    int
	tokens  int // enrol tokens so far
	// InRun returns the live run that has a node; nil, or empty: none. No user is let in while a
	// run has the node.
	InRun func(nodeID string) (runID string)
	// Forced are the allocations that were ended by force, in order.
	Forced []string
	// Cancelled is how many tasks a person has cancelled.
	Cancelled int
}

var _ turnover.Nodes = (*Book)(nil)

// New makes an empty book whose certificates can be verified.
func New(t testing.TB, now func() time.Time) *Book {
	t.Helper()
	return &Book{
		Now: now, t: t, ca: pkitest.NewAt(t, now()),
		accepts: map[string][]certificate.Downgrade{}, nodes: map[string]*Machine{}, files: map[string][]byte{},
		owed: map[string]certificate.Verdict{}, of: map[string]string{}, epoch: map[string]int64{}, tasks: map[string]*broker.Task{},
	}
}

func (b *Book) enter(method string) (leave func(), err error) {
	if b.Broken != nil {
		if err := b.Broken(method); err != nil {
			return nil, err
		}
	}
	b.mu.Lock()
	return b.mu.Unlock, nil
}

// Node implements turnover.Nodes.
func (b *Book) Node(_ context.Context, id string) (broker.Node, error) {
	leave, err := b.enter("Node")
	if err != nil {
		return broker.Node{}, err
	}
	defer leave()
	return b.nodes[id].Node, nil
}

// Parts implements turnover.Nodes.
func (b *Book) Parts(_ context.Context, id string) (turnover.Parts, error) {
	leave, err := b.enter("Parts")
	if err != nil {
		return turnover.Parts{}, err
	}
	defer leave()
	return b.nodes[id].Parts, nil
}
