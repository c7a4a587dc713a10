package steps

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"

	"golang.org/x/sys/unix"

	"github.com/hostler/hostler/agent/download"
	"github.com/hostler/hostler/agent/machine"
	"github.com/hostler/hostler/taskcatalog"
)

// target is a file that a step brings, with its name below the step's root.
type target struct {
	root *machine.Below
	name string
}

// work is the name of the file while it is not whole. No step names such a file: no part of a name
// in a plan begins with a dot.
func (t target) work() string {
	sum := sha256.Sum256([]byte(path.Base(t.name)))
	return path.Join(path.Dir(t.name), ".hostler-pull-"+hex.EncodeToString(sum[:8]))
}

// pull brings the content to the work file, and gives it the target's name once the digest is right.
func (t target) pull(ctx context.Context, p *download.Pull) (size int64, err error) {
	f, err := t.root.OpenWork(t.work())
	if err != nil {
		return 0, noLink(err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	p.File, p.Room = f, func() (int64, error) { return roomOf(f) }
	if size, err = p.Run(ctx); err != nil {
		if Final(taskcatalog.CodeOf(err, "")) || isFull(err) {
			err = errors.Join(err, t.root.Remove(t.work()))
		}
		return 0, err
	}
	return size, noLink(t.root.Publish(f, t.name, 0o644))
}

// keptFree is how much of a file system a pull leaves to others: a full one stops more than the pull.
const keptFree = 1 << 30

func roomOf(f *os.File) (int64, error) {
	var st unix.Statfs_t
	if err := unix.Fstatfs(int(f.Fd()), &st); err != nil {
		return 0, err
	}
	return int64(st.Bavail)*st.Bsize - keptFree, nil
}

// isFull reports whether an error says that a file system has no room.
func isFull(err error) bool {
	return taskcatalog.CodeOf(err, "") == taskcatalog.CodeDiskFull || errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT)
}

// FullDisk gives an error of a file system without room its code, whatever the step wrote. Other errors stay
// as they are.
func FullDisk(err error) error {
	if isFull(err) && taskcatalog.CodeOf(err, "") == "" {
		return taskcatalog.Errorf(taskcatalog.CodeDiskFull, "a file system of the node is full: %v (free space on the node, and retry)", err)
	}
	return err
}

// littleRoom is so little that a program which has just failed may have failed for it.
const littleRoom = 1 << 20

// hasNoRoom reports whether the file system of one of the directories is full now. A program whose output is on
// that file system could not say so.
func hasNoRoom(m *machine.Machine, dirs ...string) bool {
	for _, dir := range dirs {
		d, err := m.OpenDir(dir)
		if err != nil {
			continue
		}
		room, err := roomOf(d)
		_ = d.Close()
		if err == nil && room+keptFree < littleRoom {
			return true
		}
	}
	return false
}

// noLink gives a path that leads through a link, a mount or a file its code.
func noLink(err error) error {
	for _, in := range []error{unix.ELOOP, unix.EXDEV, unix.ENOTDIR, unix.EISDIR, machine.ErrFUSE} {
		if errors.Is(err, in) {
			return taskcatalog.Errorf(taskcatalog.CodePathRefused, "cannot write there: the path has a link, a mount, or a file in it: %v", err)
		}
	}
	return err
}

// opener opens a regular file for reading: Machine.OpenStrict, or Open of a directory held open.
type opener func(name string) (*os.File, error)

// hasDigest hashes a file, and reports whether it has the step's digest.
func hasDigest(ctx context.Context, s *Step, open opener, name string) (Proof, bool, error) {
	digest, size, err := digestOf(ctx, s, open, name)
	if err != nil || digest != s.Args.Text("digest") {
		return Proof{}, false, err
	}
	return Proof{Digest: digest, Bytes: size}, true, nil
}

// missing reports whether an error of an opener says that there is no such file: what is behind a
// link or a mount is none.
func missing(err error) bool {
	for _, in := range []error{fs.ErrNotExist, unix.ENOTDIR, unix.ELOOP, unix.EXDEV, machine.ErrNotRegular} {
		if errors.Is(err, in) {
			return true
		}
	}
	return false
}

// digestOf hashes a file. The digest of a file that is missing or no regular file is empty. A file
// larger than the plan permits is not read to its end.
func digestOf(ctx context.Context, s *Step, open opener, name string) (digest string, size int64, err error) {
	f, err := open(name)
	if missing(err) {
		return "", 0, nil
	}
	if err != nil {
		return "", 0, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || s.Plan.Artifacts == nil || info.Size() > s.Plan.Artifacts.MaxBytes {
		return "", 0, err
	}
	report, sum := s.bytes(), sha256.New()
	buf := make([]byte, 1<<20)
	for size <= s.Plan.Artifacts.MaxBytes {
		if ctx.Err() != nil {
			return "", 0, context.Cause(ctx)
		}
		n, err := f.Read(buf)
		sum.Write(buf[:n])
		size += int64(n)
		report(size, info.Size())
		if errors.Is(err, io.EOF) {
			return fmt.Sprintf("sha256:%x", sum.Sum(nil)), size, nil
		}
		if err != nil {
			return "", 0, err
		}
	}
	return "", 0, nil
}

// bytes returns a report of progress in bytes. It passes each percent on once.
func (s *Step) bytes() func(done, of int64) {
	last := -1
	return func(done, of int64) {
		percent := 0
		if of > 0 {
			percent = int(min(done*100/of, 100))
		}
		if percent != last {
			last = percent
			s.Progress(percent, fmt.Sprintf("%d of %d bytes", done, max(of, done)))
		}
	}
}
