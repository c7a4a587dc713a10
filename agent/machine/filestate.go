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
	"runtime"
	"strconv"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/hostler/hostler/taskcatalog/lazyregexp"
)

// FileQuery asks for the state of a system file.
type FileQuery struct {
	Path string
	MD5  string // where set, the query asks only whether the content has this sum
	// Without, where set, matches a beginning of the content to leave out of the digest.
	Without *lazyregexp.Regexp
}

// FileState is the state of a file. It never holds any of the content.
type FileState struct {
	Digest string // of the content; for a path that is no regular file, the kind of file
	Mode   uint32 // permission bits with set-uid, set-gid and sticky
	UID    uint32
	As     bool // the content has the MD5 sum of the query
}

// Digests of a path that is not read as a regular file.
const (
	FileMissing = "missing"
	FileLink    = "link:"
	// fileBig marks a file too large to read each time: its size and the time of its last change,
	// which only a process that sets the clock can choose.
	fileBig = "big:"
)

// IsContent reports whether a digest is of a regular file's content.
func IsContent(digest string) bool {
	sum, err := hex.DecodeString(digest)
	return err == nil && len(sum) == 16
}

// maxHashed is the size in bytes of the largest file that is read to its end: a sparse file of
// petabytes costs a tenant nothing.
const maxHashed = 4 << 30

// FileStates answers queries in any order, several at a time and at low priority. A file that
// cannot be read ends FileStates with an error: an incomplete look does not count as a look.
func (m *Machine) FileStates(ctx context.Context, queries iter.Seq[FileQuery], answer func(FileQuery, FileState)) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	in := make(chan FileQuery)
	var mu sync.Mutex
	var workers sync.WaitGroup
	// One processor of the Go runtime stays idle. If all are busy, the runtime takes a processor
	// away from each thread that waits for the disk, at several times the cost of reading a file.
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

// background gives the calling goroutine a thread of its own with low CPU and I/O priority. The
// thread is never unlocked and ends with the goroutine.
func background() {
	runtime.LockOSThread()
	const class, idle, who = 13, 3, 1 // IOPRIO_CLASS_SHIFT, IOPRIO_CLASS_IDLE, IOPRIO_WHO_PROCESS
	_ = unix.Setpriority(unix.PRIO_PROCESS, unix.Gettid(), 15)
	_, _, _ = unix.Syscall(unix.SYS_IOPRIO_SET, who, 0, idle<<class)
}

// fileState looks at one path. Directories above may be links within the root, as /bin is; the last
// component is never followed.
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

// head hashes the beginning of a file, except for the part that without matches.
func head(h hash.Hash, f *os.File, without *lazyregexp.Regexp, buf []byte) error {
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

// copyBounded hashes a file that may grow during the read.
func copyBounded(ctx context.Context, h hash.Hash, f *os.File, buf []byte) error {
	for total := int64(0); total <= maxHashed; {
		n, err := f.Read(buf)
		h.Write(buf[:n])
		total += int64(n)
		if err == io.EOF {
			if total > 4<<20 { // spare the cached files of other processes
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
	return &fs.PathError{
		Op: "read", Path: f.Name(),
		Err: errors.New("grows while it is read, beyond " + strconv.Itoa(maxHashed) + " bytes"),
	}
}
