package chaintest

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/hostler/hostler/broker/chain"
)

// Act implements chain.Store.
func (s *Memory) Act(_ context.Context, o chain.Order, decide func(time.Time, chain.Record) (chain.Change, error)) (chain.Record, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	entry := Audited{Actor: o.Actor, Action: "run." + string(o.Action), Subject: "run/" + o.ID, Reason: o.Reason}
	r := s.runs[o.ID]
	if r == nil {
		return chain.Record{}, chain.NotFound("run", o.ID)
	}
	c, err := decide(now, clone(r.Record))
	if no, ok := errors.AsType[*chain.Refused](err); ok {
		entry.Code = no.Code
	}
	s.audit = append(s.audit, entry)
	switch {
	case err != nil:
		return chain.Record{}, err
	case c.Nothing:
	case c.Beside:
		r.Asked, r.AskedBy, r.AskedCause = c.Record.Asked, c.Record.AskedBy, c.Record.AskedCause
	default:
		c.Record.Version++
		c.Record.Owner, c.Record.LeaseTill = "", time.Time{}
		s.write(r, c, now)
	}
	return clone(r.Record), nil
}

// ContinueBatch implements chain.Store.
func (s *Memory) ContinueBatch(_ context.Context, o chain.Order) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	b := s.batches[o.ID]
	if b == nil {
		return chain.NotFound("batch", o.ID)
	}
	*b = b.Continued()
	s.audit = append(s.audit, Audited{Actor: o.Actor, Action: "batch.continue", Subject: "batch/" + o.ID, Reason: o.Reason})
	s.wake()
	return nil
}

// PlaceHold implements chain.Store.
func (s *Memory) PlaceHold(_ context.Context, actor chain.Actor, h chain.SiteHold) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.placeHold(actor, h, s.now())
	return nil
}

func (s *Memory) standing(site string, kind chain.HoldKind) (all []*hold) {
	for _, h := range s.holds {
		if h.Site == site && h.Kind == kind && h.Until.IsZero() {
			all = append(all, h)
		}
	}
	return all
}

// placeHold stacks freezes of different operators, and freezes with different reasons.
func (s *Memory) placeHold(actor chain.Actor, h chain.SiteHold, now time.Time) {
	for _, before := range s.standing(h.Site, h.Kind) {
		if h.Kind != chain.Freeze || before.By == actor.Name && before.Reason == h.Reason {
			return
		}
	}
	h.By, h.Since, h.Until = actor.Name, now, time.Time{}
	s.holds = append(s.holds, &hold{h, now.Add(chain.ProbeEvery)})
	s.audit = append(s.audit, Audited{Actor: actor, Action: h.Kind.Action(), Subject: h.About(), Reason: h.Reason})
	s.outbox = append(s.outbox, h.Placed())
}

// LiftHold implements chain.Store.
func (s *Memory) LiftHold(_ context.Context, actor chain.Actor, site string, kind chain.HoldKind, reason string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.liftHold(actor, site, kind, reason, s.now())
	return nil
}

func (s *Memory) liftHold(actor chain.Actor, site string, kind chain.HoldKind, reason string, now time.Time) {
	lifted := s.standing(site, kind)
	if lifted == nil {
		return
	}
	for _, r := range s.runs {
		if !r.Status.Moving() || site != "" && r.Site != site {
			continue
		}
		if kind == chain.Unreachable {
			r.Held = false
		}
		if due := now.Add(chain.SpreadOver * time.Duration(r.spread) / 1000); r.DueAt.Before(due) && !r.InFlight(now) {
			r.DueAt = due
		}
	}
	for _, h := range lifted {
		h.Until = now
		s.audit = append(s.audit, Audited{Actor: actor, Action: h.Kind.Lifting(), Subject: h.About(), Reason: reason})
		s.outbox = append(s.outbox, h.Lifted(0))
	}
	s.wake()
}

// Holds implements chain.Store.
func (s *Memory) Holds(_ context.Context, site string, endedAfter time.Time) ([]chain.SiteHold, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []chain.SiteHold
	for _, h := range s.holds {
		if (site == "*" || h.Site == "" || h.Site == site) && (h.Until.IsZero() || h.Until.After(endedAfter)) {
			out = append(out, h.SiteHold)
		}
	}
	return out, nil
}

// Run implements chain.Store.
func (s *Memory) Run(_ context.Context, id string) (chain.Record, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.runs[id]
	if r == nil {
		return chain.Record{}, chain.NotFound("run", id)
	}
	return s.seen(r), nil
}

// seen is a run as it is read: a hold of its site is the reason for waiting.
func (s *Memory) seen(r *row) chain.Record {
	var standing []chain.SiteHold
	for _, h := range s.holds {
		standing = append(standing, h.SiteHold)
	}
	return clone(r.Record).HeldBy(standing)
}

// Batch implements chain.Store.
func (s *Memory) Batch(_ context.Context, id string) (chain.Batch, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	b := s.batches[id]
	if b == nil {
		return chain.Batch{}, chain.NotFound("batch", id)
	}
	return *b, nil
}

// Runs implements chain.Store.
func (s *Memory) Runs(_ context.Context, f chain.Filter) ([]chain.Record, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []chain.Record
	for _, r := range s.runs {
		class := chain.Class("")
		if r.Failure != nil {
			class = r.Failure.Class
		}
		if (is(f.Kind, r.Kind) || strings.HasPrefix(r.Kind, f.Kind+"/")) && is(f.Site, r.Site) && is(f.Batch, r.Batch) &&
			is(f.Stage, r.Stage) && is(f.Class, class) &&
			(len(f.Statuses) == 0 || slices.Contains(f.Statuses, r.Status)) && r.ID > f.After {
			out = append(out, s.seen(r))
		}
	}
	slices.SortFunc(out, func(a, b chain.Record) int { return cmp.Compare(a.ID, b.ID) })
	return out[:min(len(out), cmp.Or(f.Limit, 100))], nil
}

func is[T ~string](want, has T) bool { return want == "" || want == has }

// Events implements chain.Store.
func (s *Memory) Events(_ context.Context, run string) ([]chain.Event, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r := s.runs[run]; r != nil {
		return slices.Clone(r.events), nil
	}
	return nil, nil
}

// NextDue implements chain.Store.
func (s *Memory) NextDue(context.Context) (time.Time, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	var next time.Time
	consider := func(t time.Time) {
		if t.After(now) && (next.IsZero() || t.Before(next)) {
			next = t
		}
	}
	for _, r := range s.runs {
		if !r.Status.Moving() {
			continue
		}
		if r.LeaseTill.After(r.DueAt) {
			consider(r.LeaseTill)
		} else {
			consider(r.DueAt)
		}
	}
	for _, h := range s.holds {
		if h.Until.IsZero() && h.Kind == chain.Unreachable {
			consider(h.probeAt)
		}
	}
	return next, nil
}

// Wake implements chain.Store.
func (s *Memory) Wake(ctx context.Context) <-chan struct{} {
	c := make(chan struct{}, 1)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.wakers[c] = struct{}{}
	context.AfterFunc(ctx, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.wakers, c)
	})
	return c
}

func (s *Memory) wake() {
	for c := range s.wakers {
		select {
		case c <- struct{}{}:
		default:
		}
	}
}
