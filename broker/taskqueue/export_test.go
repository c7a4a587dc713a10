package taskqueue

import "context"

// ProbeUnknownAtMost is ProbeUnknown with another bound.
func (q *Queue) ProbeUnknownAtMost(ctx context.Context, atOnce int) error {
	return q.probeUnknown(ctx, atOnce)
}

// AskWith replaces the query for nodes with open tasks.
func (q *Queue) AskWith(toTell func(context.Context) ([]string, error)) { q.nodesWithTasks = toTell }
