package inbox

import (
	"time"

	"github.com/hostler/hostler/taskcatalog"
)

// validity allows for a difference between the two clocks of up to taskcatalog.ClockSkew.
func validity(task *taskcatalog.Task, now time.Time) error {
	switch {
	case now.Before(task.IssuedAt.Add(-taskcatalog.ClockSkew)):
		return taskcatalog.Errorf(taskcatalog.CodeNotYetValid,
			"task %s was issued at %s by the broker's clock and this node's clock says %s (compare both clocks)",
			quote(task.TaskID), stamp(task.IssuedAt), stamp(now))
	case now.After(task.NotAfter.Add(taskcatalog.ClockSkew)):
		return taskcatalog.Errorf(taskcatalog.CodeTaskExpired,
			"task %[1]s was issued at %[3]s and had to start by %[2]s by the broker's clock, and this node's clock says %[4]s (compare both clocks, or enqueue the task again)",
			quote(task.TaskID), stamp(task.NotAfter), stamp(task.IssuedAt), stamp(now))
	}
	return nil
}
