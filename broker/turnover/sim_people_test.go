//go:build !race

package turnover_test

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/chain"
	"github.com/hostler/hostler/broker/turnover"
	"github.com/hostler/hostler/broker/turnover/turnovertest"
	"github.com/hostler/hostler/test/maassim"
)

// people are tenants, who come and go, and operators, who act at random at any moment.
func (s *simulation) people() {
	for _, b := range s.boxes {
		if s.chance(70) {
			s.comes(b)
		}
	}
	for range 2 + s.by.IntN(4) {
		s.later(s.until(4*time.Hour), func() { s.comes(pick(s, s.boxes...)) })
		s.later(s.until(4*time.Hour), func() { s.goes(pick(s, s.boxes...)) })
	}
	for range 2 + s.by.IntN(3) {
		s.later(s.until(2*time.Hour), func() { s.start(pick(s, s.boxes...), s.request()) })
	}
	for range s.by.IntN(5) {
		s.later(s.until(3*time.Hour), func() {
			if len(s.runs) == 0 {
				return
			}
			r, without := pick(s, s.runs...), ""
			action := pick(s, chain.Actions...)
			if now := s.run(r.id); action == chain.Resume && s.chance(50) {
				without = now.Stage
			}
			s.order(r, action, without)
		})
	}
	if s.chance(20) {
		s.later(s.until(3*time.Hour), func() { s.letIn(pick(s, s.boxes...)) })
	}
	if s.chance(20) {
		s.later(s.until(3*time.Hour), func() { s.keepOut(pick(s, s.boxes...)) })
	}
	if s.chance(60) {
		b := pick(s, s.boxes...)
		from := s.until(3 * time.Hour)
		s.later(from, func() { s.pause(b) })
		if s.chance(40) {
			s.later(from+s.until(3*time.Hour), func() { s.goOn(b) })
		}
	}
	if s.chance(30) {
		s.later(s.until(4*time.Hour), s.takesBack)
	}
	for range s.by.IntN(3) {
		s.later(s.until(4*time.Hour), func() { s.resolve(pick(s, s.boxes...)) })
	}
}

// comes provisions a tenant, if the node accepts users.
func (s *simulation) comes(b *box) {
	s.tenants++
	id, root := fmt.Sprintf("a-%d", s.tenants), s.chance(40)
	if !s.book.LetIn(b.id, id, pick(s, "acme", "umbrella"), root) {
		s.counts["tenants kept out"]++
		return
	}
	s.counts["tenants let in"]++
	s.say("tenant %s is on %s, root %v", id, b.id, root)
	if s.chance(15) {
		s.dirty(b)
		s.later(s.until(6*time.Hour), func() { s.mend(b) })
	}
}

// goes ends the allocations of a node, if its agent answers.
func (s *simulation) goes(b *box) {
	s.book.Change(b.id, func(m *turnovertest.Machine) {
		for i := range m.Users {
			if m.Users[i].Live() && !m.Silent && !m.Denied() {
				m.Users[i].EndedAt = s.clock.Now()
				s.say("tenant %s is gone from %s", m.Users[i].ID, b.id)
			}
		}
	})
}

// request is a turnover of any kind.
func (s *simulation) request() turnover.Request {
	req := turnover.Request{
		Mode:         pick(s, turnover.SoftReset, turnover.SoftReset, turnover.Reimage, turnover.Reimage, turnover.FullDecommission, turnover.StorageCleanup),
		Erase:        pick(s, "none", "quick", "secure", "secure"),
		ForceRelease: s.chance(60), Reason: "tenant_transition", RequestedBy: "ada",
	}
	if req.Mode != turnover.StorageCleanup {
		req.StorageCleanup = pick(s, "none", "local")
	}
	req.RemoveRecord = req.Mode == turnover.FullDecommission && s.chance(30)
	return req
}

// start begins a run, if the node takes it; nil: refused.
func (s *simulation) start(b *box, req turnover.Request) *begun {
	r, err := s.begin(fmt.Sprintf("r-%d", len(s.runs)+1), b, req)
	if err != nil {
		if k := broker.AsError(err).Kind; k != broker.Invalid && k != broker.Refused {
			s.t.Error(err)
		}
	}
	return r
}

// begin is start with a given run id. A node held by another run is refused.
func (s *simulation) begin(id string, b *box, req turnover.Request) (*begun, error) {
	at := turnover.Place{Policy: s.site.PolicyOf(s.profile)}
	if b.systemID != "" {
		at.Site, at.Profile, at.SKU, at.Adopted = s.site, s.profile, s.sku, b.adopted
	}
	site := s.site.Name
	if b.systemID == "" {
		site = broker.NoSite
	}
	machine := s.book.Machine(b.id)
	r := &begun{id: id, box: b, req: req, owed: machine.TurnoverOwed}
	req.Ends = machine.Live()
	state, locks, err := turnover.New(machine.Node, at, req)
	if err == nil {
		_, err = s.engine.Start(ctx, chain.Start{ID: r.id, Kind: req.Mode.Kind(), Site: site, Subject: b.hostname, State: state, Locks: locks, RequestedBy: "ada"})
	}
	live := s.live(b.id)
	switch taken := (*chain.Locked)(nil); {
	case errors.As(err, &taken):
		return nil, nil
	case err != nil:
		return nil, err
	case live != nil:
		s.wrong("run %s has node %s, and run %s begins", live.id, b.id, r.id)
	}
	s.runs = append(s.runs, r)
	s.say("%s of %s begins (%s), %+v", req.Mode, b.id, r.id, req)
	return r, nil
}

// order is an action that may make no sense.
func (s *simulation) order(r *begun, a chain.Action, without string) {
	_, err := s.engine.Act(ctx, chain.Order{ID: r.id, Actor: ada, Action: a, Without: without, Reason: "because"})
	if no := (*chain.Refused)(nil); err != nil && !errors.As(err, &no) {
		s.t.Error(err)
	}
	s.say("%s %s without %q: %v", a, r.id, without, err)
	if err == nil && a != chain.Cancel && a != chain.MarkManual {
		r.passes++
	}
	if err == nil {
		r.frozen = a == chain.MarkManual
	}
	if err == nil && a == chain.Adopt {
		r.adopted = s.clock.Now()
	}
}

// letIn is a platform admin's override of an owed turnover: refused while a run has the node,
// even a stopped run.
func (s *simulation) letIn(b *box) {
	if s.live(b.id) != nil {
		return
	}
	s.book.Change(b.id, func(m *turnovertest.Machine) {
		if broker.Transition(m.Node, broker.Active, broker.OwnerOverride) != nil {
			return
		}
		m.Status, m.StatusReason, m.TurnoverOwed = broker.Active, "let in by ada", false
		s.byWord(b)
		s.say("ada lets %s in by override", b.id)
	})
}

// byWord notes that a person has put a node into service.
func (s *simulation) byWord(b *box) { b.was, b.passed, b.conflictAt = broker.Active, true, time.Time{} }

// takesBack is a person who has MAAS take a machine in use.
func (s *simulation) takesBack() {
	for _, b := range s.boxes {
		if slices.Contains(inService, s.book.Machine(b.id).Status) && s.live(b.id) == nil {
			s.byHand(b, pick(s, maassim.ReadyByHand, maassim.DeletedByHand, maassim.TakenByHand))
			return
		}
	}
}

// pause is an operator who takes a node out of use for a while, whoever is on it.
func (s *simulation) pause(b *box) {
	if s.live(b.id) != nil {
		return
	}
	s.book.Change(b.id, func(m *turnovertest.Machine) {
		if broker.Transition(m.Node, broker.Draining, broker.OwnerOperator) == nil {
			m.Status, m.StatusReason = broker.Retired, "paused by ada"
			s.say("ada pauses %s", b.id)
		}
	})
}

// goOn ends a pause.
func (s *simulation) goOn(b *box) {
	if s.live(b.id) != nil {
		return
	}
	s.book.Change(b.id, func(m *turnovertest.Machine) {
		if m.Status == broker.Retired && broker.Transition(m.Node, broker.Active, broker.OwnerOperator) == nil {
			m.Status, m.StatusReason = broker.Active, "goes on"
			s.byWord(b)
			s.say("ada has %s go on", b.id)
		}
	})
}

// keepOut is an operator who quarantines a node, at any time.
func (s *simulation) keepOut(b *box) {
	s.book.Change(b.id, func(m *turnovertest.Machine) {
		if broker.Transition(m.Node, broker.Quarantined, broker.OwnerOperator) == nil {
			m.Status, m.StatusReason = broker.Quarantined, "kept out by ada"
			s.say("ada quarantines %s", b.id)
		}
	})
}

// hear moves a node in service between active and offline, by contact with its agent.
func (s *simulation) hear(b *box) {
	s.book.Change(b.id, func(m *turnovertest.Machine) {
		to := broker.Active
		if m.Silent || m.Denied() {
			to = broker.Offline
		}
		if (m.Status == broker.Active || m.Status == broker.Offline) && m.Status != to && broker.Transition(m.Node, to, broker.OwnerHeartbeat) == nil {
			m.Status, m.StatusReason = to, "heard or not"
			s.say("%s is %s", b.id, to)
		}
	})
}

// handled reports whether a person did something to a machine by hand.
func (s *simulation) handled(systemID string) bool {
	for _, c := range s.region.History(systemID) {
		if c.By == "somebody" {
			return true
		}
	}
	return false
}
