package storetest

import (
	"sync/atomic"
	"time"
	"unsafe"
)

// Machine is the clock of a machine whose time of day somebody has set. As the kernel's, its
// monotonic reading goes on as before; by time.Time.Add both would move.
type Machine struct{ ahead atomic.Int64 } // in seconds

// Set has its time of day be ahead of the right one, by whole seconds.
func (m *Machine) Set(ahead time.Duration) { m.ahead.Store(int64(ahead / time.Second)) }

// Now is time.Now on that machine.
func (m *Machine) Now() time.Time {
	t := time.Now()
	// The first word of one that has a monotonic reading has seconds above nanoseconds, and
	// package time has no other way to move them alone.
	*(*uint64)(unsafe.Pointer(&t)) += uint64(m.ahead.Load()) << 30
	return t
}
