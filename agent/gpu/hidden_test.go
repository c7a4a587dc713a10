package gpu

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/hostler/hostler/agent/machine"
)

// hidings are the ways in which a tenant's process hides a file, by name.
var hidings = map[string]func() error{
	"sent to itself": func() error {
		_, err := sent("/dev/full")
		return err
	},
	"sent and received": func() error {
		to, err := sent("/dev/null")
		if err != nil {
			return err
		}
		_, _, _, _, err = unix.Recvmsg(to, make([]byte, 1), make([]byte, 64), 0)
		return err
	},
	"registered": func() error {
		_, err := register("/dev/full", false)
		return err
	},
	"registered, a file of no device": func() error {
		_, err := register("/proc/self/exe", false)
		return err
	},
	"registered, nothing": func() error {
		_, err := register("", false)
		return err
	},
	"registered, a socket with a queue": func() error {
		to, err := sent("/dev/full")
		if err != nil {
			return err
		}
		_, err = register("/proc/self/fd/"+strconv.Itoa(to), false, to)
		return errors.Join(err, unix.Close(to))
	},
	"registered, under another name": func() error {
		dir, err := os.MkdirTemp("", "hostler-node-")
		if err != nil {
			return err
		}
		name := filepath.Join(dir, "socket:[1]")
		if err := unix.Mknod(name, unix.S_IFCHR|0o600, int(unix.Mkdev(1, 7))); err != nil {
			return err
		}
		if _, err := register(name, false); err != nil {
			return err
		}
		return os.RemoveAll(dir)
	},
	"registered, ring without a descriptor": func() error {
		_, err := register("/dev/full", true)
		return err
	},
}

// sent opens a file and leaves it in the queue of a socket.
func sent(name string) (to int, err error) {
	fd, err := unix.Open(name, unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return 0, err
	}
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	if err != nil {
		return 0, err
	}
	return pair[0], errors.Join(unix.Sendmsg(pair[1], []byte("x"), unix.UnixRights(fd), nil, 0), unix.Close(fd))
}

var errNoRing = errors.New("no io_uring here")

// register makes an io_uring and registers a file, or the given descriptors, with it, and closes
// them. alone: the ring's descriptor is closed as well, and its memory stays mapped.
func register(name string, alone bool, fds ...int) (int, error) {
	var params [120]byte
	r, _, errno := unix.Syscall(unix.SYS_IO_URING_SETUP, 4, uintptr(unsafe.Pointer(&params)), 0)
	if errno != 0 {
		return 0, errors.Join(errNoRing, errno)
	}
	call := func(op uintptr, arg unsafe.Pointer) error {
		if _, _, errno := unix.Syscall6(unix.SYS_IO_URING_REGISTER, r, op, uintptr(arg), 1, 0, 0); errno != 0 {
			return errno
		}
		return nil
	}
	if name != "" {
		if len(fds) == 0 {
			fd, err := unix.Open(name, unix.O_RDONLY|unix.O_CLOEXEC, 0)
			if err != nil {
				return 0, err
			}
			defer unix.Close(fd)
			fds = []int{fd}
		}
		files := []int32{int32(fds[0])}
		if err := call(2, unsafe.Pointer(&files[0])); err != nil { // IORING_REGISTER_FILES
			return 0, err
		}
	}
	if !alone {
		return int(r), nil
	}
	if _, err := unix.Mmap(int(r), 0, 4096, unix.PROT_READ, unix.MAP_SHARED); err != nil {
		return 0, err
	}
	update := struct {
		offset, resv uint32
		data         uint64
	}{^uint32(0), 0, uint64(r)}
	if err := call(20, unsafe.Pointer(&update)); err != nil { // IORING_REGISTER_RING_FDS
		return 0, errors.Join(errNoRing, err)
	}
	return int(r), unix.Close(int(r))
}

func TestAFileThatIsOpenWithoutADescriptorIsNotOverlooked(t *testing.T) {
	m, err := machine.Open("/")
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	for how, want := range map[string]struct{ node, unseen string }{
		"sent to itself":                        {"", "queue"},
		"sent and received":                     {},
		"registered":                            {"/dev/nvidia0", "registered"},
		"registered, a file of no device":       {"", ""},
		"registered, nothing":                   {},
		"registered, a socket with a queue":     {"", "registered"},
		"registered, under another name":        {"", "registered"},
		"registered, ring without a descriptor": {"", "io_uring without a descriptor"},
	} {
		t.Run(how, func(t *testing.T) {
			if strings.HasPrefix(how, "registered") {
				if _, err := register("", false); errors.Is(err, errNoRing) {
					t.Skip(err)
				}
			}
			if how == "registered, under another name" && os.Getuid() != 0 {
				t.Skip("only root makes device files")
			}
			pid := holds(t, m, how)
			all, err := openers(m, devices)
			if err != nil {
				t.Fatal(err)
			}
			i := slices.IndexFunc(all, func(o Opener) bool { return o.PID == pid })
			switch {
			case want.node == "" && want.unseen == "":
				if i >= 0 {
					t.Errorf("an innocent process: %+v", all[i])
				}
			case i < 0:
				t.Errorf("process %d is not among %+v", pid, all)
			case want.node != "" && slices.Equal(all[i].Nodes, []string{want.node}):
			case want.unseen == "" || !strings.Contains(all[i].Unseen, want.unseen):
				t.Errorf("%+v", all[i])
			}
		})
	}
}

// An innocent process that takes received files out of its queue does not count as unseen.
func TestAQueueThatIsEmptiedHidesNothing(t *testing.T) {
	root := t.TempDir()
	dir := root + "/proc/42"
	info := dir + "/task/42/fdinfo/3"
	if err := errors.Join(process42(dir), os.Symlink("socket:[7]", dir+"/task/42/fd/3"), os.WriteFile(info, []byte("pos:\t0\nscm_fds: 2\n"), 0o644)); err != nil {
		t.Fatal(err)
	}
	m, err := machine.Open(root)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	for _, now := range []string{"scm_fds: 2\n", "scm_fds: 0\n"} {
		l := &processScan{machine: m, nodeOf: devices, pid: 42}
		l.process(42)
		if !l.queued {
			t.Fatal("no queue was seen")
		}
		if err := os.WriteFile(info, []byte("pos:\t0\n"+now), 0o644); err != nil {
			t.Fatal(err)
		}
		waiting([]*processScan{l})
		if (l.unseen != "") != (now == "scm_fds: 2\n") {
			t.Errorf("%s: %q", now, l.unseen)
		}
	}
}

func TestTheFilesOfAnIOURingAreReadOrNotTold(t *testing.T) {
	for name, c := range map[string]struct {
		fdinfo string
		files  []string
		told   bool
	}{
		"by their paths":         {"SQEs:\t0\nUserFiles:\t3\n    0: /dev/full\n    2: socket:[3]\nUserBufs:\t0\n", []string{"/dev/full", "socket:[3]"}, true},
		"by their names alone":   {"UserFiles:\t2\n    0: nvidia0\n    1: <none>\nUserBufs:\t0\n", []string{"nvidia0"}, true},
		"none":                   {"UserFiles:\t0\nUserBufs:\t0\n", nil, true},
		"the kernel was at work": {"UserFiles:\t2\nUserBufs:\t0\n", nil, false},
		"nothing is told":        {"pos:\t0\nflags:\t02\n", nil, false},
		"no number":              {"UserFiles:\tx\n", nil, false},
	} {
		if files, told := registered(c.fdinfo); !slices.Equal(files, c.files) || told != c.told {
			t.Errorf("%s: %q, %t", name, files, told)
		}
	}
}

func process42(dir string) error {
	return errors.Join(os.MkdirAll(dir+"/task/42/fd", 0o755), os.MkdirAll(dir+"/task/42/fdinfo", 0o755), os.MkdirAll(dir+"/map_files", 0o755),
		os.WriteFile(dir+"/stat", []byte("42 (tenant) S 1 42 42 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 98765 1 2 3"), 0o644),
		os.WriteFile(dir+"/status", []byte("Uid:\t1000\t1000\t1000\t1000\n"), 0o644))
}

// A process with root may mount an empty folder over its files in /proc.
func TestAProcessThatIsCoveredIsNotOverlooked(t *testing.T) {
	for _, covered := range []string{"", "/task", "/task/PID/fd"} {
		t.Run("/proc/PID"+covered, func(t *testing.T) {
			if covered == "/task/PID/fd" && os.Getuid() != 0 {
				t.Skip("only root may mount the kernel's file systems, and see what is below")
			}
			cmd := exec.CommandContext(t.Context(), "/proc/self/exe", HolderWord, "covered "+covered)
			cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNS}
			if os.Getuid() != 0 {
				cmd.SysProcAttr.Cloneflags |= unix.CLONE_NEWUSER
				cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}}
			}
			out, err := cmd.CombinedOutput()
			if errors.Is(err, unix.EPERM) || errors.Is(err, unix.EACCES) || errors.Is(err, unix.ENOSPC) {
				t.Skipf("no mount namespace: %v", err)
			}
			if err != nil || !strings.Contains(string(out), "not overlooked") {
				t.Errorf("%v: %s", err, out)
			}
		})
	}
}

// seesCovered starts a holder, covers it and looks, in a mount namespace of its own.
func seesCovered(what string) {
	if err := covered(what); err != nil {
		println(err.Error())
		os.Exit(1)
	}
	println("not overlooked")
	os.Exit(0)
}

func covered(what string) error {
	cmd := exec.Command("/proc/self/exe", HolderWord, "open")
	in, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	defer func() { _, _ = cmd.Process.Kill(), cmd.Wait() }()
	if _, err := out.Read(make([]byte, 6)); err != nil {
		return err
	}
	empty, err := os.MkdirTemp("", "hostler-empty-")
	if err != nil {
		return err
	}
	defer os.Remove(empty)
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return err
	}
	pid := strconv.Itoa(cmd.Process.Pid)
	if err := unix.Mount(empty, "/proc/"+pid+strings.Replace(what, "PID", pid, 1), "", unix.MS_BIND, ""); err != nil {
		return err
	}
	m, err := machine.Open("/")
	if err != nil {
		return err
	}
	defer m.Close()
	all, err := openers(m, devices)
	if err != nil {
		return err
	}
	for _, o := range all {
		if o.PID == cmd.Process.Pid && (o.Unseen != "" || slices.Equal(o.Nodes, []string{"/dev/nvidia0"})) {
			return nil
		}
	}
	return errors.New("the holder is overlooked")
}
