package chaintest

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/hostler/hostler/broker/chain"
)

// Memory is a chain.Store in memory. Runs are claimed by due time and then by id, so an engine's
// behaviour depends on nothing but the calls.
type Memory struct {
	// Apply applies an effect; an error refuses it. Nil: Effects gathers them.
	Apply func(effect any) error

	mu      sync.Mutex
	now     func() time.Time
	runs    map[string]*row
	locks   map[string]string // name → run
	batches map[string]*chain.Batch
	holds   []*hold
	written int64 // events so far
	outbox  []chain.Message
	effects []any
	audit   []Audited
	wakers  map[chan struct{}]struct{}
}

type row struct {
	chain.Record
	spread int
	events []chain.Event
}

type hold struct {
	chain.SiteHold
	probeAt time.Time
}

// Audited is an operator's action, or a hold, as the store recorded it.
type Audited struct {
	Actor           chain.Actor
	Action, Subject string
	Reason, Code    string // code of a refusal
}

var _ chain.Store = (*Memory)(nil)

// NewMemory makes an empty store with the given clock.
func NewMemory(now func() time.Time) *Memory {
	return &Memory{
		now: now, runs: map[string]*row{}, locks: map[string]string{}, batches: map[string]*chain.Batch{},
		wakers: map[chan struct{}]struct{}{},
	}
}

// Now is the clock.
func (s *Memory) Now() time.Time { return s.now() }

// Outbox lists the messages, oldest first.
func (s *Memory) Outbox() []chain.Message {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.outbox)
}

// Effects lists the applied effects where Apply is nil.
func (s *Memory) Effects() []any {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.effects)
}

// Audit lists the audit entries, oldest first.
func (s *Memory) Audit() []Audited {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.audit)
}

// Insert implements chain.Store.
func (s *Memory) Insert(_ context.Context, runs []chain.NewRun, batch *chain.Batch) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if batch != nil && s.batches[batch.ID] != nil {
		return chain.Exists("batch", batch.ID)
	}
	var taken []chain.Taken
	mine := map[string]string{}
	for _, r := range runs {
		if s.runs[r.ID] != nil {
			return chain.Exists("run", r.ID)
		}
		for _, name := range r.Locks {
			switch by := cmp.Or(s.locks[name], mine[name]); by {
			case "":
				mine[name] = r.ID
			case r.ID:
			default:
				taken = append(taken, chain.Taken{Lock: name, Run: by})
			}
		}
	}
	if taken != nil {
		return &chain.Locked{Taken: taken}
	}
	for _, r := range runs {
		for _, e := range r.Effects {
			if err := s.apply(e); err != nil {
				return &chain.EffectRefused{Err: err}
			}
		}
	}
	maps.Copy(s.locks, mine)
	now := s.now()
	if batch != nil {
		batch.RequestedAt = now
		b := *batch
		s.batches[b.ID] = &b
	}
	for i, r := range runs {
		r.Record = r.Stamped(now)
		r.RequestedAt = now
		runs[i] = r
		s.runs[r.ID] = &row{Record: clone(r.Record), spread: r.Spread}
		s.audit = append(s.audit, Audited{
			Actor: chain.Actor{Name: r.RequestedBy, Role: r.Role}, Action: "run.start",
			Subject: "run/" + r.ID, Reason: r.Reason,
		})
	}
	s.wake()
	return nil
}

// Claim implements chain.Store.
func (s *Memory) Claim(_ context.Context, c chain.Claim) (*chain.Record, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	for _, r := range s.due(now, c) {
		probe, held := s.heldAt(r.Site, now)
		if held || !s.place(r) || probe != nil && !r.Held && s.heldRun(r.Site) {
			continue
		}
		if probe != nil {
			probe.probeAt = now.Add(chain.ProbeEvery)
		}
		s.write(r, r.Begin(c.Owner, c.Lease, now), now)
		out := clone(r.Record)
		out.Probe = probe != nil
		return &out, nil
	}
	return nil, nil
}

// meant reports whether a claim includes a run, by its list.
func meant(c chain.Claim, r chain.Record, now time.Time) bool {
	if c.Lists == nil || r.List == "" || slices.Contains(c.Lists, r.List) {
		return true
	}
	before := now.Add(-chain.Strange)
	return r.Status != chain.Pending && !r.DueAt.After(before) && !r.UpdatedAt.After(before)
}

// due lists the runs that may be claimed by the content of their rows.
func (s *Memory) due(now time.Time, c chain.Claim) []*row {
	var due []*row
	for _, r := range s.runs {
		if r.Status.Moving() && !r.DueAt.After(now) && !r.InFlight(now) && slices.Contains(c.Kinds, r.Kind) && meant(c, r.Record, now) {
			due = append(due, r)
		}
	}
	last := func(r *row) int {
		if r.Status == chain.Pending && r.Batch != "" {
			return 1
		}
		return 0
	}
	slices.SortFunc(due, func(a, b *row) int { return cmp.Or(last(a)-last(b), a.DueAt.Compare(b.DueAt), cmp.Compare(a.ID, b.ID)) })
	return due
}

// heldAt says whether no stage may begin at a site, or only a probe.
func (s *Memory) heldAt(site string, now time.Time) (probe *hold, held bool) {
	for _, h := range s.holds {
		if !h.Until.IsZero() || h.Site != "" && h.Site != site {
			continue
		}
		if h.Kind == chain.Freeze || h.probeAt.After(now) {
			return nil, true
		}
		probe = h
	}
	return probe, false
}

// heldRun reports whether a run of the site could not reach the site itself: such runs probe
// first.
func (s *Memory) heldRun(site string) bool {
	for _, r := range s.runs {
		if r.Site == site && r.Held && r.Status.Moving() {
			return true
		}
	}
	return false
}

// place reports whether a batch lets the run begin: the limit counts the whole site.
func (s *Memory) place(r *row) bool {
	b := s.batches[r.Batch]
	if b == nil || r.Status != chain.Pending {
		return true
	}
	moving := 0
	for _, other := range s.runs {
		if other.Batch != "" && other.Site == r.Site && (other.Status == chain.Running || other.Status == chain.Compensating) {
			moving++
		}
	}
	return moving < b.Parallel && (b.StoppedAt.IsZero() || !r.StartedAt.IsZero())
}

// Renew implements chain.Store.
func (s *Memory) Renew(_ context.Context, claimed *chain.Record, lease time.Duration) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.runs[claimed.ID]
	if now := s.now(); r != nil && r.Version == claimed.Version && r.Owner == claimed.Owner && r.InFlight(now) {
		r.LeaseTill = now.Add(lease)
		return nil
	}
	return chain.ErrLost
}

// Save implements chain.Store.
func (s *Memory) Save(_ context.Context, c chain.Change) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	r := s.runs[c.Record.ID]
	if r == nil || r.Version != c.Record.Version || r.Owner != c.Record.Owner {
		return chain.ErrLost
	}
	for _, name := range c.Locks {
		if by := s.locks[name]; by != "" && by != r.ID {
			return &chain.Locked{Taken: []chain.Taken{{Lock: name, Run: by}}}
		}
	}
	for _, e := range c.Effects {
		if err := s.apply(e); err != nil {
			return &chain.EffectRefused{Err: err}
		}
	}
	asked, by, cause := r.Asked, r.AskedBy, r.AskedCause
	if asked == c.Honoured {
		asked = chain.AskNothing
	}
	c.Record.Asked, c.Record.AskedBy, c.Record.AskedCause = asked, by, cause
	c.Record.Version++
	c.Record.Owner, c.Record.LeaseTill = "", time.Time{}
	switch {
	case asked == chain.AskNothing:
	case c.Record.Status.Ended():
		c.Record.Asked = chain.AskNothing
		if e, late := c.Record.TooLate(asked, by); late {
			c.Events = append(slices.Clip(c.Events), e)
		}
	default:
		c.Record = c.Record.Urged(now)
	}
	s.write(r, c, now)
	if c.Unreachable != "" {
		s.placeHold(chain.Actor{Name: "system"}, chain.SiteHold{Site: r.Site, Kind: chain.Unreachable, Reason: c.Unreachable}, now)
	}
	if c.Reached {
		s.liftHold(chain.Actor{Name: "system"}, r.Site, chain.Unreachable, "a stage got through", now)
	}
	if b := s.batches[r.Batch]; b != nil && c.Result != nil {
		after, stopped := b.After(*c.Result, now)
		*b = after
		if stopped {
			s.outbox = append(s.outbox, b.Stopped())
		}
	}
	return nil
}

func (s *Memory) apply(effect any) error {
	if s.Apply != nil {
		return s.Apply(effect)
	}
	s.effects = append(s.effects, effect)
	return nil
}

// write puts a change into the tables.
func (s *Memory) write(r *row, c chain.Change, now time.Time) {
	r.Record = clone(c.Record.Stamped(now))
	for _, e := range c.Events {
		s.written++
		e.ID, e.RunID, e.At = s.written, r.ID, now
		for _, had := range r.events {
			if had.Stage == e.Stage && had.Direction == e.Direction && had.Attempt == e.Attempt &&
				(had.Status == chain.Started) == (e.Status == chain.Started) {
				panic("an attempt has its event twice: " + e.Stage) // SQL's unique keys refuse the same
			}
		}
		r.events = append(r.events, e)
	}
	s.outbox = append(s.outbox, c.Messages...)
	for _, name := range c.Locks {
		s.locks[name] = r.ID
	}
	if r.Status.Ended() {
		maps.DeleteFunc(s.locks, func(_, by string) bool { return by == r.ID })
	}
	s.wake()
}

func clone(r chain.Record) chain.Record {
	r.State, r.Progress.Tries = slices.Clone(r.State), maps.Clone(r.Progress.Tries)
	if r.Failure != nil {
		f := chain.Failure{
			Class: r.Failure.Class, Code: r.Failure.Code, Message: r.Failure.Message,
			Details: slices.Clone(r.Failure.Details),
		}
		r.Failure = &f
	}
	r.Probe = false
	return r
}
