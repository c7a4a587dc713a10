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
	call := &call{run: &Run[S]{State: state}}
	var plan []Planned
	for _, s := range l.all() {
		p := Planned{Stage: s.name, Optional: s.opt, Pivot: s.pivot, About: s.about(call)}
		if s.rescues != nil {
			p.Rescues = s.rescues.name
		}
		plan = append(plan, p)
	}
	return plan, nil
}
