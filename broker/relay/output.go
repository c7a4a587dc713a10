package relay

import (
	"slices"
	"time"

	"github.com/hostler/hostler/taskcatalog/wire/frame"
)

// Bounds of a session's memory.
const (
	outputWindow = 256 << 10 // output that the operator has not taken
	outputMost   = 1 << 20   // for an operator who takes as much at once
	screenful    = 64 << 10  // output for an operator who comes back
	inputWindow  = 64 << 10  // input that the node has not taken
	few          = 4 << 10   // a little output, such as the answer to a key
)

// output is the last part of a terminal's output: first the kept bytes, then the bytes that are not
// kept yet. Bytes that are not kept must not leave output. The bytes never change, so callers may
// hold them as long as they like.
type output struct {
	held [][]byte // none of them empty
	size int      // of all of them
	from uint64   // of the first byte held
	kept uint64   // up to here the recording has it
}

func (o *output) end() uint64 { return o.from + uint64(o.size) }

// add takes ownership of bytes, which must not change afterwards. Bytes that fit into one frame are
// joined.
func (o *output) add(b []byte) {
	o.size += len(b)
	if last := len(o.held) - 1; last >= 0 && len(o.held[last])+len(b) <= frame.MaxData {
		o.held[last] = append(o.held[last], b...)
		return
	}
	o.held = append(o.held, b[:len(b):len(b)])
}

// reset continues after a gap.
func (o *output) reset(at uint64) { o.held, o.size, o.from = nil, 0, at }

// shown returns kept bytes after a position, up to a limit, for one frame; nil: nothing.
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
	return nil // unreachable: kept bytes were added
}

// forget drops output that the operator has taken, except the last screenful.
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

// paceTime is the time within which an operator must take a window of output to get a larger
// window. After an interrupt, the output in transit then takes about paceTime at most.
const paceTime = 250 * time.Millisecond

// window is the amount of output that an operator may be sent beyond what he has taken. Fast
// operators get a larger window: keeping takes time, and only kept output is shown.
type window struct {
	size  uint64
	since time.Time
	taken uint64 // at since
}

func newWindow(now time.Time, taken uint64) window { return window{outputWindow, now, taken} }

// took notes the position up to which the operator has taken output.
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
