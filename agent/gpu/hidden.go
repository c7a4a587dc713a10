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

// A file stays open without a descriptor while it waits in a socket's queue, or while it is
// registered with an io_uring.

const ring = "anon_inode:[io_uring]"

// scanPause is the pause before another look. A process that passes files to another has them in a
// queue for less than the time of all looks.
const scanPause = 50 * time.Millisecond

var (
	errNoThreads = errors.New("the process runs and shows no thread: its directory in /proc is covered")
	errCovered   = errors.New("the kernel lists the process and shows nothing of it: its directory in /proc is covered")
	errQueue     = errors.New("a socket of the process has files in its queue, which cannot be inspected")
	errRing      = errors.New("the process has an io_uring without a descriptor, whose files cannot be inspected")
)

// hidden looks for processes that the kernel lists but did not show.
func (l *processScan) hidden(pid int) {
	dir := "/proc/" + strconv.Itoa(pid)
	_, err := l.machine.Process(pid)
	if err == nil {
		l.process(pid)
		return
	}
	if there, lookErr := l.machine.Has(dir); lookErr == nil && !there {
		return // the process has ended
	}
	if ended(err) {
		err = errCovered
	}
	l.failed(dir, err)
}

// socket records whether a socket has files in its queue.
func (l *processScan) socket(thread, fd string) {
	name := thread + "/fdinfo/" + fd
	info, err := l.machine.ReadFile(name, 64<<10)
	l.failed(name, err)
	for line := range strings.Lines(string(info)) {
		if n, ok := strings.CutPrefix(line, "scm_fds:"); ok && strings.TrimSpace(n) != "0" {
			l.queued = true
		}
	}
}

// waiting looks again at processes with files in a queue. If a process has some at every look, a
// GPU's device file may be among them.
func waiting(all []*processScan) {
	for range maxScans - 1 {
		all = slices.DeleteFunc(slices.Clone(all), func(l *processScan) bool { return !l.queued })
		if len(all) == 0 {
			return
		}
		time.Sleep(scanPause)
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

// ring inspects the files registered with an io_uring. The kernel omits the list while the ring is
// busy.
func (l *processScan) ring(thread, fd string) {
	l.rings = true
	name := thread + "/fdinfo/" + fd
	for n := 1; ; n++ {
		info, err := l.machine.ReadFile(name, 16<<20)
		files, told := registered(string(info))
		if err == nil && !told && n < maxScans {
			time.Sleep(scanPause)
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

// registered parses the files of an io_uring from its fdinfo; told: the list is complete.
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

// named judges a registered file by the path from the kernel. Anything but an absolute path may be
// any file: older kernels give the last part only, and a socket may have files in its queue.
func (l *processScan) named(thread, file string) error {
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
		st.Attributes&unix.STATX_ATTR_MOUNT_ROOT != 0: // something may be mounted over the file
		return fmt.Errorf("%.100q is registered with its io_uring, and something else is there", file)
	}
	return nil
}
