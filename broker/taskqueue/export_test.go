package taskqueue

import "context"

// ProbeUnknownAtMost is ProbeUnknown with another bound.
func (q *Queue) ProbeUnknownAtMost(ctx context.Context, atOnce int) error {
	return q.probeUnknown(ctx, atOnce)
}

// AskWith has the queue ask another for which nodes there is something.
func (q *Queue) AskWith(toTell func(context.Context) ([]string, error)) { q.toTell = toTell }
