package machine

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestAProcessNameMayHoldAnything(t *testing.T) {
	const rest = " S 1 4241 4240 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 3 0 98765 1 2 3"
	for _, name := range []string{"bash", "a) S 1 (b", "two\nlines", "\x1b[31mred", ") D 9 9"} {
		p, err := parseProcStat([]byte("4242 (" + name + ")" + rest))
		if err != nil || p.Name != name || p.PID != 4242 || p.PPID != 1 || p.Group != 4241 || p.Session != 4240 || p.State != "S" || p.Threads != 3 || p.Start != 98765 || p.Kernel {
			t.Errorf("%q: %+v, %v", name, p, err)
		}
	}
	going, err := parseProcStat([]byte("4242 (x) X 0 -1 -1 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 0 0 98765 1 2 3"))
	if err != nil || going.Group != -1 || going.Session != -1 {
		t.Errorf("one that is just going: %+v, %v", going, err)
	}
	kernel, err := parseProcStat([]byte("2 (kthreadd) S 0 0 0 0 -1 2129984 0 0 0 0 0 0 0 0 20 0 1 0 3 0 0 1"))
	if err != nil || !kernel.Kernel {
		t.Errorf("a kernel thread: %+v, %v", kernel, err)
	}
	for _, bad := range []string{"", "1", "x (a) S 1", "1 (a) SS 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20", "1 (a) S one 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20"} {
		if p, err := parseProcStat([]byte(bad)); err == nil {
			t.Errorf("%q was taken for %+v", bad, p)
		}
	}
}

func TestAZombieWithAThreadThatGoesOnHasNotEnded(t *testing.T) {
	for _, c := range []struct {
		p    Process
		want bool
	}{
		{Process{State: "Z", Threads: 1}, true},
		{Process{State: "Z"}, true},
		{Process{State: "Z", Threads: 2}, false},
		{Process{State: "X", Threads: 2}, true},
		{Process{State: "D", Threads: 1}, false},
	} {
		if got := c.p.Ended(); got != c.want {
			t.Errorf("%+v: ended %v", c.p, got)
		}
	}
}

func FuzzProcStat(f *testing.F) {
	f.Add([]byte("2 (kthreadd) S 0 0 0 0 -1 2129984 0 0 0 0 0 0 0 0 20 0 1 0 3 0 0 1"))
	f.Add([]byte("7 (a) b) R 1 2"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		if p, err := parseProcStat(raw); err == nil && !strings.Contains(string(raw), p.Name) {
			t.Errorf("the name %q came from nowhere", p.Name)
		}
	})
}

func TestSystemVTablesAreReadByTheNamesOfTheirColumns(t *testing.T) {
	const shm = `       key      shmid perms                  size  cpid  lpid nattch   uid   gid  cuid  cgid      atime      dtime      ctime                   rss                  swap
         0     163840  1600                524288  1733  1733      2  1000  1000     0     0 1700000001 1700000002 1700000000                  4096                     0
`
	list := func(shm string) ([]IPC, error) {
		m, dir := newMachine(t)
		for name, text := range map[string]string{"shm": shm, "sem": "key semid uid cuid\n", "msg": "key msqid cbytes uid cuid\n"} {
			write(t, filepath.Join(dir, "proc/sysvipc", name), text)
		}
		return m.SysVIPC()
	}
	got, err := list(shm)
	if err != nil || len(got) != 1 || got[0] != (IPC{Kind: "shm", ID: 163840, UID: 1000, CUID: 0, Bytes: 524288}) {
		t.Errorf("got %+v, %v", got, err)
	}
	for _, bad := range []string{"", "key semid\n1 2\n", strings.Replace(shm, "163840", "many", 1)} {
		if got, err := list(bad); err == nil {
			t.Errorf("%q was taken for %+v", bad, got)
		}
	}
}

// The processes here are the test's own children.
func TestAProcessThatIgnoresSIGTERMIsKilledAfterTheGrace(t *testing.T) {
	m, err := Open("/")
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	children := map[int]bool{}
	for _, argv := range [][]string{{"sleep", "1000"}, {"bash", "-c", `trap "" TERM; echo ready; while :; do read -t 1000; done`}} {
		cmd := exec.Command(argv[0], argv[1:]...)
		in, err := cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		defer in.Close()
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		if argv[0] == "bash" {
			if _, err := out.Read(make([]byte, 6)); err != nil {
				t.Fatal(err)
			}
		}
		children[cmd.Process.Pid] = true
		ended := make(chan struct{})
		go func() { cmd.Wait(); close(ended) }()
		t.Cleanup(func() { cmd.Process.Kill(); <-ended })
	}
	mine := func(p Process) bool { return children[p.PID] }
	stopped, left, err := m.StopProcesses(t.Context(), mine, 200*time.Millisecond, nil)
	if err != nil || stopped != 2 || len(left) != 0 {
		t.Errorf("stopped %d, left %+v, %v", stopped, left, err)
	}
}

// respawning is a fixture of /proc with one process of a user. The process is started again
// whenever it was killed. Its pid is larger than any pid of a kernel.
type respawning struct {
	t   *testing.T
	dir string
	m   *Machine
}

const respawningPID = 1 << 22

func newRespawning(t *testing.T) *respawning {
	r := &respawning{t: t, dir: t.TempDir()}
	r.start()
	m, err := Open(r.dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	r.m = m
	return r
}

func (r *respawning) start() {
	proc := filepath.Join(r.dir, "proc", strconv.Itoa(respawningPID))
	err := errors.Join(os.MkdirAll(proc, 0o755),
		os.WriteFile(filepath.Join(proc, "stat"), fmt.Appendf(nil, "%d (x) S 1%s 100\n", respawningPID, strings.Repeat(" 0", 17)), 0o644),
		os.WriteFile(filepath.Join(proc, "status"), []byte("Name:\tx\nUid:\t5000\t5000\t5000\t5000\n"), 0o644))
	if err != nil {
		r.t.Fatal(err)
	}
}

func (r *respawning) end() {
	if err := os.RemoveAll(filepath.Join(r.dir, "proc", strconv.Itoa(respawningPID))); err != nil {
		r.t.Fatal(err)
	}
}

// A process started again between a kill and the next look is seen by the next look. Several looks
// in a row without a process prove that no process comes back.
func TestWhoeverComesBackBetweenTwoKillsIsSeen(t *testing.T) {
	r := newRespawning(t)
	restarts, kills, listed := 0, 0, 0
	kill := func(left []Process) error {
		kills, listed = kills+1, listed+len(left)
		r.end()
		return nil
	}
	now := make(chan time.Time)
	close(now)
	next := func() <-chan time.Time {
		if kills > 0 && restarts < 5 {
			restarts++
			r.start()
		}
		return now
	}
	_, left, err := r.m.stopProcesses(t.Context(), func(p Process) bool { return p.Has(5000) }, 0, kill, next)
	if err != nil || len(left) > 0 {
		t.Errorf("left %+v, %v", left, err)
	}
	// The first look and the looks after each restart, then the looks that found no process.
	if restarts != 5 || listed != 6 || kills != 6+quietLooks {
		t.Errorf("it came back %d times, and was found by %d of %d looks", restarts, listed, kills)
	}
}

// kill reads a process's state before the process is signalled: a killed process has no cgroup to
// read.
func TestAKillThatNeedsNoListComesBeforeTheSignals(t *testing.T) {
	m, err := Open("/")
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	cmd := exec.Command("bash", "-c", `trap "" TERM; echo ready; read`)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := out.Read(make([]byte, 6)); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() { _ = cmd.Wait(); close(ended) }()
	t.Cleanup(func() { _ = cmd.Process.Kill(); <-ended })
	alive := false
	_, left, err := m.StopProcesses(t.Context(), func(p Process) bool { return p.PID == cmd.Process.Pid }, 0, func(left []Process) error {
		if len(left) > 0 {
			select {
			case <-ended: // the process was signalled already
			case <-time.After(100 * time.Millisecond):
				alive = true
			}
		}
		return nil
	})
	if err != nil || len(left) > 0 || !alive {
		t.Errorf("it was alive when it was to be killed: %v; left %+v, %v", alive, left, err)
	}
}

func TestASignalNeverReachesAPIDThatWasGivenAnew(t *testing.T) {
	m, err := Open("/")
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	cmd := exec.Command("bash", "-c", `trap "echo wrong" USR1; trap "echo right; exit" USR2; echo ready; while :; do read -t 1000; done`)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { cmd.Process.Kill(); cmd.Wait() }()
	said := bufio.NewScanner(out)
	said.Scan() // ready
	p, err := m.process(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	earlier := p
	earlier.Start-- // the pid belonged to an earlier process
	for _, s := range []struct {
		to  Process
		sig unix.Signal
	}{{earlier, unix.SIGUSR1}, {p, unix.SIGUSR2}} {
		if err := m.signal(s.to, s.sig); err != nil {
			t.Fatal(err)
		}
	}
	if said.Scan(); said.Text() != "right" {
		t.Errorf("the first signal that arrived was the %s one", said.Text())
	}
}

// A user with root may remount the file system of their files read-only.
func TestLocalMountsLeaveOutWhatIsRemoteOrTheKernelsAndNotWhatIsReadOnly(t *testing.T) {
	const text = `22 1 254:1 / / rw,relatime shared:1 - ext4 /dev/vda1 rw
23 22 0:5 / /proc rw - proc proc rw
24 22 0:20 / /dev/shm rw,nosuid - tmpfs tmpfs rw
25 22 0:50 / /mnt/nfs rw - nfs4 server:/export rw
26 22 254:2 / /mnt/ro ro,relatime - ext4 /dev/vdb rw
27 22 254:3 / /mnt/ro2 rw,relatime - ext4 /dev/vdc ro
28 22 0:60 / /mnt/two\040words rw - xfs /dev/vdd rw
29 22 7:0 / /snap/core/1 ro,nodev - squashfs /dev/loop0 ro
30 22 11:0 / /media/cd ro - iso9660 /dev/sr0 ro
`
	m, dir := newMachine(t)
	write(t, filepath.Join(dir, "proc/self/mountinfo"), text)
	got, err := m.LocalMounts()
	if err != nil || strings.Join(got, "|") != "/|/dev/shm|/mnt/ro|/mnt/ro2|/mnt/two words" {
		t.Errorf("got %q, %v", got, err)
	}
}

func TestALineOfPasswdThatIsNoAccountIsAnError(t *testing.T) {
	users, err := parsePasswd("root:x:0:0:root:/root:/bin/bash\n\nalice:x:20001:20001::/home/alice:/bin/bash\n")
	if err != nil || len(users) != 2 || users[1] != (User{"alice", 20001, 20001, "/home/alice", "/bin/bash"}) {
		t.Errorf("got %+v, %v", users, err)
	}
	for _, bad := range []string{"toor:x:0:0", ":x:0:0:::/bin/sh", "a:x:-1:0:::", "a:x:4294967296:0:::"} {
		if users, err := parsePasswd(bad); err == nil {
			t.Errorf("%q was taken for %+v", bad, users)
		}
	}
}
