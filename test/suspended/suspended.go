// Package suspended simulates the clock of a machine that was suspended: the date has advanced, but
// the monotonic clock, by which Go compares two readings of time.Now, has not.
package suspended

import (
	"testing"
	"time"
	"unsafe"
)

// reading is the layout of a time.Time with a monotonic reading: see its source in
// the standard library. Nothing exported makes such a time.
type reading struct {
	wall uint64 // the top bit, 33 bits of seconds, 30 of nanoseconds
	ext  int64  // monotonic nanoseconds
	loc  *time.Location
}

// For returns now, a reading of time.Now, as it is after a suspension of duration d.
func For(t testing.TB, now time.Time, d time.Duration) time.Time {
	t.Helper()
	later := now.Add(d)
	(*reading)(unsafe.Pointer(&later)).ext -= int64(d)
	if later.Sub(now) != 0 || !later.Round(0).Equal(now.Round(0).Add(d)) {
		t.Fatalf("a time.Time is laid out in another way than this package expects: %v after a suspension of %s at %v", later, d, now)
	}
	return later
}
