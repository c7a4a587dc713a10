package fleet

import (
	"hash/fnv"
	"time"
)

// Act is a node's treatment of a task.
type Act string

// The acts.
const (
	Succeed   Act = "succeed"
	Fail      Act = "fail"
	Silent    Act = "silent"    // the node reports nothing more
	Crash     Act = "crash"     // the agent dies during the task, and its next start reports the interruption
	Duplicate Act = "duplicate" // the result comes twice
)

// Script describes the behaviour of a fleet's nodes. The zero Script is a fleet without trouble.
// Shares are fractions of tasks, from 0 to 1; the shares of a script add up to at most 1, and the
// remaining tasks succeed.
type Script struct {
	Fail, Silent, Crash, Duplicate float64
	// Takes is the duration of a task.
	Takes time.Duration
	// Cut is the mean time between breaks of a node's connections, and Renew the mean time between
	// renewals of its certificate besides the due renewals; 0: never.
	Cut, Renew time.Duration
}

// Act returns the treatment of a task. It depends only on the task's id, so a later check can
// compute it again.
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

// mixed spreads values that differ only in their last bits, as hashes of task ids do.
func mixed(x uint64) uint64 {
	x ^= x >> 33
	x *= 0xff51afd7ed558ccd
	x ^= x >> 33
	x *= 0xc4ceb9fe1a85ec53
	return x ^ x>>33
}
