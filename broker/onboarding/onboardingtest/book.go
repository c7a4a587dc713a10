package onboardingtest

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/onboarding"
	"github.com/hostler/hostler/taskcatalog"
)

// Book keeps sites and nodes in memory.
type Book struct {
	Now       func() time.Time
	ID        string // of the only node; empty: ids are numbered
	Overrides []broker.PowerOverride
	RoCE      []broker.RoCEAssignment
	// Broken, if set, is called before each method with the method's name; the method returns its
	// error.
	Broken func(method string) error
	// Unlike returns why a node's machine is not the expected one; nil or an empty string: it
	// matches.
	Unlike func(nodeID string) string

	mu      sync.Mutex
	sites   map[string]broker.Site // by id
	nodes   []*entry
	reports map[string]string // capabilities
}

type entry struct {
	broker.Node
	run      string
	turnover string // the run that has the node between two tenants; empty: none
	token    string // empty: no open token
	expires  time.Time
	extended int
	reseeds  map[string]int // by key: number of requests
	own      bool           // quarantined, and not by a person
	seeded   taskcatalog.MAASMachineToken
	asked    map[string]string // diagnostics by key: the task

	installed onboarding.Installation
}

var (
	_ onboarding.Records = (*Book)(nil)
	_ onboarding.Nodes   = (*Book)(nil)
)

func (b *Book) enter(method string) (leave func(), err error) {
	if b.Broken != nil {
		if err := b.Broken(method); err != nil {
			return nil, err
		}
	}
	b.mu.Lock()
	return b.mu.Unlock, nil
}

// id returns the id of the next node.
func (b *Book) id() string {
	if b.ID != "" {
		return b.ID
	}
	return fmt.Sprintf("n-%04d", len(b.nodes)+1)
}

// PutSite adds or replaces a site.
func (b *Book) PutSite(s broker.Site) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.sites == nil {
		b.sites = map[string]broker.Site{}
	}
	b.sites[s.ID] = s
}

// All lists the nodes, oldest first.
func (b *Book) All() []broker.Node {
	b.mu.Lock()
	defer b.mu.Unlock()
	var out []broker.Node
	for _, e := range b.nodes {
		out = append(out, e.Node)
	}
	return out
}

// Put moves a node, as an operator does.
func (b *Book) Put(nodeID string, status broker.NodeStatus) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if e := b.find(func(e *entry) bool { return e.ID == nodeID }); e != nil {
		e.Status, e.own = status, false
	}
}

// Turn gives a node to a run that takes back its machine: the node is retired, and a turnover is
// owed.
func (b *Book) Turn(nodeID, runID string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if e := b.find(func(e *entry) bool { return e.ID == nodeID }); e != nil {
		e.Status, e.TurnoverOwed, e.turnover = broker.Retired, true, runID
	}
}

// find returns the first node that satisfies what; nil: no node does.
func (b *Book) find(what func(*entry) bool) *entry {
	i := slices.IndexFunc(b.nodes, what)
	if i < 0 {
		return nil
	}
	return b.nodes[i]
}

func notFound(nodeID string) error {
	return broker.Errorf(broker.NotFound, "node_not_found", "there is no node %s", nodeID)
}
