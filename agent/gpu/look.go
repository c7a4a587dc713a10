package gpu

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/hostler/hostler/agent/machine"
	"github.com/hostler/hostler/taskcatalog"
)

// looks is how often what changes under the eye is looked at before it is said to
// be restless.
const looks = 5

var errRestless = errors.New("it changes faster than it can be looked at")

// look is what was found of one process.
type look struct {
	machine *machine.Machine
	nodeOf  func(rdev uint64) string
	pid     int
	nodes   []string
	unseen  string
	queued  bool // a socket of it has files in its queue
	rings   bool // it has an io_uring
}

func (l *look) add(node string) {
	if node != "" && !slices.Contains(l.nodes, node) {
		l.nodes = append(l.nodes, node)
	}
}

// ended is the one failure that means nothing is there.
func ended(err error) bool { return errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ESRCH) }

func (l *look) failed(what string, err error) {
	if err != nil && !ended(err) && l.unseen == "" {
		l.unseen = taskcatalog.Clean(fmt.Sprintf("cannot look at %s: %v", what, err), 300)
	}
}

// process looks at each thread: one may have descriptors of its own, and the first
// may have ended while the others go on.
func (l *look) process(pid int) {
	dir := "/proc/" + strconv.Itoa(pid) + "/task"
	seen, last := map[string]bool{}, ""
	var threads []string
	for range looks {
		names, err := l.machine.Names(dir)
		l.failed(dir, err)
		fresh := false
		for _, tid := range names {
			if seen[tid] {
				continue
			}
			seen[tid], threads = true, append(threads, tid)
			if last == "" || !l.sameFiles(last, tid) {
				last, fresh = tid, true
				l.descriptors(dir + "/" + tid)
			}
		}
		if !fresh {
			l.threadless(threads)
			l.mappings(threads)
			return
		}
	}
	l.failed(dir, errRestless)
}

// threadless tells of one that runs and has no thread.
func (l *look) threadless(threads []string) {
	if p, err := l.machine.Process(l.pid); len(threads) == 0 && err == nil && p.State != "X" {
		l.failed("/proc/"+strconv.Itoa(l.pid)+"/task", errNoThreads)
	}
}

// sameFiles reports whether two threads have one table of descriptors, as all of a
// process that did not ask for another. A kernel that cannot tell costs time only.
func (l *look) sameFiles(a, b string) bool {
	if !l.machine.Live() {
		return false
	}
	const files = 2 // KCMP_FILES
	first, err1 := strconv.Atoi(a)
	second, err2 := strconv.Atoi(b)
	order, _, errno := unix.Syscall6(unix.SYS_KCMP, uintptr(first), uintptr(second), files, 0, 0, 0)
	return err1 == nil && err2 == nil && errno == 0 && order == 0
}

func (l *look) descriptors(thread string) {
	names, err := l.machine.Names(thread + "/fd")
	l.failed(thread+"/fd", err)
	for _, fd := range names {
		name := thread + "/fd/" + fd
		to, err := l.machine.Readlink(name)
		switch {
		case ended(err): // closed
		case err == nil && strings.HasPrefix(to, "socket:"):
			l.socket(thread, fd)
		case err == nil && to == ring:
			l.ring(thread, fd)
		case err == nil && !strings.HasPrefix(to, "/"): // a pipe
		case strings.HasPrefix(to, "/dmabuf:"):
			info, err := l.machine.ReadFile(thread+"/fdinfo/"+fd, 64<<10)
			l.failed(name, err)
			l.add(exported(exporterOf(string(info))))
		default: // also where the path is too long to be told
			l.failed(name, l.device(name))
		}
	}
}

// exported names a dma-buf of a driver of GPUs, of any vendor. Others export what is
// in the host's memory.
func exported(by string) string {
	for _, nodes := range shared {
		if slices.Contains(nodes, DMABuf+by) {
			return DMABuf + by
		}
	}
	return ""
}

// device looks what a link of /proc leads to, without asking its file system: it
// may be a tenant's, which never answers.
func (l *look) device(name string) error {
	st, err := l.machine.StatOpen(name)
	if err == nil && st.Mode&unix.S_IFMT == unix.S_IFCHR {
		l.add(l.nodeOf(unix.Mkdev(st.Rdev_major, st.Rdev_minor)))
	}
	return err
}

// mappings stay when their descriptor is closed. All threads have the same; the
// first that lives tells them.
func (l *look) mappings(threads []string) {
	for _, tid := range threads {
		for n := 1; ; n++ {
			any, moved, err := l.mapped("/proc/" + tid)
			l.failed("/proc/"+tid+"/maps", err)
			if moved && n < looks {
				continue
			}
			if moved {
				l.failed("/proc/"+tid+"/maps", errRestless)
			}
			if any {
				return
			}
			break
		}
	}
}

// mapped goes through the mappings of a thread, however many. Private ones count: a
// library may map a device so. moved: one was not there any more under its name,
// which may have become a part of another's.
func (l *look) mapped(dir string) (any, moved bool, err error) {
	f, err := l.machine.OpenFile(dir + "/maps")
	if err != nil {
		return false, false, err
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 64<<10) // a path of 4 KiB, each byte escaped
	for lines.Scan() {
		any = true
		// address, permissions, offset, device, inode, path
		f := strings.Fields(lines.Text())
		if len(f) >= 6 && f[5] == ring && !l.rings {
			l.failed(dir+"/maps", errRing)
			continue
		}
		if len(f) < 6 || f[4] == "0" {
			continue
		}
		if strings.HasPrefix(f[5], "/dmabuf:") {
			l.add(DMABuf + "mapped")
			continue
		}
		name := dir + "/map_files/" + unpadded(f[0])
		err := l.device(name)
		moved = moved || ended(err)
		l.failed(name, err)
	}
	return any, moved, lines.Err()
}

// unpadded is an address range as map_files names it: maps fills low ones up with
// zeros.
func unpadded(at string) string {
	from, to, _ := strings.Cut(at, "-")
	return strings.TrimLeft(from, "0") + "-" + strings.TrimLeft(to, "0")
}
