package turnover_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/chain"
	"github.com/hostler/hostler/broker/turnover"
	"github.com/hostler/hostler/broker/turnover/turnovertest"
	"github.com/hostler/hostler/taskcatalog"
	"github.com/hostler/hostler/test/maassim"
)

// place is a world with a node, with a machine in MAAS or without.
type place struct {
	*world
	node   string
	region *maassim.Region // nil: no MAAS
	begin  func(turnover.Request) chain.Record
	act    func(string, chain.Action) chain.Record
	goOn   func(string) chain.Record
	status func() maassim.Status
}

func inMAAS(t *testing.T) *place {
	s := newSite(t)
	s.place.Policy.AcceptMAASErase, s.place.Policy.DrainTimeoutSeconds = true, 60
	return &place{s.world, s.id, s.region, s.turnOver, s.order, s.goOn, func() maassim.Status { return s.machine().Status }}
}

func strict(t *testing.T) *place {
	s := newSite(t)
	s.place.Policy.DrainTimeoutSeconds, s.place.Policy.ReleaseFallbackNoErase, s.place.Profile.Policy.ReleaseFallbackNoErase = 60, false, false
	return &place{s.world, s.id, s.region, s.turnOver, s.order, s.goOn, func() maassim.Status { return s.machine().Status }}
}

func withoutMAAS(t *testing.T) *place {
	w := newWorld(t)
	w.policy.DrainTimeoutSeconds = 60
	return &place{w, node, nil, w.begin, w.act, w.settle, func() maassim.Status { return 0 }}
}

// row is one failure of a turnover: the fault, the number of attempts, the result, and the
// operator's way to the end.
type row struct {
	name  string
	at    func(*testing.T) *place
	asks  turnover.Request
	fails func(*place)

	stops string // at this stage; empty: the run completes with a warning
	tries int    // of that stage
	ends  chain.Status
	class broker.FailureClass
	warns string

	node    broker.NodeStatus
	owed    bool
	machine maassim.Status

	mends func(*place)
	order chain.Action
	after chain.Status // of the run, afterwards
	last  broker.NodeStatus
}

// broken makes a method of the broker's records fail until it is repaired.
func broken(method string, err error) func(*place) {
	return func(p *place) {
		p.book.Broken = func(m string) error {
			if m == method {
				return err
			}
			return nil
		}
	}
}

func unbroken(p *place) { p.book.Broken = nil }

// failing makes the agent fail a type of task, with a tenant on the node.
func failing(taskType string) func(*place) {
	return func(p *place) {
		p.book.LetIn(p.node, "a-1", "acme", false)
		p.book.Change(p.node, func(m *turnovertest.Machine) { m.Fails = map[string]taskcatalog.Code{taskType: "handler_failed"} })
	}
}

func silentAgent(p *place) {
	p.book.Change(p.node, func(m *turnovertest.Machine) { m.Silent = true })
}

func wellAgain(p *place) {
	p.book.Change(p.node, func(m *turnovertest.Machine) { m.Fails, m.Silent, m.Faulty, m.Residue = nil, false, nil, nil })
}

func inject(kind maassim.Kind, op string, times int) func(*place) {
	return func(p *place) { p.region.Inject(maassim.Fault{Kind: kind, Op: op, Times: times}) }
}

func relent(p *place) { p.region.Relent() }

// errDead is an unclassified error: a row that cannot be written.
var errDead = errors.New("the disk is full")

var (
	again  = turnover.Request{Mode: turnover.Reimage, Erase: "secure", ForceRelease: true}
	forget = turnover.Request{Mode: turnover.FullDecommission, ForceRelease: true, RemoveRecord: true}
)

func (c row) tell(t *testing.T) {
	p := c.at(t)
	c.fails(p)
	r := p.begin(c.asks)
	if r.Status != c.ends || c.stops != "" && r.Stage != c.stops {
		t.Fatalf("%s at %s: %+v; it went %v", r.Status, r.Stage, r.Failure, p.went(r.ID))
	}
	p.has(t, c.node, c.owed, c.machine)
	if c.stops == "" {
		c.warned(t, p, r.ID)
		return
	}
	if r.Failure.Class != chain.Class(c.class) || r.NextAction == "" {
		t.Errorf("it failed of %s %s: %s; next %q", r.Failure.Class, r.Failure.Code, r.Failure.Message, r.NextAction)
	}
	if n := slices.DeleteFunc(p.went(r.ID), func(w string) bool { return w != c.stops+" failed" }); len(n) != c.tries {
		t.Errorf("%s was tried %d times, want %d", c.stops, len(n), c.tries)
	}
	if c.order == "" {
		return
	}
	if c.mends != nil {
		c.mends(p)
	}
	if r = p.act(r.ID, c.order); r.Status != c.after {
		t.Fatalf("after %s: %s at %s: %+v", c.order, r.Status, r.Stage, r.Failure)
	}
	p.has(t, c.last, c.last == broker.Quarantined || c.last == broker.Deleted, 0)
}

func (c row) warned(t *testing.T, p *place, id string) {
	t.Helper()
	s := p.state(id)
	if text := strings.Join(append(s.Warnings, s.Machine.Warnings...), "\n"); !strings.Contains(text, c.warns) {
		t.Errorf("it warns of %q, and not of %q", text, c.warns)
	}
}

func (p *place) has(t *testing.T, node broker.NodeStatus, owed bool, machine maassim.Status) {
	t.Helper()
	m := p.book.Machine(p.node)
	if m.Status != node || node != broker.Deleted && m.TurnoverOwed != owed {
		t.Errorf("the node is %s (%s), turnover owed %v; want %s, %v", m.Status, m.StatusReason, m.TurnoverOwed, node, owed)
	}
	if got := p.status(); machine != 0 && got != machine {
		t.Errorf("the machine is %s, want %s", got, machine)
	}
}
