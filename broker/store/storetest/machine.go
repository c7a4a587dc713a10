package storetest

import (
	"sync/atomic"
	"time"
	"unsafe"
)

// Machine is the clock of a machine whose time of day somebody has set. As with the kernel's clock,
// the monotonic reading goes on as before; time.Time.Add would move both readings.
type Machine struct{ ahead atomic.Int64 } // in seconds

// Set moves the time of day ahead of the true time, by whole seconds.
func (m *Machine) Set(ahead time.Duration) { m.ahead.Store(int64(ahead / time.Second)) }

// Now is time.Now on that machine.
func (m *Machine) Now() time.Time {
	t := time.Now()
	// In a time.Time with a monotonic reading, the first word has the seconds above the
	// nanoseconds. Package time has no other way to move the seconds alone.
	*(*uint64)(unsafe.Pointer(&t)) += uint64(m.ahead.Load()) << 30
	return t
}
