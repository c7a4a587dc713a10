package relay

import (
	"slices"
	"time"

	"github.com/hostler/hostler/taskcatalog/wire/frame"
)

// Bounds of what a session has in memory.
const (
	outputWindow = 256 << 10 // of output that the operator has not taken
	outputMost   = 1 << 20   // where he takes as much at once
	screenful    = 64 << 10  // of output for an operator who comes back
	inputWindow  = 64 << 10  // of input that the node has not taken
	few          = 4 << 10   // of output, such as the answer to a key
)

// output is the end of what a terminal has written: what is kept, and then what is not
// kept yet. Nothing of the second may leave it. Its bytes never change, so that whoever was
// given some has them for as long as he likes.
type output struct {
	held [][]byte // none of them empty
	size int      // of all of them
	from uint64   // of the first byte held
	kept uint64   // up to where the recording has it
}

func (o *output) end() uint64 { return o.from + uint64(o.size) }

// add takes bytes over, which nobody changes any more. What fits into one frame is together.
func (o *output) add(b []byte) {
	o.size += len(b)
	if last := len(o.held) - 1; last >= 0 && len(o.held[last])+len(b) <= frame.MaxData {
		o.held[last] = append(o.held[last], b...)
		return
	}
	o.held = append(o.held, b[:len(b):len(b)])
}

// reset goes on after bytes that nobody has.
func (o *output) reset(at uint64) { o.held, o.size, o.from = nil, 0, at }

// shown is some of what may be shown after a byte, up to a limit, for one frame; nil: nothing.
func (o *output) shown(after, limit uint64) []byte {
	to := min(o.kept, limit)
	if after < o.from || to <= after {
		return nil
	}
	at := o.from
	for _, b := range o.held {
		if end := at + uint64(len(b)); after < end {
			return b[after-at : min(end, to)-at]
		}
		at += uint64(len(b))
	}
	return nil // never: what is kept was added
}

// forget lets go of what an operator has taken who has it up to taken, but for a screenful.
func (o *output) forget(taken uint64) {
	if o.kept < screenful {
		return
	}
	before, n := min(taken, o.kept-screenful), 0
	for n < len(o.held) && o.from+uint64(len(o.held[n])) <= before {
		o.from, o.size = o.from+uint64(len(o.held[n])), o.size-len(o.held[n])
		n++
	}
	o.held = slices.Delete(o.held, 0, n)
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
