package broker

import "time"

// Elapsed is how long ago then was, for what must not be older than a limit. Two
// readings of a clock tell by the date and by the monotonic clock; the longer one
// counts. The monotonic clock stands still while a machine is suspended, and the
// date goes back when somebody sets it back.
func Elapsed(now, then time.Time) time.Duration {
	return max(now.Sub(then), now.Round(0).Sub(then.Round(0)))
}
