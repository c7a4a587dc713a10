package chain

import (
	"fmt"
	"time"
)

// Batch is a set of runs that were requested together.
type Batch struct {
	ID, Kind, Site string
	Parallel       int // moving batch runs allowed at the site, at least 1
	StopAfter      int // failures in a row at the same stage and class; 0: never stop

	LastStage  string // of the last failure
	LastClass  Class
	InARow     int
	StoppedAt  time.Time // zero: not stopped
	StopReason string

	RequestedBy string
	RequestedAt time.Time
}

// Result is the outcome of a batch's run.
type Result struct {
	Failed bool
	Stage  string
	Class  Class
}

// After returns the batch after the outcome r of one of its runs. stopped reports that r stops
// the batch.
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

// Stopped is the message about a stopped batch.
func (b Batch) Stopped() Message {
	return Message{Type: prefix(b.Kind) + ".batch_stopped", Subject: "batch/" + b.ID, Data: map[string]any{
		"batch_id": b.ID, "site": b.Site, "stage": b.LastStage, "failure_class": b.LastClass, "reason": b.StopReason,
	}}
}

// Continued is the batch after an operator lets it continue.
func (b Batch) Continued() Batch {
	b.LastStage, b.LastClass, b.InARow, b.StoppedAt, b.StopReason = "", "", 0, time.Time{}, ""
	return b
}
