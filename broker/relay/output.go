package relay

import (
	"bytes"
	"time"
)

// Bounds of what a session has in memory.
const (
	outputWindow = 256 << 10 // of output that the operator has not taken
	outputMost   = 1 << 20   // where he takes as much at once
	screenful    = 64 << 10  // of output for an operator who comes back
	inputWindow  = 64 << 10  // of input that the node has not taken
)

// output is the end of what a terminal has written: what is kept, and then what is not
// kept yet. Nothing of the second may leave it.
type output struct {
	held []byte
	from uint64 // of the first byte held
	kept uint64 // up to where the recording has it
}

func (o *output) end() uint64 { return o.from + uint64(len(o.held)) }

func (o *output) add(b []byte) { o.held = append(o.held, b...) }

// reset goes on after bytes that nobody has.
func (o *output) reset(at uint64) { o.held, o.from = nil, at }

// shown is what may be shown after a byte, up to a limit and a length.
func (o *output) shown(after, limit uint64, most int) []byte {
	to := min(o.kept, limit, after+uint64(most))
	if after < o.from || to <= after {
		return nil
	}
	return bytes.Clone(o.held[after-o.from : to-o.from])
}

// forget lets go of what an operator has taken who has it up to taken, but for a screenful.
func (o *output) forget(taken uint64) {
	if o.kept < screenful {
		return
	}
	before := min(taken, o.kept-screenful)
	if before < o.from+screenful/2 { // not for each byte
		return
	}
	o.held = append(o.held[:0], o.held[before-o.from:]...)
	o.from = before
}

// paceTime is how soon an operator takes a window of output who may have a larger one: so
// that what is on its way after an interrupt takes him no longer than about that.
const paceTime = 250 * time.Millisecond

// window is how much more an operator may be sent than he has taken. A larger one is for who
// is quick: keeping takes its time, and what is not kept is not shown.
type window struct {
	size  uint64
	since time.Time
	taken uint64 // by then
}

func newWindow(now time.Time, taken uint64) window { return window{outputWindow, now, taken} }

// took notes up to where the operator has taken output.
func (w *window) took(now time.Time, taken uint64) {
	bytes, late := taken-w.taken, now.Sub(w.since) > paceTime
	switch {
	case !late && bytes < w.size:
		return
	case !late:
		w.size = min(2*w.size, outputMost)
	case bytes < w.size/2:
		w.size = max(w.size/2, outputWindow)
	}
	w.since, w.taken = now, taken
}
