// Package periodic repeats a piece of work until its context ends.
//
// A turn that fails is logged, and the next turn comes at its time: the work of a leader
// must not end because the store was away for a moment. Turns never overlap. A turn that
// takes longer than the period is followed by the next turn at once, and the ticks in
// between are dropped.
package periodic
