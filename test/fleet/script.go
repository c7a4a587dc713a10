package fleet

import (
	"hash/fnv"
	"time"
)

// Act is what a node makes of a task.
type Act string

// The acts.
const (
	Succeed   Act = "succeed"
	Fail      Act = "fail"
	Silent    Act = "silent"    // nothing more is heard of it
	Crash     Act = "crash"     // the agent dies at it, and its next start says so
	Duplicate Act = "duplicate" // the result comes twice
)

// Script says what a fleet's nodes do. The zero Script is a fleet in which nothing goes
// wrong. The shares are of tasks, from 0 to 1, and those of one script add up to 1 at most;
// what is left succeeds.
type Script struct {
	Fail, Silent, Crash, Duplicate float64
	// Takes is how long a task takes.
	Takes time.Duration
	// Cut is the mean time after which a node's connections break, and Renew that after
	// which it renews its certificate besides when it must; 0: never.
	Cut, Renew time.Duration
}

// Act is what becomes of a task. It depends on the task's id alone, so that whoever checks
// afterwards knows it.
func (s Script) Act(taskID string) Act {
	h := fnv.New64a()
	_, _ = h.Write([]byte(taskID))
	at := float64(mixed(h.Sum64())>>11) / (1 << 53)
	for _, part := range []struct {
		act   Act
		share float64
	}{{Fail, s.Fail}, {Silent, s.Silent}, {Crash, s.Crash}, {Duplicate, s.Duplicate}} {
		if at < part.share {
			return part.act
		}
		at -= part.share
	}
	return Succeed
}

// mixed spreads what differs in its last bits only, as the ids of tasks do.
func mixed(x uint64) uint64 {
	x ^= x >> 33
	x *= 0xff51afd7ed558ccd
	x ^= x >> 33
	x *= 0xc4ceb9fe1a85ec53
	return x ^ x>>33
}
