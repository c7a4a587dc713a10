package backup

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

const (
	copyPrefix  = ".backup-"         // of a directory for copies, beside the database
	sealPrefix  = ".hostler-backup-" // of a file beside FILE until the backup is complete
	tempPrefix  = ".new-"            // of an unfinished file of keys or secrets, before it is renamed
	copyTries   = 100
	staleBackup = 24 * time.Hour // an unfinished file beside FILE without a write for longer was left behind
)

// newCopy makes a directory of mode 0700 for the files of one backup, in plain text. The directory
// is locked while its process lives, however the process ends; done removes the directory.
func newCopy(dataDir string) (dir string, done func(), err error) {
	for range copyTries {
		if dir, err = os.MkdirTemp(dataDir, copyPrefix); err != nil {
			return "", nil, err
		}
		lock, ours, err := lockDir(dir)
		switch {
		case err != nil && !errors.Is(err, os.ErrNotExist):
			return "", nil, errors.Join(err, os.Remove(dir))
		case ours:
			return dir, func() { _ = os.RemoveAll(dir); _ = lock.Close() }, nil
		} // another backup removed the directory as left behind
	}
	return "", nil, errors.New("other backups remove its directory")
}

// lockDir locks a directory, if the directory still exists when the lock is taken.
func lockDir(dir string) (lock *os.File, ours bool, err error) {
	if lock, err = os.Open(dir); err != nil {
		return nil, false, err
	}
	err = syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if err == nil {
		if _, err = os.Stat(dir); err == nil {
			return lock, true, nil
		}
	}
	_ = lock.Close()
	if errors.Is(err, syscall.EWOULDBLOCK) {
		err = nil
	}
	return nil, false, err
}

// sweepCopies removes the copies of killed backups: copies that no process has locked.
func sweepCopies(dataDir string) {
	for _, dir := range filesWithPrefix(dataDir, copyPrefix) {
		if lock, ours, err := lockDir(dir); err == nil && ours {
			_ = os.RemoveAll(dir)
			_ = lock.Close()
		}
	}
}

// sweepSealed removes unfinished files beside FILE. These files are encrypted, and may lie on a
// share where another machine's locks are not visible, so their age decides.
func sweepSealed(beside string) {
	for _, name := range filesWithPrefix(beside, sealPrefix) {
		if info, err := os.Lstat(name); err == nil && info.Mode().IsRegular() && time.Since(info.ModTime()) > staleBackup {
			_ = os.Remove(name)
		}
	}
}

func filesWithPrefix(dir, prefix string) (names []string) {
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), prefix) {
			names = append(names, filepath.Join(dir, e.Name()))
		}
	}
	return names
}
