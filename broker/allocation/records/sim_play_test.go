//go:build !race

package records

import (
	"errors"
	"slices"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/chain"
	"github.com/hostler/hostler/broker/store"
	"github.com/hostler/hostler/broker/turnover"
)

var moving = []chain.Status{chain.Pending, chain.Running, chain.Compensating}

// play runs until nothing happens any more, ends all troubles, has everything released, and checks that
// every allocation has ended and that every node can be handed out.
func (s *simulation) play() {
	s.settle()
	s.calm()
	for round := 0; round < 6 && !s.t.Failed(); round++ {
		s.settle()
		if s.repairs(round) {
			break
		}
	}
	s.settle()
	s.ended()
}

// repairs is what people do once all troubles are over. True: there is nothing left to do.
func (s *simulation) repairs(round int) (nothing bool) {
	nothing = true
	for _, id := range s.ids {
		if c := s.known[id]; c.status == broker.AllocationActive || c.status == broker.AllocationReleaseFailed && !s.lost(c) {
			s.release(c, broker.AllocationAdmin, round > 0) // what the SKU names for the end may be past its time
			nothing = false
		}
	}
	all, err := s.db.Runs(ctx, chain.Filter{Statuses: []chain.Status{chain.FailedManual, chain.FailedRetryable}})
	s.must(err)
	for _, r := range all {
		s.order(r, s.repair(r, round))
		nothing = nothing && s.ofLost(r)
	}
	for _, m := range s.machines {
		if n, err := s.db.Node(ctx, m.id); err == nil && !m.gone && n.Status != broker.Active {
			if round%2 == 0 && !n.TurnoverOwed && n.Status == broker.Quarantined {
				s.byOperator(m, broker.Active)
			} else {
				s.turnOver(m, true)
			}
			nothing = false
		} else if err == nil && !m.gone {
			nothing = !s.letsIn(m, n) && nothing
		}
	}
	s.check()
	return nothing
}

// letsIn is an operator who activates a node that could not be provisioned again and again.
func (s *simulation) letsIn(m *machine, n broker.Node) bool {
	h, err := s.db.Handout(ctx, n)
	s.must(err)
	if h.Provisions.HeldAt.IsZero() {
		return false
	}
	s.counts["nodes let in again"]++
	return s.byOperator(m, broker.Active)
}

// repair draws what an operator does with a stopped run. In the last rounds every turnover is begun
// anew.
func (s *simulation) repair(r chain.Record, round int) chain.Action {
	switch {
	case round >= 3 && broker.RunKindOf(r.Kind).TurnsOver:
		return chain.Cancel
	case round >= 3 && r.Direction == chain.Undo: // only a retry goes on with it
		return chain.RetryStage
	case round >= 3:
		return chain.Resume
	}
	return pick(s, chain.Resume, chain.RetryStage, chain.Rerun, chain.RestartClean, chain.Cancel)
}

// lost reports whether a machine of an allocation never comes back.
func (s *simulation) lost(c *claim) bool {
	return slices.ContainsFunc(c.nodes, func(id string) bool { return s.machine(id).gone })
}

// ofLost reports whether a run is about a machine that never comes back.
func (s *simulation) ofLost(r chain.Record) bool {
	if c := s.known[r.CorrelationID]; c != nil {
		return s.lost(c)
	}
	return slices.ContainsFunc(s.machines, func(m *machine) bool { return m.gone && r.Subject == "gpu-"+m.id })
}

// ended checks what must be true when nothing is left to do.
func (s *simulation) ended() {
	if s.t.Failed() {
		return
	}
	for _, id := range s.ids {
		switch c := s.known[id]; {
		case c.status.Ended():
		case !s.lost(c):
			s.wrong("allocation %s is %s when all troubles are over", id, c.status)
		case c.status != broker.AllocationReleaseFailed:
			s.wrong("allocation %s is %s, and its machine never comes back", id, c.status)
		default:
			s.counts["allocations of lost machines"]++
		}
	}
	s.heard = time.Time{}
	s.hear()
	for _, m := range s.machines {
		n, err := s.db.Node(ctx, m.id)
		s.must(err)
		h, err := s.db.Handout(ctx, n)
		s.must(err)
		if all := h.Reasons("", ""); len(all) > 0 && !m.gone && !(len(all) == 1 && all[0].Code == "certificate_expired") && !s.beside(h) {
			s.wrong("node %s cannot be handed out when all troubles are over: %+v", m.id, all)
		}
	}
	s.announced()
	s.summed()
}

// beside reports whether a node is held by an allocation with another node that never comes back.
func (s *simulation) beside(h broker.Handout) bool {
	c := s.known[h.ClaimedBy]
	return c != nil && s.lost(c)
}

// settle plays until nothing is due any more.
func (s *simulation) settle() {
	s.t.Helper()
	s.later(4*time.Hour, s.caretaker) // everything that is planned comes within three hours
	for range 20000 {
		if s.t.Failed() {
			return
		}
		s.hear()
		s.due()
		b := s.alive()
		s.look(b)
		if s.step(b) {
			continue
		}
		if s.polls() {
			s.clock.Advance(time.Duration(s.by.IntN(3)) * time.Second)
			continue
		}
		if !s.advance() {
			return
		}
	}
	all, _ := s.db.Runs(ctx, chain.Filter{Statuses: moving})
	for _, r := range all {
		s.t.Logf("%s %s at %s is %s, due %v, attempt %d: %s", r.ID, r.Kind, r.Stage, r.Status, r.DueAt.Sub(s.clock.Now()), r.Attempt, r.Waiting)
	}
	s.wrong("it does not come to an end")
}

// advance moves the clock to what comes next. False: nothing comes.
func (s *simulation) advance() bool {
	now := s.clock.Now()
	if s.moves() {
		step := pick(s, 5, 10, 30, 60, 90)
		s.clock.Advance(time.Duration(step) * time.Second)
		return true
	}
	if len(s.plan) == 0 || s.calmed {
		s.plan = nil
		return false
	}
	s.clock.Advance(max(s.plan[0].at.Sub(now), time.Second))
	return true
}

// moves reports whether something is under way: a run, an allocation that a run is due for, an end that
// will come, or a node that waits for a turnover.
func (s *simulation) moves() bool {
	all, err := s.db.Runs(ctx, chain.Filter{Statuses: moving, Limit: 1})
	s.must(err)
	if len(all) > 0 {
		return true
	}
	due, err := s.db.AllocationsWithoutRun(ctx, 1)
	s.must(err)
	if len(due) > 0 {
		return true
	}
	left, err := s.db.LeftNodes(ctx)
	s.must(err)
	return len(left) > 0 && s.willFollow(left)
}

// willFollow reports whether an automatic turnover begins by itself.
func (s *simulation) willFollow(left []store.IdleNode) bool {
	p, err := s.db.Profile(ctx, s.site.ID, "")
	s.must(err)
	open, err := s.db.OpenRuns(ctx, s.site.Name, turnover.AutomaticPrefix)
	s.must(err)
	holds, err := s.db.StandingHolds(ctx, []string{s.site.Name})
	s.must(err)
	if !p.Policy.TurnoverAutomatic || open >= p.Policy.AutomaticTurnoversAtOnce || len(holds) > 0 || s.strict {
		return false
	}
	return slices.ContainsFunc(left, func(n store.IdleNode) bool {
		m := s.machine(n.NodeID)
		_, err := s.db.Run(ctx, turnover.AutomaticOf(n.NodeID, n.Since))
		return !m.silent && !m.gone && err != nil
	})
}

// alive is a broker, a new one in place of one that has died.
func (s *simulation) alive() *replica {
	at := s.by.IntN(len(s.brokers))
	if s.brokers[at].dead {
		s.brokers[at] = s.replica()
	}
	return s.brokers[at]
}

// step has a broker make a step.
func (s *simulation) step(b *replica) (worked bool) {
	worked, err := b.engine.Step(ctx)
	if err != nil && !errors.Is(err, errDead) && !errors.Is(err, chain.ErrLost) && !b.dead {
		s.must(err)
	}
	if worked || err != nil {
		s.check()
	}
	return worked || err != nil
}

// polls has the nodes with tasks fetch them.
func (s *simulation) polls() (worked bool) {
	told, err := s.db.NodesToTell(ctx)
	s.must(err)
	for _, m := range s.machines {
		if slices.Contains(told, m.id) || len(m.unsent) > 0 {
			worked = m.poll(s.alive().queue) || worked
		}
	}
	if worked {
		s.check()
	}
	return worked
}

// hear notes which nodes are heard.
func (s *simulation) hear() {
	now := s.clock.Now()
	if now.Sub(s.heard) < time.Minute {
		return
	}
	s.heard = now
	heard := map[string]time.Time{}
	for _, m := range s.machines {
		if !m.silent && !m.gone {
			heard[m.id] = now
		}
	}
	s.must(s.db.TouchNodes(ctx, heard))
	s.must(s.presence.Look(ctx))
}

// look is what a leading broker does from time to time.
func (s *simulation) look(b *replica) {
	now := s.clock.Now()
	looks := func(err error) {
		if err != nil && !b.dead {
			s.must(err)
		}
	}
	if now.Sub(s.swept) >= 5*time.Minute {
		s.swept = now
		_, err := b.queue.Sweep(ctx)
		looks(err)
		_, err = s.db.SweepAvailability(ctx)
		looks(err)
	}
	if now.Sub(s.looked) >= watchEvery {
		s.looked = now
		err := b.watch.look(ctx)
		looks(err)
		if s.check(); err == nil && !b.dead {
			s.kept()
		}
	}
	if now.Sub(s.followed) >= 30*time.Second {
		s.followed = now
		looks(b.automatic.Look(ctx))
	}
	if s.looked.Equal(now) || s.followed.Equal(now) {
		s.check()
	}
}

// due executes the plan up to now.
func (s *simulation) due() {
	for len(s.plan) > 0 && !s.plan[0].at.After(s.clock.Now()) && !s.t.Failed() {
		do := s.plan[0].do
		s.plan = s.plan[1:]
		do()
		s.check()
	}
}

// meanwhile lets another broker make a step, a look or nothing, and nodes answer, during a call of a
// broker.
func (s *simulation) meanwhile(of *replica) {
	if s.within || len(s.brokers) < 2 || !s.chance(4) {
		return
	}
	for _, b := range s.brokers {
		if b == of || b.dead {
			continue
		}
		s.within = true
		s.check()
		s.clock.Advance(time.Duration(s.by.IntN(10)) * time.Second)
		if s.chance(30) {
			s.look(b)
		}
		if s.step(b) {
			s.counts["steps of one broker within another's"]++
		}
		if s.chance(30) {
			pick(s, s.machines...).poll(b.queue)
			s.check()
		}
		s.due()
		s.within = false
		return
	}
}
