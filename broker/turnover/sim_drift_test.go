//go:build !race

package turnover_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/chain"
	"github.com/hostler/hostler/broker/reconcile"
	"github.com/hostler/hostler/broker/store"
	"github.com/hostler/hostler/broker/turnover"
	"github.com/hostler/hostler/broker/turnover/turnovertest"
	"github.com/hostler/hostler/taskcatalog"
)

// drifts are reconcile.Records over the book, as a store.DB keeps them.
type drifts struct {
	s      *simulation
	policy reconcile.Policy
	states map[string]store.MAASState
	look   store.ReconcileLook

	// Faults of a broken implementation.
	blind  bool                    // sees no run, no owed turnover and no tenant, and permits everything
	thawed bool                    // sees no freeze
	lies   func(*reconcile.Policy) // about the site's policy
	deaf   bool                    // a person's resolution is ignored
}

var errLost = errors.New("the connection to the database is lost")

// lossy makes a write fail, before or after its execution.
func (d *drifts) lossy(write func() error) error {
	fate := d.s.by.IntN(200)
	if fate == 0 {
		return errLost
	}
	err := write()
	if fate == 1 && err == nil {
		err = errLost
	}
	return err
}

func (d *drifts) Now() time.Time { return d.s.clock.Now() }

func (d *drifts) Sites(context.Context, []string) ([]broker.Site, error) {
	return []broker.Site{d.s.site}, nil
}

func (d *drifts) ReconcilePolicy(context.Context, string) (json.RawMessage, error) {
	p := d.policy
	if d.lies != nil {
		d.lies(&p)
	}
	return taskcatalog.Encode(p)
}

func (d *drifts) ReconcileView(context.Context, string) (store.ReconcileView, error) {
	v := store.ReconcileView{States: map[string]store.MAASState{}, InRun: map[string]string{}, Live: map[string]bool{}, Frozen: !d.thawed && d.frozen()}
	for _, b := range d.s.boxes {
		m, state := d.s.book.Machine(b.id), d.states[b.id]
		if m.Status == broker.Deleted || m.MAASSystemID == "" {
			if state.Drift {
				v.Gone = append(v.Gone, state)
			}
			continue
		}
		if !m.Silent && !m.Denied() {
			m.LastAgentContactAt = d.Now()
		}
		if run := d.s.live(b.id); run != nil {
			v.InRun[b.id] = run.id
		}
		if d.blind {
			m.TurnoverOwed = false
			clear(v.InRun)
		}
		v.Live[b.id] = !d.blind && slices.ContainsFunc(m.Users, broker.Occupant.Live)
		v.Nodes = append(v.Nodes, m.Node)
		if state.NodeID != "" {
			v.States[b.id] = state
		}
	}
	return v, nil
}

func (d *drifts) frozen() bool {
	holds, err := d.s.store.Holds(ctx, d.s.site.Name, d.Now())
	d.s.must(err)
	return slices.ContainsFunc(holds, func(h chain.SiteHold) bool { return h.Kind == chain.Freeze && h.Until.IsZero() })
}

func (d *drifts) ReconcileLooks(context.Context, []string) ([]store.ReconcileLook, error) {
	return []store.ReconcileLook{d.look}, nil
}

func (d *drifts) SaveLook(_ context.Context, _ broker.Actor, l store.ReconcileLook) error {
	return d.lossy(func() error {
		for _, stop := range l.Stops {
			d.s.counts["looks stopped"]++
			d.s.say("the reconciler stops: %s", stop.Text)
		}
		d.look = l
		return nil
	})
}

func (d *drifts) SaveSeen(_ context.Context, seen []store.MAASState) error {
	return d.lossy(func() error {
		for _, s := range seen {
			if had, known := d.states[s.NodeID]; known {
				had.SiteID, had.SystemID, had.Status, had.Power, had.IPs, had.Host, had.Marked = s.SiteID, s.SystemID, s.Status, s.Power, s.IPs, s.Host, s.Marked
				s = had
			}
			d.states[s.NodeID] = s
		}
		return nil
	})
}

// moved reports whether a node must not be touched at present.
func (d *drifts) moved(judged broker.Node, acts bool) bool {
	m := d.s.book.Machine(judged.ID)
	switch {
	case d.blind:
		return false
	case m.Status != judged.Status || m.Epoch != judged.Epoch || m.MAASSystemID != judged.MAASSystemID || m.TurnoverOwed || d.s.live(judged.ID) != nil:
		return true
	}
	return acts && !d.thawed && d.frozen()
}

func (d *drifts) RecordDrift(_ context.Context, _ broker.Actor, x store.Drift) (recorded bool, err error) {
	err = d.lossy(func() error {
		if d.moved(x.Node, x.Quarantine || x.Address != "") {
			return nil
		}
		b := d.s.box(x.Node.ID)
		s := d.states[b.id]
		fresh := !s.Drift || s.Rule != x.Rule
		s.NodeID, s.SiteID, s.SystemID, s.Status, s.Power, s.IPs, s.Marked = b.id, x.Seen.SiteID, x.Seen.SystemID, x.Seen.Status, x.Seen.Power, x.Seen.IPs, x.Seen.Marked
		s.Rule, s.Severity, s.Details = x.Rule, x.Severity, x.Details
		if fresh {
			s.Drift, s.FirstSeen = true, x.FirstSeen
			if !x.Again {
				s.ActedAt, s.Acts, s.Work = time.Time{}, 0, ""
			}
			s.ResolvedAt, s.ResolvedBy, s.Resolution = time.Time{}, "", ""
			d.s.counts["drifts"]++
			d.s.say("drift of %s: %s", b.id, x.Rule)
		}
		if x.Quarantine {
			if err := d.s.quarantine(b, x); err != nil {
				return err
			}
			s.QuarantinedAt = d.Now()
		}
		if x.Quarantine || x.Address != "" {
			s.ActedAt, s.Acts = d.Now(), s.Acts+1
		}
		if x.Address != "" {
			d.s.mayAct(b, x.Rule)
			s.Host, s.Drift, s.ResolvedAt, s.ResolvedBy = x.Address, false, d.Now(), "system"
		}
		d.states[b.id], recorded = s, true
		return nil
	})
	return recorded, err
}

func (d *drifts) NoteDriftWork(_ context.Context, id, rule, work string) error {
	return d.lossy(func() error {
		if s := d.states[id]; s.Drift && s.Rule == rule {
			s.ActedAt, s.Acts, s.Work = d.Now(), s.Acts+1, work
			d.states[id] = s
		}
		return nil
	})
}

func (d *drifts) HealDrift(_ context.Context, _ broker.Actor, id, rule, _ string) error {
	return d.lossy(func() error {
		if s := d.states[id]; s.Drift && s.Rule == rule {
			d.end(id, "system")
			d.s.counts["drifts ended"]++
		}
		return nil
	})
}

func (d *drifts) end(id, by string) {
	s := d.states[id]
	s.Drift, s.ResolvedAt, s.ResolvedBy = false, d.Now(), by
	d.states[id] = s
}

func (d *drifts) ForgetResolution(_ context.Context, id string) error {
	return d.lossy(func() error {
		if s := d.states[id]; !s.Drift {
			s.Rule = ""
			d.states[id] = s
			d.s.box(id).stays = false
		}
		return nil
	})
}

// resolve is an operator's resolution of a drift.
func (s *simulation) resolve(b *box) {
	if d := s.drifts.states[b.id]; d.Drift {
		by := "ada"
		if s.drifts.deaf {
			by = "system"
		}
		s.drifts.end(b.id, by)
		b.stays = d.Rule == "retired_deployed"
		s.say("ada resolves the drift of %s: %s", b.id, d.Rule)
	}
}

// agentsOf makes agents renew their hardware sync.
type agentsOf struct{ s *simulation }

func (a agentsOf) Reseed(_ context.Context, id, key string, _ time.Duration) (string, error) {
	b := a.s.box(id)
	a.s.say("%s is reseeded (%s)", id, key)
	a.s.counts["reseeds"]++
	a.s.mayAct(b, "hw_sync_stale")
	return "t-reseed", nil
}

// leavingRuns begins the runs that follow from drift, as turnover/records.Starts does.
type leavingRuns struct{ s *simulation }

func (l leavingRuns) Start(_ context.Context, judged broker.Node, id, reason string) (string, error) {
	s := l.s
	b, m := s.box(judged.ID), s.book.Machine(judged.ID)
	if !s.drifts.blind {
		if m.Status != judged.Status || m.Epoch != judged.Epoch || m.MAASSystemID != judged.MAASSystemID || m.TurnoverOwed {
			return "", broker.Errorf(broker.Refused, "node_moved", "node %s has moved", b.id)
		}
		if err := broker.OccupantsLive(m.Node, slices.DeleteFunc(slices.Clone(m.Users), func(a broker.Occupant) bool { return !a.Live() })); err != nil {
			return "", err
		}
	}
	r, err := s.begin(id, b, turnover.Request{Mode: turnover.FullDecommission, Reason: reason, RequestedBy: "system", From: judged.Status})
	if no := (*chain.Refused)(nil); errors.As(err, &no) && no.Code == "run_exists" {
		return id, nil
	}
	if r == nil {
		return "", errors.Join(err, broker.Errorf(broker.Refused, "node_in_run", "node %s takes no run", b.id))
	}
	r.drift = true
	s.counts["decommissions for drift"]++
	s.mayDecommission(b, m)
	if s.chance(20) {
		return "", errLost
	}
	return id, nil
}

// quarantine is the reconciler's action on a node in use.
func (s *simulation) quarantine(b *box, x store.Drift) (err error) {
	s.mayAct(b, x.Rule)
	s.changes(b, reconcile.Quarantine)
	s.book.Change(b.id, func(m *turnovertest.Machine) {
		if err = broker.Transition(m.Node, broker.Quarantined, broker.OwnerReconciler); err == nil {
			m.Status, m.StatusReason = broker.Quarantined, x.Rule
		}
	})
	s.counts["quarantined for drift"]++
	s.say("the reconciler quarantines %s: %s", b.id, x.Text)
	return err
}
