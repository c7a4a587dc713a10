package chain

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
)

// Kind is a Chain of any state type, ready to run. Only Chain implements Kind.
type Kind interface {
	compile() (*line, error)
	former() ([]*line, error)
}

// line is a chain without its type parameter.
type line struct {
	kind  string
	list  string   // name of the list with the newest form of the state, stored in its runs
	lists []string // the name for each form; the last is list
	main  []*stage
	named map[string]*stage
	// open decodes the state into a Run, the argument of the stages' functions.
	open func(r *Record, out *output) (*call, error)
	// encode checks that an initial state is of the chain's type.
	encode func(state any) (json.RawMessage, error)
	probe  func(context.Context, *call) error // nil: none
	// failing is nil for a chain without Failing.
	failing func(context.Context, *call, Failure) map[string]any
	// marking is nil where a mark stops a run at once.
	marking func(state json.RawMessage, why string) (json.RawMessage, error)
}

// call is a Run[S], with access that needs no knowledge of S.
type call struct {
	run   any
	state func() (json.RawMessage, error)
}

// stage is a Stage without its type parameter, with its place.
type stage struct {
	name           string
	at             int      // place in the main line; of a rescue stage, the place of the rescued stage
	rescues        *stage   // nil: a stage of the main line
	nth            int      // in the rescue
	rescue         []*stage // of a stage of the main line
	then           string
	pivot, opt     bool
	waivable       bool
	look           func(context.Context, *call) (bool, error)
	work, takeBack func(context.Context, *call) error // nil: none
	retry          func(*call) Retry
	limit          func(*call) Limit
	about          func(*call) About
}

func (c Chain[S]) compile() (*line, error) {
	l := &line{kind: c.Kind, named: map[string]*stage{}}
	l.open = func(r *Record, out *output) (*call, error) {
		run := &Run[S]{
			ID: r.ID, Site: r.Site, Batch: r.Batch, Subject: r.Subject, CorrelationID: r.CorrelationID, Stage: r.Stage, Attempt: r.Attempt,
			Spent:   r.Progress.Spent,
			Undoing: r.Direction == Undo, Restarting: r.Progress.Restart, Adopted: r.Progress.Adopted, accepts: r.Progress.Accepts,
			RequestedBy: r.RequestedBy, RequestedAt: r.RequestedAt, EnteredAt: r.EnteredAt,
			Now: r.UpdatedAt, LostAt: r.Progress.LostAt, Waived: r.Progress.Waived, Failure: r.Failure, out: out, since: out.since,
			clock: out.clock,
		}
		err := decodeState(r.State, &run.State)
		return &call{run: run, state: func() (json.RawMessage, error) { return json.Marshal(run.State) }}, err
	}
	l.encode = func(state any) (json.RawMessage, error) {
		s, ok := state.(S)
		if !ok {
			return nil, fmt.Errorf("the state of a run of %s is %T, not %T", c.Kind, state, s)
		}
		return json.Marshal(s)
	}
	if c.Probe != nil {
		l.probe = func(ctx context.Context, of *call) error { return c.Probe(ctx, of.run.(*Run[S])) }
	}
	if c.Failing != nil {
		l.failing = func(ctx context.Context, of *call, f Failure) map[string]any {
			return c.Failing(ctx, of.run.(*Run[S]), f)
		}
	}
	if c.Marking != nil {
		l.marking = func(raw json.RawMessage, why string) (json.RawMessage, error) {
			var state S
			if err := decodeState(raw, &state); err != nil {
				return nil, err
			}
			c.Marking(&state, why)
			return json.Marshal(state)
		}
	}
	for i, s := range c.Stages {
		main := compileStage(s, i)
		l.main = append(l.main, main)
		for n, r := range s.Rescue {
			rescue := compileStage(r, i)
			rescue.rescues, rescue.nth = main, n
			main.rescue = append(main.rescue, rescue)
			if len(r.Rescue) > 0 || r.Pivot || r.Optional {
				return nil, fmt.Errorf("rescue stage %s has a rescue or is a pivot or optional", r.Name)
			}
		}
	}
	if err := l.check(); err != nil {
		return nil, err
	}
	for form := range c.Form + 1 {
		l.lists = append(l.lists, l.digest(form))
	}
	l.list = l.lists[c.Form]
	return l, nil
}

// decodeState decodes a state strictly: a partly decoded state would lose fields at the next save.
func decodeState(raw json.RawMessage, state any) error {
	d := json.NewDecoder(strings.NewReader(string(raw)))
	d.DisallowUnknownFields()
	return d.Decode(state)
}

// former compiles the lists of Chain.Former.
func (c Chain[S]) former() (lines []*line, err error) {
	for _, stages := range c.Former {
		c.Stages = stages
		l, err := c.compile()
		if err != nil {
			return nil, err
		}
		lines = append(lines, l)
	}
	return lines, nil
}

// digest covers everything that a run keeps of its list: the kind, the form of the state, and the
// stages by name and place. A stage's behaviour may change between two releases, because stages
// look before they act.
func (l *line) digest(form int) string {
	h := sha256.New()
	_, _ = fmt.Fprintln(h, l.kind)
	if form > 0 { // form 0 is from before forms existed
		_, _ = fmt.Fprintln(h, "form", form)
	}
	for _, s := range l.all() {
		_, _ = fmt.Fprintln(h, s.name, s.rescues != nil, s.then)
	}
	return hex.EncodeToString(h.Sum(nil)[:8])
}

func compileStage[S any](s Stage[S], at int) *stage {
	of := func(c *call) *Run[S] { return c.run.(*Run[S]) }
	out := &stage{
		name: s.Name, at: at, then: s.Then, pivot: s.Pivot, opt: s.Optional, waivable: s.Waivable,
		retry: func(*call) Retry { return Retry{Attempts: 1} }, limit: func(*call) Limit { return Limit{} },
		about: func(*call) About { return About{} },
	}
	if s.Done != nil {
		out.look = func(ctx context.Context, c *call) (bool, error) { return s.Done(ctx, of(c)) }
	}
	if s.Do != nil {
		out.work = func(ctx context.Context, c *call) error { return s.Do(ctx, of(c)) }
	}
	if s.Undo != nil {
		out.takeBack = func(ctx context.Context, c *call) error { return s.Undo(ctx, of(c)) }
	}
	if s.Retry != nil {
		out.retry = func(c *call) Retry { return s.Retry(of(c).State) }
	}
	if s.Limit != nil {
		out.limit = func(c *call) Limit { return s.Limit(of(c).State) }
	}
	if s.About != nil {
		out.about = func(c *call) About { return s.About(of(c).State) }
	}
	return out
}

// check refuses a list that cannot be run.
func (l *line) check() error {
	if l.kind == "" || len(l.main) == 0 {
		return fmt.Errorf("a chain needs a kind and stages")
	}
	for _, s := range l.all() {
		switch {
		case s.name == "" || strings.ContainsAny(s.name, "/ "):
			return fmt.Errorf("%q is not a valid stage name", s.name)
		case l.named[s.name] != nil:
			return fmt.Errorf("two stages have the name %s", s.name)
		case s.work == nil:
			return fmt.Errorf("stage %s has no Do", s.name)
		}
		l.named[s.name] = s
	}
	for _, s := range l.all() {
		last := s.rescues != nil && s.nth == len(s.rescues.rescue)-1
		to := l.named[s.then]
		switch {
		case last != (s.then != ""):
			return fmt.Errorf("stage %s: Then belongs to the last rescue stage, and to no other", s.name)
		case last && (to == nil || to.rescues != nil || to.at > s.at):
			return fmt.Errorf("stage %s goes on with %s, which is not its own stage or one before it", s.name, s.then)
		}
	}
	return nil
}

// all lists the stages, each rescue after the rescued stage.
func (l *line) all() []*stage {
	var all []*stage
	for _, s := range l.main {
		all = append(append(all, s), s.rescue...)
	}
	return all
}

// before is the stage to take back after s; nil: none is left.
func (l *line) before(s *stage) *stage {
	switch {
	case s.nth > 0:
		return s.rescues.rescue[s.nth-1]
	case s.rescues != nil:
		return s.rescues
	case s.at > 0:
		return l.main[s.at-1]
	}
	return nil
}

// reached is the furthest stage of the main line that a run has entered.
func (l *line) reached(r *Record) (*stage, bool) {
	s, ok := l.named[r.Progress.Reached]
	return s, ok
}
