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

// maxScans is how many looks a changing process gets before it counts as unstable.
const maxScans = 5

var errUnstable = errors.New("the process changes faster than the agent can read it")

// processScan is the findings about a process.
type processScan struct {
	machine *machine.Machine
	nodeOf  func(rdev uint64) string
	pid     int
	nodes   []string
	unseen  string
	queued  bool // one of its sockets has files in its queue
	rings   bool // the process has an io_uring
}

func (l *processScan) add(node string) {
	if node != "" && !slices.Contains(l.nodes, node) {
		l.nodes = append(l.nodes, node)
	}
}

// ended reports whether err means that the process or file is gone.
func ended(err error) bool { return errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ESRCH) }

func (l *processScan) failed(what string, err error) {
	if err != nil && !ended(err) && l.unseen == "" {
		l.unseen = taskcatalog.Clean(fmt.Sprintf("cannot look at %s: %v", what, err), 300)
	}
}

// process inspects each thread: a thread may have descriptors of its own, and the first thread may
// have ended while the others run on.
func (l *processScan) process(pid int) {
	dir := "/proc/" + strconv.Itoa(pid) + "/task"
	seen, last := map[string]bool{}, ""
	var threads []string
	for range maxScans {
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
	l.failed(dir, errUnstable)
}

// threadless records a running process that shows no thread.
func (l *processScan) threadless(threads []string) {
	if p, err := l.machine.Process(l.pid); len(threads) == 0 && err == nil && p.State != "X" {
		l.failed("/proc/"+strconv.Itoa(l.pid)+"/task", errNoThreads)
	}
}

// sameFiles reports whether two threads share a descriptor table, as the threads of most processes
// do. A kernel without this call costs only time.
func (l *processScan) sameFiles(a, b string) bool {
	if !l.machine.Live() {
		return false
	}
	const files = 2 // KCMP_FILES
	first, err1 := strconv.Atoi(a)
	second, err2 := strconv.Atoi(b)
	order, _, errno := unix.Syscall6(unix.SYS_KCMP, uintptr(first), uintptr(second), files, 0, 0, 0)
	return err1 == nil && err2 == nil && errno == 0 && order == 0
}

func (l *processScan) descriptors(thread string) {
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
		default: // also if the path is too long to read
			l.failed(name, l.device(name))
		}
	}
}

// exported names a dma-buf exported by a GPU driver of any vendor. Other dma-bufs are in the host's
// memory.
func exported(by string) string {
	for _, nodes := range shared {
		if slices.Contains(nodes, DMABuf+by) {
			return DMABuf + by
		}
	}
	return ""
}

// device inspects the target of a /proc link without asking its file system, which may be a
// tenant's and never answer.
func (l *processScan) device(name string) error {
	st, err := l.machine.StatOpen(name)
	if err == nil && st.Mode&unix.S_IFMT == unix.S_IFCHR {
		l.add(l.nodeOf(unix.Mkdev(st.Rdev_major, st.Rdev_minor)))
	}
	return err
}

// mappings inspects mappings, which stay when their descriptor is closed. All threads share them,
// so the first living thread suffices.
func (l *processScan) mappings(threads []string) {
	for _, tid := range threads {
		for n := 1; ; n++ {
			any, moved, err := l.mapped("/proc/" + tid)
			l.failed("/proc/"+tid+"/maps", err)
			if moved && n < maxScans {
				continue
			}
			if moved {
				l.failed("/proc/"+tid+"/maps", errUnstable)
			}
			if any {
				return
			}
			break
		}
	}
}

// mapped reads all mappings of a thread. Private mappings count, because a library may map a device
// this way. moved: a mapping was gone from its address range; it may have been merged with another.
func (l *processScan) mapped(dir string) (any, moved bool, err error) {
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

// unpadded returns an address range as map_files writes it: maps pads low addresses with zeros.
func unpadded(at string) string {
	from, to, _ := strings.Cut(at, "-")
	return strings.TrimLeft(from, "0") + "-" + strings.TrimLeft(to, "0")
}
