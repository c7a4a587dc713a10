package process

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// HideMemory keeps everybody but root out of this process: nobody traces it, reads its
// memory, or finds it in a core. To become a user, as the start of a program does between
// fork and exec, undoes it on some systems, so it is done again then.
func HideMemory() error {
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return fmt.Errorf("cannot hide this process's memory: %w", err)
	}
	return nil
}
