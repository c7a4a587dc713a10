//go:build !race

package records

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/allocation"
	"github.com/hostler/hostler/broker/certificate"
	"github.com/hostler/hostler/broker/chain"
	"github.com/hostler/hostler/broker/onboarding"
	"github.com/hostler/hostler/broker/operation"
	operationrecords "github.com/hostler/hostler/broker/operation/records"
	"github.com/hostler/hostler/broker/taskqueue"
	"github.com/hostler/hostler/broker/taskstage"
	"github.com/hostler/hostler/broker/turnover"
	turnoverrecords "github.com/hostler/hostler/broker/turnover/records"
)

// errDead is the answer to all calls of a broker that has died.
var errDead = errors.New("the broker is dead")

// replica is a broker on the store. It may die at each call of the store, before or after the call was
// carried out, and another broker or people may act at each call.
type replica struct {
	s         *simulation
	dead      bool
	engine    *chain.Engine
	queue     *taskqueue.Queue
	records   *Records
	watch     *Watch
	automatic *turnoverrecords.Automatic
}

func (s *simulation) replica() *replica {
	s.made++
	b := &replica{s: s}
	b.queue = taskqueue.New(taskqueue.Config{
		DB: s.db, Signer: signer{authority.Authority}, Rand: rand.NewChaCha8([32]byte{byte(s.seed), byte(s.seed >> 8), byte(s.seed >> 16), byte(s.made)}),
	})
	starts := &turnoverrecords.Starts{DB: s.db}
	operations := &operationrecords.Records{DB: s.db, Queue: b.queue, Signer: statements{authority.Statement}}
	b.records = &Records{DB: s.db, Queue: b.queue, Starts: starts, Operations: operations}
	nodes := &turnoverrecords.Nodes{DB: s.db, Queue: b.queue, Signer: statements{authority.Statement}, Now: s.clock.Now, Version: "test"}
	kinds := (&turnover.Chains{Nodes: mortalNodes{nodes, b}, MAAS: &onboarding.Chains{}}).All()
	kinds = append(kinds, (&allocation.Chains{Records: mortalRecords{b.records, b}}).All()...)
	kinds = append(kinds, (&operation.Chains{Records: mortalOperations{operations, b}}).All()...)
	var err error
	b.engine, err = chain.New(mortalStore{s.db, b}, classes(), chain.Options{Owner: fmt.Sprint("broker ", s.made), NewID: s.newID}, kinds...)
	s.must(err)
	starts.Runs = b.engine
	b.watch = &Watch{DB: s.db, Starts: starts, Runs: b.engine, Log: zap.NewNop()}
	b.automatic = &turnoverrecords.Automatic{Starts: starts, Log: zap.NewNop()}
	return b
}

func (s *simulation) newID(now time.Time) string {
	s.runs++
	return fmt.Sprintf("r-%011x%04d", now.UnixMilli(), s.runs)
}

// call makes a call of the store, at which the broker may die.
func (b *replica) call(do func() error) error {
	if b.dead {
		return errDead
	}
	b.s.meanwhile(b)
	fate := 0
	if !b.s.calmed {
		fate = b.s.by.IntN(250)
	}
	if fate == 1 {
		b.dies("before a call")
		return errDead
	}
	if err := do(); err != nil {
		return err
	}
	if fate == 2 {
		b.dies("after a call")
		return errDead
	}
	return nil
}

func (b *replica) dies(when string) {
	b.dead = true
	b.s.counts["deaths"]++
	b.s.say("a broker dies %s", when)
}

// mortalStore is the engine's store.
type mortalStore struct {
	chain.Store
	b *replica
}

func (m mortalStore) Insert(ctx context.Context, runs []chain.NewRun, batch *chain.Batch) error {
	return m.b.call(func() error {
		err := m.Store.Insert(ctx, runs, batch)
		for _, r := range runs {
			if err == nil {
				m.b.s.begun(r)
			}
		}
		return err
	})
}

func (m mortalStore) Claim(ctx context.Context, c chain.Claim) (r *chain.Record, err error) {
	err = m.b.call(func() error {
		r, err = m.Store.Claim(ctx, c)
		return err
	})
	if err != nil {
		return nil, err
	}
	return r, nil
}

func (m mortalStore) Renew(ctx context.Context, r *chain.Record, lease time.Duration) error {
	return m.b.call(func() error { return m.Store.Renew(ctx, r, lease) })
}

func (m mortalStore) Save(ctx context.Context, c chain.Change) error {
	return m.b.call(func() error { return m.Store.Save(ctx, c) })
}

func (m mortalStore) Act(ctx context.Context, o chain.Order, decide func(time.Time, chain.Record) (chain.Change, error)) (r chain.Record, err error) {
	err = m.b.call(func() error {
		r, err = m.Store.Act(ctx, o, decide)
		return err
	})
	return r, err
}

// mortalRecords are the records of the allocation chains.
type mortalRecords struct {
	allocation.Records
	b *replica
}

func (m mortalRecords) Request(ctx context.Context, t taskstage.Task) (k broker.Task, err error) {
	err = m.b.call(func() error { k, err = m.Records.Request(ctx, t); return err })
	return k, err
}

func (m mortalRecords) Withdraw(ctx context.Context, nodeID, runID, reason string) (all []broker.Task, err error) {
	err = m.b.call(func() error { all, err = m.Records.Withdraw(ctx, nodeID, runID, reason); return err })
	return all, err
}

func (m mortalRecords) Reach(ctx context.Context, id string, c allocation.Change) error {
	return m.b.call(func() error { return m.Records.Reach(ctx, id, c) })
}

func (m mortalRecords) Allocation(ctx context.Context, id string) (a broker.Allocation, err error) {
	err = m.b.call(func() error { a, err = m.Records.Allocation(ctx, id); return err })
	return a, err
}

func (m mortalRecords) Account(ctx context.Context, a broker.Allocation, nodeID string) (as allocation.Account, err error) {
	err = m.b.call(func() error { as, err = m.Records.Account(ctx, a, nodeID); return err })
	return as, err
}

func (m mortalRecords) Proven(ctx context.Context, a broker.Allocation) (all map[string]string, err error) {
	err = m.b.call(func() error { all, err = m.Records.Proven(ctx, a); return err })
	return all, err
}

func (m mortalRecords) Holder(ctx context.Context, nodeID string) (r *chain.Record, err error) {
	err = m.b.call(func() error { r, err = m.Records.Holder(ctx, nodeID); return err })
	return r, err
}

func (m mortalRecords) TurnOver(ctx context.Context, a broker.Allocation, nodeID, cause, reimage string) (waits string, err error) {
	err = m.b.call(func() error { waits, err = m.Records.TurnOver(ctx, a, nodeID, cause, reimage); return err })
	return waits, err
}

func (m mortalRecords) Replaced(ctx context.Context, nodeID string, runIDs []string) (replaced bool, err error) {
	err = m.b.call(func() error { replaced, err = m.Records.Replaced(ctx, nodeID, runIDs); return err })
	return replaced, err
}

// mortalNodes are the records of the turnovers. What they say of certificates goes into the ledger.
type mortalNodes struct {
	turnover.Nodes
	b *replica
}

func (m mortalNodes) Request(ctx context.Context, t taskstage.Task) (k broker.Task, err error) {
	err = m.b.call(func() error { k, err = m.Nodes.Request(ctx, t); return err })
	return k, err
}

func (m mortalNodes) Withdraw(ctx context.Context, nodeID, runID, reason string) (all []broker.Task, err error) {
	err = m.b.call(func() error { all, err = m.Nodes.Withdraw(ctx, nodeID, runID, reason); return err })
	return all, err
}

func (m mortalNodes) Node(ctx context.Context, nodeID string) (n broker.Node, err error) {
	err = m.b.call(func() error { n, err = m.Nodes.Node(ctx, nodeID); return err })
	return n, err
}

func (m mortalNodes) Occupants(ctx context.Context, nodeID string) (all []broker.Occupant, err error) {
	err = m.b.call(func() error { all, err = m.Nodes.Occupants(ctx, nodeID); return err })
	return all, err
}

func (m mortalNodes) RootSinceReimage(ctx context.Context, nodeID string) (root bool, err error) {
	err = m.b.call(func() error { root, err = m.Nodes.RootSinceReimage(ctx, nodeID); return err })
	return root, err
}

func (m mortalNodes) UnendedOperation(ctx context.Context, nodeID string) (id string, err error) {
	err = m.b.call(func() error { id, err = m.Nodes.UnendedOperation(ctx, nodeID); return err })
	return id, err
}

func (m mortalNodes) Disable(ctx context.Context, nodeID, runID, reason string, from broker.NodeStatus, ends []string) (forced []broker.Occupant, err error) {
	err = m.b.call(func() error { forced, err = m.Nodes.Disable(ctx, nodeID, runID, reason, from, ends); return err })
	return forced, err
}

func (m mortalNodes) Quarantine(ctx context.Context, nodeID, reason string) error {
	return m.b.call(func() error { return m.Nodes.Quarantine(ctx, nodeID, reason) })
}

func (m mortalNodes) Certify(ctx context.Context, c *certificate.Clean) (v certificate.Verdict, err error) {
	err = m.b.call(func() error {
		if m.b.s.claims != nil {
			m.b.s.claims(c)
		}
		v, err = m.Nodes.Certify(ctx, c)
		if err == nil {
			m.b.s.certified(c, v)
		}
		return err
	})
	return v, err
}

func (m mortalNodes) Enable(ctx context.Context, nodeID, runID, certificateID string, lifts turnover.Lifts) error {
	return m.b.call(func() error {
		err := m.Nodes.Enable(ctx, nodeID, runID, certificateID, lifts)
		if err == nil {
			m.b.s.installed(nodeID, runID)
			m.b.s.handedOut(nodeID, certificateID)
		}
		return err
	})
}

// begun notes the policy with which a turnover begins.
func (s *simulation) begun(r chain.NewRun) {
	if !broker.RunKindOf(r.Kind).TurnsOver {
		return
	}
	var state turnover.Turnover
	s.must(json.Unmarshal(r.State, &state))
	s.policies[r.ID], s.copies[r.ID] = s.strict, state.Policy
	if strings.Contains(state.Reason, "the policy asks for more") {
		s.counts["turnovers for a stricter policy"]++
	}
	s.say("turnover %s of %s begins, the policy is strict %v", r.ID, state.NodeID, s.strict)
	s.counts["turnovers"]++
	open, err := s.db.OpenRuns(ctx, s.site.Name, turnover.ByThemselves...)
	if s.must(err); open > s.limit {
		s.wrong("%d turnovers that nobody requested are under way, and the site has %d places", open, s.limit)
	}
}

// certified enters a certificate into the ledger, and compares it with the machine.
func (s *simulation) certified(c *certificate.Clean, v certificate.Verdict) {
	if s.proofs[c.ID] != nil {
		return // repeated: the first statement stands
	}
	m := s.machine(c.Node.ID)
	s.proofs[c.ID] = &proven{id: c.ID, node: m.id, at: s.clock.Now(), meets: v.MeetsPolicy, covers: slices.Clone(m.traces)}
	s.say("certificate %s of %s meets the policy %v", c.ID, m.id, v.MeetsPolicy)
	kept, err := s.db.CleanCertificate(ctx, c.ID)
	s.must(err)
	if lacks := turnover.Lacks(kept.File, s.copies[c.Run.ID]); len(lacks) > 0 {
		s.wrong("certificate %s lacks %q by the policy of its own turnover", c.ID, lacks)
	}
	switch {
	case !v.MeetsPolicy:
		s.counts["certificates that fall short"]++
	case !m.clean || m.dirty || len(m.accounts) > 0:
		s.wrong("certificate %s meets the policy, and the node is not clean: %s", c.ID, m)
	case s.policies[c.Run.ID]:
		s.wrong("certificate %s meets the policy, which asks for more", c.ID)
	default:
		s.counts["certificates"]++
	}
}

// handedOut notes that a node was handed out on a certificate.
func (s *simulation) handedOut(nodeID, certificateID string) {
	p, m := s.proofs[certificateID], s.machine(nodeID)
	switch {
	case p == nil || p.node != nodeID || !p.meets:
		s.wrong("node %s is handed out on certificate %q, which does not meet the policy: %+v", nodeID, certificateID, p)
	case p.handed:
		return // the answer was lost
	case len(m.accounts) > 0:
		s.wrong("node %s is handed out, and has the accounts of %v", nodeID, m.accounts)
	default:
		p.handed = true
		m.traces = slices.DeleteFunc(m.traces, func(id string) bool { return slices.Contains(p.covers, id) })
		s.say("node %s is handed out on %s", nodeID, certificateID)
	}
}
