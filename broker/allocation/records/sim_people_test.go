//go:build !race

package records

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/chain"
	"github.com/hostler/hostler/broker/store"
	"github.com/hostler/hostler/broker/turnover"
	turnoverrecords "github.com/hostler/hostler/broker/turnover/records"
)

// people are the projects, who ask for nodes and release them, and the platform's operators.
func (s *simulation) people() {
	for range 2 + s.by.IntN(2) {
		s.later(s.until(90*time.Minute), s.asks)
	}
	for range 1 + s.by.IntN(3) {
		s.later(s.until(2*time.Hour), s.releases)
	}
	for range s.by.IntN(3) {
		s.later(s.until(2*time.Hour), s.operates)
	}
	if s.chance(30) {
		s.later(s.until(2*time.Hour), s.turnsOver)
	}
	if s.chance(35) {
		from := s.until(2 * time.Hour)
		s.later(from, func() { s.policy(true) })
		if s.chance(70) {
			s.later(from+s.until(time.Hour), func() { s.policy(false) })
		}
	}
	if by := rand.New(rand.NewPCG(s.seed, 13)); by.IntN(100) < 15 { // drawn apart: other seeds play as they did
		s.later(time.Duration(by.IntN(120))*time.Minute, s.shortens)
	}
	if s.chance(15) {
		from := s.until(2 * time.Hour)
		s.later(from, func() { s.freeze(true) })
		s.later(from+s.until(time.Hour), func() { s.freeze(false) })
	}
}

// asks is a project that asks for nodes, sometimes until a time, and sometimes with a key that is not
// its own.
func (s *simulation) asks() {
	p := pick(s, s.projects...)
	n := store.NewAllocation{
		ID: fmt.Sprintf("a-%02d", len(s.ids)+s.counts["requests refused"]), ProjectID: p.id,
		AllocationRequest: broker.AllocationRequest{SKU: "h100", Nodes: 1 + s.by.IntN(2)}, KeyIDs: []string{"k-" + p.id},
	}
	if s.chance(30) {
		n.EndsAt = s.clock.Now().Add(time.Minute + s.until(time.Hour))
	}
	if s.chance(5) {
		n.KeyIDs = []string{"k-" + pick(s, s.projects...).id}
	}
	if held := s.below(); held > 0 {
		s.counts["requests while the policy is stricter"]++
	}
	held, free := s.heldBy(p), s.freeNodes()
	own, others := s.lacks(p)
	n.Image = s.wantsImage()
	a, err := s.askWithImage(broker.Actor{Name: "eve-" + p.id}, n)
	if err == nil || broker.AsError(err).Code == "sku_unavailable" {
		s.keeps(p, n.Nodes, err == nil, free, own, others)
	}
	if !s.may(err) {
		s.counts["requests refused"]++
		s.say("project %s asks for %d nodes: %s", p.id, n.Nodes, broker.AsError(err).Code)
		return
	}
	s.say("project %s has %v, by %s", p.id, a.NodeIDs, a.ID)
	s.ids = append(s.ids, a.ID)
	s.known[a.ID] = &claim{id: a.ID, project: p, nodes: slices.Sorted(slices.Values(a.NodeIDs)), status: a.Status, image: a.Image}
	if len(a.NodeIDs) != n.Nodes || held+n.Nodes > p.quota {
		s.wrong("allocation %s has %v, of %d nodes asked for; the project had %d, and may have %d", a.ID, a.NodeIDs, n.Nodes, held, p.quota)
	}
	if s.mayHold(s.known[a.ID]); !a.EndsAt.IsZero() {
		s.later(a.EndsAt.Sub(s.clock.Now()), func() {})
	}
	s.counts["allocations"]++
}

// below is how many nodes nothing but the policy keeps from a tenant.
func (s *simulation) below() (nodes int) {
	for _, m := range s.machines {
		n, err := s.db.Node(ctx, m.id)
		s.must(err)
		h, err := s.db.Handout(ctx, n)
		s.must(err)
		if all := h.Reasons("", ""); len(all) == 1 && all[0].Code == "certificate_below_policy" {
			nodes++
		}
	}
	return nodes
}

// heldBy is how many nodes a project holds.
func (s *simulation) heldBy(p *project) (nodes int) {
	for _, c := range s.known {
		if c.project == p && !c.status.Ended() {
			nodes += len(c.nodes)
		}
	}
	return nodes
}

// releases is somebody who releases an allocation: a member, the end of a credit, or a platform admin,
// who may force it.
func (s *simulation) releases() {
	var may []*claim
	for _, id := range s.ids {
		if c := s.known[id]; c.status == broker.AllocationActive || c.status == broker.AllocationReleaseFailed {
			may = append(may, c)
		}
	}
	if len(may) > 0 {
		s.release(pick(s, may...), pick(s, broker.AllocationUser, broker.AllocationBilling, broker.AllocationAdmin), false)
	}
}

func (s *simulation) release(c *claim, by broker.AllocationOwner, force bool) {
	_, err := s.db.TransitionAllocation(ctx, ada, c.id, store.AllocationChange{To: broker.AllocationReleasing, By: by, Reason: "done", Force: force})
	s.say("%s releases %s, which is %s: %v", by, c.id, c.status, err)
	if s.may(err) && by == broker.AllocationAdmin {
		s.counts["forced releases"]++
	}
}

// operates is an operator who acts on a run, or on a task.
func (s *simulation) operates() {
	all, err := s.db.Runs(ctx, chain.Filter{Statuses: []chain.Status{chain.Pending, chain.Running, chain.Compensating, chain.FailedManual, chain.FailedRetryable}})
	s.must(err)
	if len(all) == 0 {
		return
	}
	r := pick(s, all...)
	if c := s.known[r.CorrelationID]; c != nil {
		c.meddled = true
	}
	if s.chance(25) {
		tasks, _, err := s.db.ListTasks(ctx, store.TaskFilter{CorrelationID: r.ID, Limit: 100})
		s.must(err)
		if at := slices.IndexFunc(tasks, func(k broker.Task) bool { return !k.Status.Ended() }); at >= 0 {
			_, err := s.db.CancelTask(ctx, ada, tasks[at].ID, "because")
			s.say("an operator cancels a %s of run %s", tasks[at].Type, r.ID)
			s.may(err)
			return
		}
	}
	s.order(r, pick(s, chain.Actions...))
}

// caretaker is an operator who looks once an hour for turnovers that have stopped: each takes a place that
// releases wait for.
func (s *simulation) caretaker() {
	all, err := s.db.Runs(ctx, chain.Filter{Kind: broker.TurnoverKinds, Statuses: []chain.Status{chain.FailedManual, chain.FailedRetryable}})
	s.must(err)
	for _, r := range all {
		s.order(r, pick(s, chain.Cancel, chain.Resume))
	}
	if s.moves() {
		s.later(time.Hour, s.caretaker)
	}
}

// order performs an action that may be refused.
func (s *simulation) order(r chain.Record, a chain.Action) {
	b := s.alive()
	_, err := b.engine.Act(ctx, chain.Order{ID: r.ID, Actor: chain.Actor{Name: ada.Name}, Action: a, Reason: "because"})
	_, refused := errors.AsType[*chain.Refused](err)
	s.say("an operator orders %s of run %s of %s, which is %s at %s: %v", a, r.ID, r.Subject, r.Status, r.Stage, err)
	if err != nil && !refused && !errors.Is(err, errDead) {
		s.must(err)
	}
}

// turnsOver is an operator who has a node turned over, by force or not.
func (s *simulation) turnsOver() { s.turnOver(pick(s, s.machines...), s.chance(50)) }

func (s *simulation) turnOver(m *machine, force bool) {
	b := s.alive()
	n, err := s.db.Node(ctx, m.id)
	s.must(err)
	at, err := b.records.Starts.Place(ctx, n, "")
	s.must(err)
	req := turnover.Request{Mode: turnover.SoftReset, Reason: "an operator wants it", RequestedBy: ada.Name, ForceRelease: force}
	live, err := s.db.Occupants(ctx, m.id)
	s.must(err)
	for _, o := range live {
		if o.Live() && force {
			req.Ends = append(req.Ends, o.ID)
		}
	}
	state, locks, err := turnover.New(n, at, req)
	if !s.may(err) {
		return
	}
	r, err := b.engine.Start(ctx, turnoverrecords.NewStart(n, state, locks, turnoverrecords.Requester{Name: ada.Name}))
	_, taken := errors.AsType[*chain.Locked](err)
	s.say("an operator turns over node %s, force %v: run %s, %v", m.id, force, r.ID, err)
	if err != nil && !taken && !errors.Is(err, errDead) {
		s.must(err)
	}
}

// policy makes the site's policy stricter, or as it was. No turnover of these nodes meets the strict
// policy: it gives no fresh system, and does not erase the disk that the system runs from.
func (s *simulation) policy(strict bool) {
	byDisk := s.chance(50)
	_, err := s.db.UpdateProfile(ctx, ada, s.site.ID, "", "because", func(p *broker.Profile) error {
		p.Policy.TurnoverEnvironment, p.Policy.AcceptSystemDisk = "tenant_os", !strict || !byDisk
		if strict && !byDisk {
			p.Policy.TurnoverEnvironment = "fresh_os"
		}
		return nil
	})
	s.must(err)
	s.strict = strict
	s.say("the policy is strict %v", strict)
	s.counts["policies changed"]++
	if s.chance(50) {
		s.asks() // before anybody has judged the certificates again
	}
}

// shortens lets the site's certificates count for less time, also those that there are.
func (s *simulation) shortens() {
	s.valid = min(s.valid, 30*time.Minute)
	_, err := s.db.UpdateProfile(ctx, ada, s.site.ID, "", "because", func(p *broker.Profile) error {
		p.Policy.CertificateValidSeconds = int(s.valid / time.Second)
		return nil
	})
	s.must(err)
	s.say("certificates are valid for %v", s.valid)
	s.counts["validities shortened"]++
}

func (s *simulation) freeze(on bool) {
	if on {
		_, _, _, err := s.db.Freeze(ctx, ada, s.site.Name, "storm")
		s.must(err)
	} else {
		_, _, err := s.db.Unfreeze(ctx, ada, s.site.Name, "over", false)
		s.must(err)
	}
	s.say("the site is frozen %v", on)
}
