package machine

import (
	"errors"
	"testing"

	"golang.org/x/sys/unix"
)

// The kernel stops looking for a swap area's pages when a signal arrives, and the Go runtime uses
// signals to pause its threads.
func TestASignalDoesNotKeepASwapAreaInUse(t *testing.T) {
	for _, test := range []struct {
		name   string
		signal int
		last   unix.Errno
		want   error
	}{
		{"three signals", 3, 0, nil},
		{"three signals and a refusal", 3, unix.ENOMEM, unix.ENOMEM},
		{"signals without end", maxInterrupted, 0, unix.EINTR},
	} {
		calls := 0
		err := uninterrupted(func() unix.Errno {
			if calls++; calls <= test.signal {
				return unix.EINTR
			}
			return test.last
		})
		if !errors.Is(err, test.want) || calls > maxInterrupted {
			t.Errorf("%s: %v after %d calls", test.name, err, calls)
		}
	}
}
