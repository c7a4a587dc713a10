//go:build !race

package records

import (
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/store"
	"github.com/hostler/hostler/taskcatalog"
)

// troubles are what goes wrong with the nodes.
func (s *simulation) troubles() {
	for range s.by.IntN(5) {
		m, from, lasts := pick(s, s.machines...), s.until(2*time.Hour), time.Minute+s.until(time.Hour)
		begin, end := s.trouble(m)
		s.later(from, begin)
		if s.chance(70) {
			s.later(from+lasts, end)
		}
	}
	if s.chance(10) {
		s.unusable()
	}
	if s.chance(25) {
		m := pick(s, s.machines...)
		s.later(s.until(2*time.Hour), func() { s.vanishes(m) })
	}
}

// unusable makes a node that takes no account until all troubles pass, and projects that ask.
func (s *simulation) unusable() {
	m := pick(s, s.machines...)
	s.later(0, func() { s.say("node %s takes no account any more", m.id); m.refuses = true })
	for range 4 {
		s.later(s.until(2*time.Hour), s.asks)
	}
}

// trouble draws a fault of a machine that somebody repairs later.
func (s *simulation) trouble(m *machine) (begin, end func()) {
	failing := pick(s, provisionUser, "allocation.check_login", "allocation.revoke_user", "node.drain", "node.rotate_identity", "node.storage_cleanup", "node.validate_clean")
	switch s.by.IntN(10) {
	case 0:
		return func() { s.say("node %s falls silent", m.id); m.silent = true; s.counts["silences"]++ }, func() { m.silent = false }
	case 1, 2:
		return func() { s.say("node %s refuses accounts", m.id); m.refuses = true }, func() { m.refuses = false }
	case 3, 4:
		return func() { s.say("the inspections of node %s find something", m.id); m.residue = true }, func() { m.residue = false }
	case 5, 6:
		return func() { s.say("node %s loses results", m.id); m.loses = true }, func() { m.loses = false }
	case 7:
		return func() { s.byOperator(m, broker.Quarantined) }, func() { s.byOperator(m, broker.Active) }
	}
	return func() { s.say("node %s fails each %s", m.id, failing); m.fails[failing] = "handler_failed" }, func() { delete(m.fails, failing) }
}

// byOperator moves a node by hand.
func (s *simulation) byOperator(m *machine, to broker.NodeStatus) bool {
	_, err := s.db.Transition(ctx, ada, m.id, store.Change{To: to, By: broker.OwnerOperator, Reason: "by hand"})
	s.say("an operator makes node %s %s: %v", m.id, to, err)
	if err == nil && to == broker.Active {
		m.row = 0
	}
	return s.may(err)
}

// vanishes takes a machine away for ever: somebody releases it in MAAS, or removes the node by hand, or
// it burns.
func (s *simulation) vanishes(m *machine) {
	m.gone = true
	s.counts["machines gone"]++
	switch s.by.IntN(3) {
	case 0:
		s.say("machine %s burns", m.id)
	case 1:
		n, err := s.db.Node(ctx, m.id)
		s.must(err)
		recorded, err := s.db.RecordDrift(ctx, broker.System, store.Drift{
			Node: n, Seen: store.MAASState{NodeID: m.id, SiteID: s.site.ID, Status: "Ready"}, Rule: "machine_released", Severity: "critical", Level: "critical",
			Text: "MAAS has released the machine", Details: []byte("{}"), FirstSeen: s.clock.Now(), Quarantine: true,
		})
		s.say("somebody releases machine %s in MAAS: the node is quarantined %v, %v", m.id, recorded, err)
		s.may(err)
	case 2:
		s.say("somebody removes node %s by hand", m.id)
		s.byOperator(m, broker.Draining)
		for _, c := range []store.Change{
			{To: broker.Retired, By: broker.OwnerDrain}, {To: broker.Removing, By: broker.OwnerRemoval}, {To: broker.Deleted, By: broker.OwnerRemoval},
		} {
			if _, err := s.db.Transition(ctx, ada, m.id, c); !s.may(err) {
				s.say("it does not become %s: %v", c.To, err)
				return
			}
		}
		s.counts["nodes deleted by hand"]++
	}
}

// calm ends all troubles, and the policy is as it was.
func (s *simulation) calm() {
	s.say("all troubles pass")
	s.calmed, s.heard = true, time.Time{}
	for _, m := range s.machines {
		m.silent, m.residue, m.refuses, m.loses, m.fails = false, false, false, false, map[string]taskcatalog.Code{}
	}
	if s.strict {
		s.policy(false)
	}
}
