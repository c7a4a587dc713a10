package chain

import (
	"fmt"
	"time"
)

// Batch is runs that were asked for together.
type Batch struct {
	ID, Kind, Site string
	Parallel       int // runs of batches that move at a time at the site, at least 1
	StopAfter      int // failures in a row at one stage and class; 0: never stop

	LastStage  string // of the last failure
	LastClass  Class
	InARow     int
	StoppedAt  time.Time // zero: it goes on
	StopReason string

	RequestedBy string
	RequestedAt time.Time
}

// Result is what a run of a batch came to.
type Result struct {
	Failed bool
	Stage  string
	Class  Class
}

// After is the batch once a run of it came to r. stopped says that this is what
// stops it.
func (b Batch) After(r Result, now time.Time) (after Batch, stopped bool) {
	switch {
	case !r.Failed:
		b.LastStage, b.LastClass, b.InARow = "", "", 0
		return b, false
	case r.Stage == b.LastStage && r.Class == b.LastClass:
		b.InARow++
	default:
		b.LastStage, b.LastClass, b.InARow = r.Stage, r.Class, 1
	}
	if b.StopAfter == 0 || b.InARow < b.StopAfter || !b.StoppedAt.IsZero() {
		return b, false
	}
	b.StoppedAt = now
	b.StopReason = fmt.Sprintf("%d runs in a row failed at %s with %s", b.InARow, b.LastStage, b.LastClass)
	return b, true
}

// Stopped is the message that says so.
func (b Batch) Stopped() Message {
	return Message{Type: prefix(b.Kind) + ".batch_stopped", Subject: "batch/" + b.ID, Data: map[string]any{
		"batch_id": b.ID, "site": b.Site, "stage": b.LastStage, "failure_class": b.LastClass, "reason": b.StopReason,
	}}
}

// Continued is the batch once an operator lets it go on.
func (b Batch) Continued() Batch {
	b.LastStage, b.LastClass, b.InARow, b.StoppedAt, b.StopReason = "", "", 0, time.Time{}, ""
	return b
}
