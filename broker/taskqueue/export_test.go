package taskqueue

import "context"

// ProbeUnknownAtMost is ProbeUnknown with another bound.
func (q *Queue) ProbeUnknownAtMost(ctx context.Context, atOnce int) error {
	return q.probeUnknown(ctx, atOnce)
}

// AskWith has the queue ask another which nodes have something open.
func (q *Queue) AskWith(open func(context.Context) ([]string, error)) { q.open = open }
