package machine

import (
	"context"
	"crypto/md5"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"iter"
	"os"
	"regexp"
	"runtime"
	"strconv"
	"sync"

	"golang.org/x/sys/unix"
)

// FileQuery asks how a system file is.
type FileQuery struct {
	Path string
	MD5  string // where set, only whether the content has this sum
	// Without, where set, is what the digest leaves out if the content begins with it.
	Without *regexp.Regexp
}

// FileState is how a file is. It never holds any of its content.
type FileState struct {
	Digest string // of the content, or what the path is instead: see the kinds
	Mode   uint32 // permission bits with set-uid, set-gid and sticky
	UID    uint32
	As     bool // the content has the sum that was asked for
}

// What a path is when it is no regular file that one wants to read.
const (
	FileMissing = "missing"
	FileLink    = "link:"
	// fileBig is a file too large to be read each time: its size and the time
	// of its last change, which only who sets the clock can choose.
	fileBig = "big:"
)

// IsContent reports whether a digest is that of a regular file's content.
func IsContent(digest string) bool {
	sum, err := hex.DecodeString(digest)
	return err == nil && len(sum) == 16
}

// maxHashed is the largest file that is read to its end: a sparse file of
// petabytes costs its maker nothing.
const maxHashed = 4 << 30

// FileStates answers queries, several at a time, at low priority, in any
// order. One file that cannot be read ends it with an error: a look that left
// something out is none.
func (m *Machine) FileStates(ctx context.Context, queries iter.Seq[FileQuery], answer func(FileQuery, FileState)) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	in := make(chan FileQuery)
	var mu sync.Mutex
	var workers sync.WaitGroup
	// One processor of the runtime's stays idle: where all have work, the runtime
	// takes one away from each thread that waits for the disk, which costs several
	// times what reading a file does.
	for range max(1, min(4, runtime.GOMAXPROCS(0)-1)) {
		workers.Go(func() {
			background()
			buf := make([]byte, 128<<10)
			for q := range in {
				s, err := m.fileState(ctx, q, buf)
				if err != nil {
					stop(fmt.Errorf("cannot look at %s: %w", q.Path, err))
					continue
				}
				mu.Lock()
				answer(q, s)
				mu.Unlock()
			}
		})
	}
	for q := range queries {
		select {
		case in <- q:
			continue
		case <-ctx.Done():
		}
		break
	}
	close(in)
	workers.Wait()
	return context.Cause(ctx)
}

// background gives the calling goroutine a thread of its own that yields to
// everyone's: the thread is never given back and ends with the goroutine.
func background() {
	runtime.LockOSThread()
	const class, idle, who = 13, 3, 1 // IOPRIO_CLASS_SHIFT, IOPRIO_CLASS_IDLE, IOPRIO_WHO_PROCESS
	_ = unix.Setpriority(unix.PRIO_PROCESS, unix.Gettid(), 15)
	_, _, _ = unix.Syscall(unix.SYS_IOPRIO_SET, who, 0, idle<<class)
}

// fileState looks at one path. Directories above it may be links within the
// root, as /bin is; the last component is looked at itself.
func (m *Machine) fileState(ctx context.Context, q FileQuery, buf []byte) (FileState, error) {
	dir, rel := m.at(q.Path)
	fd, err := openat2(dir, rel, unix.O_PATH|unix.O_NOFOLLOW, 0, resolveTrusted)
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) {
		return FileState{Digest: FileMissing}, nil
	}
	if err != nil {
		return FileState{}, err
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return FileState{}, err
	}
	s := FileState{Mode: st.Mode & 0o7777, UID: st.Uid}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFREG:
	case unix.S_IFLNK:
		target := make([]byte, unix.PathMax)
		n, err := unix.Readlinkat(fd, "", target)
		s.Digest, s.Mode = FileLink+string(target[:max(n, 0)]), 0
		return s, err
	case unix.S_IFDIR:
		s.Digest = "directory"
		return s, nil
	case unix.S_IFIFO:
		s.Digest = "fifo"
		return s, nil
	case unix.S_IFSOCK:
		s.Digest = "socket"
		return s, nil
	default:
		s.Digest = fmt.Sprintf("device:%d:%d", unix.Major(st.Rdev), unix.Minor(st.Rdev))
		return s, nil
	}
	if st.Size > maxHashed {
		s.Digest = fmt.Sprintf("%s%d:%d", fileBig, st.Size, st.Ctim.Nano())
		return s, nil
	}
	f, err := reopenRegular(fd, q.Path)
	if err != nil {
		return s, err
	}
	defer f.Close()
	var h hash.Hash = sha256.New()
	if q.MD5 != "" {
		h = md5.New()
	}
	if q.Without != nil {
		if err := head(h, f, q.Without, buf); err != nil {
			return s, err
		}
	}
	if err := copyBounded(ctx, h, f, buf); err != nil {
		return s, err
	}
	s.Digest = hex.EncodeToString(h.Sum(nil)[:16])
	s.As = s.Digest == q.MD5
	return s, nil
}

// head reads the beginning of a file, without what it is to be without.
func head(h hash.Hash, f *os.File, without *regexp.Regexp, buf []byte) error {
	n, err := io.ReadFull(f, buf[:min(len(buf), 4096)])
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return err
	}
	text := buf[:n]
	if at := without.FindIndex(text); at != nil && at[0] == 0 {
		text = text[at[1]:]
	}
	h.Write(text)
	return nil
}

// copyBounded reads a file that may grow while it is read.
func copyBounded(ctx context.Context, h hash.Hash, f *os.File, buf []byte) error {
	for total := int64(0); total <= maxHashed; {
		n, err := f.Read(buf)
		h.Write(buf[:n])
		total += int64(n)
		if err == io.EOF {
			if total > 4<<20 { // do not push out what others keep in memory
				_ = unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED)
			}
			return nil
		}
		if err != nil {
			return err
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
	return &fs.PathError{Op: "read", Path: f.Name(), Err: errors.New("grows while it is read, beyond " + strconv.Itoa(maxHashed) + " bytes")}
}
