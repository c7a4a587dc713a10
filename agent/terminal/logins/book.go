package logins

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// Book is the files of logins.
type Book struct {
	Utmp, Wtmp string
	Now        func() time.Time
}

// Here is the machine's Book.
func Here() Book { return Book{Utmp: "/run/utmp", Wtmp: "/var/log/wtmp", Now: time.Now} }

// Begin records a login.
func (b Book) Begin(l Login) error { return b.record(l, false) }

// End records a login's end. The record of another program on the same terminal stays.
func (b Book) End(l Login) error { return b.record(l, true) }

func (b Book) record(l Login, ended bool) error {
	f, ok := formHere()
	if !ok {
		return nil
	}
	raw := f.encode(l, b.Now(), ended)
	_, now := change(b.Utmp, func(file *os.File) error { return put(file, raw, l, ended) })
	_, then := change(b.Wtmp, func(file *os.File) error { return add(file, raw) })
	if err := errors.Join(now, then); err != nil {
		return fmt.Errorf("cannot record a login: %w", err)
	}
	return nil
}

// Limits for waiting for a file's lock.
const (
	lockTime = 2 * time.Second
	lockPoll = 10 * time.Millisecond
)

// change calls do with a file under its lock. A missing file is no error.
func change(name string, do func(*os.File) error) (there bool, err error) {
	file, err := os.OpenFile(name, os.O_RDWR|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer file.Close() // and with it the lock
	info, err := file.Stat()
	if err != nil {
		return false, err
	}
	if !info.Mode().IsRegular() {
		return false, fmt.Errorf("%s is not a file", name)
	}
	lock := unix.Flock_t{Type: unix.F_WRLCK, Whence: io.SeekStart}
	for end := time.Now().Add(lockTime); ; time.Sleep(lockPoll) {
		if err = unix.FcntlFlock(file.Fd(), unix.F_SETLK, &lock); err == nil {
			return true, do(file)
		}
		if time.Now().After(end) {
			return false, fmt.Errorf("%s is locked: %w", name, err)
		}
	}
}

// put overwrites the record of the login's terminal.
func put(file *os.File, raw []byte, l Login, ended bool) error {
	had := make([]byte, len(raw))
	at := int64(0)
	for ; ; at += int64(len(raw)) {
		_, err := file.ReadAt(had, at)
		if errors.Is(err, io.EOF) {
			break // or a partly written record
		}
		if err != nil {
			return err
		}
		if !matches(had, l) {
			continue
		}
		if ended && pid(had) != l.PID {
			return nil
		}
		_, err = file.WriteAt(raw, at)
		return err
	}
	if ended {
		return nil
	}
	_, err := file.WriteAt(raw, at)
	return err
}

// add writes a record after the last complete one.
func add(file *os.File, raw []byte) error {
	info, err := file.Stat()
	if err != nil {
		return err
	}
	at := info.Size() - info.Size()%int64(len(raw))
	if _, err = file.WriteAt(raw, at); err != nil {
		return errors.Join(err, file.Truncate(at))
	}
	return nil
}
