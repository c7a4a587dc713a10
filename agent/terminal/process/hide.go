package process

import (
	"fmt"
	"os"

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

// lastKilled is how little a process is chosen where memory has run out: after whatever a user
// has started, who has no such right.
const lastKilled = "-900"

// outliveMemory has this process be killed late where memory has run out. A program that it
// starts later would inherit that.
func outliveMemory(file string) error {
	if err := os.WriteFile(file, []byte(lastKilled), 0o600); err != nil {
		return fmt.Errorf("cannot be kept where memory runs out: %w", err)
	}
	return nil
}
