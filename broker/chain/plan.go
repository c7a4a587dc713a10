package chain

// Planned is a line of a plan.
type Planned struct {
	Stage    string
	Rescues  string // the rescued stage; empty: on the main line
	Optional bool
	Pivot    bool // after the pivot, a cancel undoes nothing before the pivot
	About
}

// Plan lists the stages of a run with this state, in order, each detour after the rescued stage.
// Only About is called.
func Plan[S any](c Chain[S], state S) ([]Planned, error) {
	l, err := c.compile()
	if err != nil {
		return nil, err
	}
	return l.plan(&call{run: &Run[S]{State: state}}), nil
}

// Plan lists the stages of the list that a run follows, as Plan does for a new run. A list that
// this broker does not know is planned as the list in force of its kind, and a state that this
// broker cannot read as far as it is readable. Nil: this broker runs no such kind.
func (e *Engine) Plan(r Record) []Planned {
	l := e.lineOf(r)
	if l == nil {
		l = e.lines[r.Kind]
	}
	if l == nil {
		return nil
	}
	call, _ := l.open(&r, &output{}) // a state of another version is planned as far as it is readable
	return l.plan(call)
}

func (l *line) plan(of *call) (plan []Planned) {
	for _, s := range l.all() {
		p := Planned{Stage: s.name, Optional: s.opt, Pivot: s.pivot, About: s.about(of)}
		if s.rescues != nil {
			p.Rescues = s.rescues.name
		}
		plan = append(plan, p)
	}
	return plan
}
