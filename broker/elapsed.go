package broker

import "time"

// Elapsed is the time since then, for limits on age. Wall clock and monotonic clock may disagree;
// the longer time counts. The monotonic clock stands still while a machine is suspended, and the
// wall clock goes back when somebody sets the date back.
func Elapsed(now, then time.Time) time.Duration {
	return max(now.Sub(then), now.Round(0).Sub(then.Round(0)))
}
