package chain

import "time"

// Retry says how often a stage is retried, and after which backoff.
type Retry struct {
	Attempts int           // in all, with the first; Unlimited: until the stage's limit
	First    time.Duration // before the second attempt; doubles for each further attempt
	Max      time.Duration // 0: no maximum but 24 h
}

// Unlimited attempts need a Limit; without a Limit, Unlimited means one attempt.
const Unlimited = -1

// Backoff is the wait after the given number of failed attempts.
func (r Retry) Backoff(failed int) time.Duration {
	const longest = 24 * time.Hour
	most := longest
	if r.Max > 0 && r.Max < longest {
		most = r.Max
	}
	d := r.First
	for range failed - 1 {
		if d >= most {
			break
		}
		d *= 2
	}
	return min(d, most)
}
