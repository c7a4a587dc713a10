package taskqueue

import "context"

// ProbeUnknownAtMost is ProbeUnknown with another bound.
func (q *Queue) ProbeUnknownAtMost(ctx context.Context, atOnce int) error {
	return q.probeUnknown(ctx, atOnce)
}
