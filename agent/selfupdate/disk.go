package selfupdate

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"syscall"

	"golang.org/x/sys/unix"
)

// disk makes every file change of an update. Each change is complete and durable when it returns.
type disk struct {
	lib, state *os.Root
	// step is called before each change with the change's name. The power-cut tests end the process
	// there.
	step func(what string) error
}

// temporary is the suffix of incomplete files.
const temporary = ".new"

// write replaces a file atomically.
func (d *disk) write(in *os.Root, name string, raw []byte, mode fs.FileMode) error {
	temp := name + temporary
	if err := d.step("write " + temp); err != nil {
		return err
	}
	f, err := in.OpenFile(temp, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, mode)
	if err != nil {
		return err
	}
	_, err = f.Write(raw)
	if err == nil {
		err = d.step("sync " + temp)
	}
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return errors.Join(err, d.remove(in, temp))
	}
	return d.rename(in, temp, name)
}

// rename moves a file, a folder or a link. It replaces an existing file or link of the new name.
func (d *disk) rename(in *os.Root, from, to string) error {
	if err := d.step("rename " + to); err != nil {
		return err
	}
	if err := in.Rename(from, to); err != nil {
		return err
	}
	return d.sync(in, path.Dir(to))
}

// link creates a link, or changes its target, atomically.
func (d *disk) link(in *os.Root, name, target string) error {
	if to, err := in.Readlink(name); err == nil && to == target {
		return nil
	}
	temp := name + temporary
	if err := d.step("link " + temp); err != nil {
		return err
	}
	if err := in.Remove(temp); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := in.Symlink(target, temp); err != nil {
		return err
	}
	return d.rename(in, temp, name)
}

// remove removes a file or a folder. A missing file is no error.
func (d *disk) remove(in *os.Root, name string) error {
	if _, err := in.Lstat(name); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err := d.step("remove " + name); err != nil {
		return err
	}
	return errors.Join(in.RemoveAll(name), d.sync(in, path.Dir(name)))
}

// folder creates a folder, unless it exists.
func (d *disk) folder(in *os.Root, name string, mode fs.FileMode) error {
	if info, err := in.Lstat(name); err == nil && info.IsDir() {
		return nil
	}
	if err := d.step("mkdir " + name); err != nil {
		return err
	}
	if err := in.Mkdir(name, mode); err != nil {
		return err
	}
	return d.sync(in, path.Dir(name))
}

// fill writes a new file with the output of do, and syncs it.
func (d *disk) fill(in *os.Root, name string, mode fs.FileMode, do func(io.Writer) error) error {
	if err := d.step("fill " + name); err != nil {
		return err
	}
	f, err := in.OpenFile(name, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, mode)
	if err != nil {
		return err
	}
	err = do(f)
	if err == nil {
		err = d.step("sync " + name)
	}
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

func (d *disk) sync(in *os.Root, name string) error {
	f, err := in.Open(name)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// The ballast is space reserved before a switch and freed when the state cannot be written on a
// full disk: a version that fills the disk must not prevent the record of its revert. The ballast
// is freed piece by piece, because such a version may take all free space at once. On a
// copy-on-write file system the ballast is no guarantee.
const (
	ballastFile  = "ballast"
	ballastSize  = 2 << 20
	ballastPiece = 64 << 10
)

func (s *Store) reserve() error {
	return s.fill(s.state, ballastFile, 0o600, func(to io.Writer) error {
		_, err := to.Write(make([]byte, ballastSize))
		return err
	})
}

// freeBallast frees a piece of the ballast. It returns false if no ballast is left.
func (s *Store) freeBallast() bool {
	f, err := s.state.OpenFile(ballastFile, os.O_WRONLY, 0)
	if err != nil {
		return false
	}
	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	return err == nil && info.Size() > 0 && s.step("truncate "+ballastFile) == nil && f.Truncate(max(info.Size()-ballastPiece, 0)) == nil
}

// isFull reports whether err means a file system without space.
func isFull(err error) bool { return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) }

// freeBytes returns the free bytes on a folder's file system.
func freeBytes(in *os.Root) (int64, error) {
	f, err := in.Open(".")
	if err != nil {
		return 0, err
	}
	defer func() { _ = f.Close() }()
	var s unix.Statfs_t
	if err := unix.Fstatfs(int(f.Fd()), &s); err != nil {
		return 0, fmt.Errorf("cannot read how much space is left: %w", err)
	}
	return int64(s.Bavail) * s.Bsize, nil
}
