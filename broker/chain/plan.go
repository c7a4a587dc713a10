package chain

// Planned is a line of a plan.
type Planned struct {
	Stage    string
	Rescues  string // the stage whose detour this is; empty: it is on the main line
	Optional bool
	Pivot    bool // after it, a cancel takes nothing of what is before it back
	About
}

// Plan lists what a run from this state would do, in order, each detour behind
// the stage it rescues. Nothing is called but About.
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
