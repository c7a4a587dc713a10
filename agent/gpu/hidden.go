package gpu

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// A file stays open without a descriptor where it waits in a socket's queue, and
// where it is registered with an io_uring.

const ring = "anon_inode:[io_uring]"

// again is how long to wait before something is looked at once more: what passes
// files between processes has them in its queue for less than all the looks take.
const again = 50 * time.Millisecond

var (
	errNoThreads = errors.New("it runs, and shows no thread: something covers it")
	errCovered   = errors.New("the kernel lists it and shows nothing of it: something covers it")
	errQueue     = errors.New("a socket of it has files in its queue, which nobody can look at")
	errRing      = errors.New("it has an io_uring without a descriptor, whose files nobody can look at")
)

// hidden finds the processes that the kernel lists and that it did not show.
func (l *look) hidden(pid int) {
	dir := "/proc/" + strconv.Itoa(pid)
	_, err := l.machine.Process(pid)
	if err == nil {
		l.process(pid)
		return
	}
	if there, lookErr := l.machine.Has(dir); lookErr == nil && !there {
		return // it has ended
	}
	if ended(err) {
		err = errCovered
	}
	l.failed(dir, err)
}

// socket notes one with files in its queue.
func (l *look) socket(thread, fd string) {
	name := thread + "/fdinfo/" + fd
	info, err := l.machine.ReadFile(name, 64<<10)
	l.failed(name, err)
	for line := range strings.Lines(string(info)) {
		if n, ok := strings.CutPrefix(line, "scm_fds:"); ok && strings.TrimSpace(n) != "0" {
			l.queued = true
		}
	}
}

// waiting looks again at those that had files in a queue. Who has some at every look
// may have a GPU's among them.
func waiting(all []*look) {
	for range looks - 1 {
		all = slices.DeleteFunc(slices.Clone(all), func(l *look) bool { return !l.queued })
		if len(all) == 0 {
			return
		}
		time.Sleep(again)
		for _, l := range all {
			l.queued = false
			l.process(l.pid)
		}
	}
	for _, l := range all {
		if l.queued {
			l.failed("/proc/"+strconv.Itoa(l.pid)+"/fdinfo", errQueue)
		}
	}
}

// ring looks at the files that are registered with an io_uring. The kernel leaves
// them out while it is at work for the ring.
func (l *look) ring(thread, fd string) {
	l.rings = true
	name := thread + "/fdinfo/" + fd
	for n := 1; ; n++ {
		info, err := l.machine.ReadFile(name, 16<<20)
		files, told := registered(string(info))
		if err == nil && !told && n < looks {
			time.Sleep(again)
			continue
		}
		l.failed(name, err)
		if err == nil && !told {
			l.failed(name, errors.New("the kernel does not say which files are registered with its io_uring"))
		}
		for _, file := range files {
			l.failed(name, l.named(thread, file))
		}
		return
	}
}

// registered reads the files of an io_uring from its fdinfo; told: all are there.
func registered(fdinfo string) (files []string, told bool) {
	count := -1
	for line := range strings.Lines(fdinfo) {
		line = strings.TrimSuffix(line, "\n")
		if n, ok := strings.CutPrefix(line, "UserFiles:"); ok && count < 0 {
			var err error
			if count, err = strconv.Atoi(strings.TrimSpace(n)); err != nil || count < 0 {
				return nil, false
			}
			continue
		}
		if count < 0 {
			continue
		}
		slot, file, ok := strings.Cut(line, ": ")
		if _, err := strconv.Atoi(strings.TrimSpace(slot)); !ok || err != nil || !strings.HasPrefix(line, " ") {
			break
		}
		told = true
		if file != "<none>" {
			files = append(files, file)
		}
	}
	return files, told || count == 0
}

// named judges a registered file by the path that the kernel gives it. One that is
// no path from the root may be anything: older kernels tell the last part only, and
// a socket may have files in its queue.
func (l *look) named(thread, file string) error {
	if !strings.HasPrefix(file, "/") || strings.Contains(file, `\`) {
		return fmt.Errorf("%.100q is registered with its io_uring, and may be any file", file)
	}
	st, err := l.machine.StatIn(thread+"/root", file)
	switch {
	case err != nil:
		return fmt.Errorf("cannot look at %.100q, which is registered with its io_uring: %v", file, err)
	case st.Mode&unix.S_IFMT == unix.S_IFCHR:
		l.add(l.nodeOf(unix.Mkdev(st.Rdev_major, st.Rdev_minor)))
	case st.Mode&unix.S_IFMT != unix.S_IFREG && st.Mode&unix.S_IFMT != unix.S_IFBLK,
		st.Attributes&unix.STATX_ATTR_MOUNT_ROOT != 0: // what is mounted over it is looked at in its place
		return fmt.Errorf("%.100q is registered with its io_uring, and something else is there", file)
	}
	return nil
}
