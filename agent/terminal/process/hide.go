package process

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// HideMemory closes this process to everybody but root: nobody else traces it, reads its memory, or
// finds it in a core dump. On some systems a change of user, as between fork and exec at a
// program's start, undoes this, so HideMemory is called again then.
func HideMemory() error {
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return fmt.Errorf("cannot hide this process's memory: %w", err)
	}
	return nil
}

// lowestOOMScore is a score with which the out-of-memory killer chooses this process last: after
// every program of a user, who may not set such a score.
const lowestOOMScore = "-900"

// setOOMScore makes the out-of-memory killer choose this process late. It is called after the
// program's start, because programs inherit the score.
func setOOMScore(file string) error {
	if err := os.WriteFile(file, []byte(lowestOOMScore), 0o600); err != nil {
		return fmt.Errorf("cannot protect this process when memory runs out: %w", err)
	}
	return nil
}
