package hosttest

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path"
	"strconv"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// This test binary also plays a tenant's processes, within a jail. A nest is a process of root: it
// starts the tenant's processes and adopts orphans, as init does. All of them hold one end of a
// pipe open. The pipe tells the nest, without a list, whether any is alive.
const AttackWord = "hostler-test-attack"

const (
	AttackerUID  = 20077
	BystanderUID = 20088
	lentUID      = 165540 // lent to the attacker, for containers
)

func init() {
	if path.Base(os.Args[0]) == "groupdel" {
		os.Exit(6) // there is no such group
	}
	if len(os.Args) < 3 || os.Args[1] != AttackWord {
		return
	}
	if os.Args[2] == "nest" {
		nest(os.Args[3:])
	}
	if _, err := os.NewFile(3, "alive").WriteString("x"); err != nil {
		os.Exit(1)
	}
	attack(os.Args[2])
}

// attack is a process of a tenant.
func attack(how string) {
	signal.Ignore(unix.SIGTERM, unix.SIGHUP, unix.SIGINT)
	fork := func() bool {
		pid, _, errno := unix.RawSyscall6(unix.SYS_CLONE, uintptr(unix.SIGCHLD), 0, 0, 0, 0, 0)
		return errno == 0 && pid != 0
	}
	switch how {
	case "borrower": // the user by its effective id alone
		if unix.Setresuid(BystanderUID, AttackerUID, BystanderUID) != nil {
			os.Exit(1)
		}
	case "flee", "flee under a lent uid":
		_ = unix.Exec(fleeing, []string{"x"}, nil)
	case "bomb": // a bounded bomb
		for range 6 {
			fork()
		}
		for {
			unix.RawSyscall(unix.SYS_PAUSE, 0, 0, 0)
		}
	case "killer": // kills every process that it may
		for {
			unix.RawSyscall(unix.SYS_KILL, ^uintptr(0), uintptr(unix.SIGKILL), 0)
		}
	}
	select {}
}

// fleeing is a program that forks and ends at once, again and again. It is as small as possible: a
// large program takes so long to fork that a list shows it.
const fleeing = "/fleeing"

// program builds an ELF program for amd64 with nothing but code.
func program(code []byte) []byte {
	const base, head = 0x400000, 64 + 56
	raw := append([]byte("\x7fELF\x02\x01\x01"), make([]byte, 9)...)
	le := binary.LittleEndian
	raw = le.AppendUint16(raw, 2)  // an executable
	raw = le.AppendUint16(raw, 62) // for amd64
	raw = le.AppendUint32(raw, 1)
	for _, v := range []uint64{base + head, 64, 0} { // entry, program headers, no sections
		raw = le.AppendUint64(raw, v)
	}
	raw = le.AppendUint32(raw, 0)
	for _, v := range []uint16{64, 56, 1, 0, 0, 0} {
		raw = le.AppendUint16(raw, v)
	}
	raw = le.AppendUint32(raw, 1) // loaded
	raw = le.AppendUint32(raw, 5) // readable, executable
	size := uint64(head + len(code))
	for _, v := range []uint64{0, base, base, size, size, 0x1000} {
		raw = le.AppendUint64(raw, v)
	}
	return append(raw, code...)
}

// fleeingCode: again: fork(); the child goes on at again, the parent calls _exit(0).
var fleeingCode = []byte{
	0xb8, 57, 0, 0, 0, 0x0f, 0x05, // mov eax, 57; syscall
	0x85, 0xc0, 0x7e, 0xf5, // test eax, eax; jle again
	0xb8, 60, 0, 0, 0, 0x31, 0xff, 0x0f, 0x05, // mov eax, 60; xor edi, edi; syscall
}

// nest starts the attackers named in its arguments, and answers each line on stdin with their
// state.
func nest(args []string) {
	must := func(err error) {
		if err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
	}
	must(unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0))
	signal.Ignore(unix.SIGCHLD)
	r, w, err := os.Pipe()
	must(err)
	how, while := args[0], args[2]
	count, err := strconv.Atoi(args[1])
	must(err)
	lent := uint32(0)
	start := func() {
		credential := &syscall.Credential{Uid: AttackerUID, Gid: AttackerUID}
		if how == "container" || how == "flee under a lent uid" {
			credential.Uid = lentUID + lent
			lent++
		}
		if how == "borrower" {
			credential = nil
		}
		if how == "groups" {
			for i := range 10_000 {
				credential.Groups = append(credential.Groups, uint32(1_000_000+i))
			}
		}
		p, err := os.StartProcess("/proc/self/exe", []string{"x", AttackWord, how}, &os.ProcAttr{
			Files: []*os.File{nil, nil, nil, w}, Sys: &syscall.SysProcAttr{Credential: credential, Setsid: true},
		})
		must(err)
		must(p.Release())
	}
	for range count {
		start()
	}
	_, err = io.ReadFull(r, make([]byte, count))
	must(err)
	fmt.Println("ready")
	if while != "" { // as cron, atd or a user's manager do while the file exists
		go func() {
			for range time.Tick(20 * time.Millisecond) {
				if _, err := os.Lstat(while); err == nil {
					start()
				}
			}
		}()
	} else {
		must(w.Close())
	}
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		if while != "" {
			_ = w.Close()
		}
		poll := []unix.PollFd{{Fd: int32(r.Fd()), Events: unix.POLLIN}}
		for {
			_, err := unix.Poll(poll, 0)
			if !errors.Is(err, unix.EINTR) {
				break
			}
		}
		if poll[0].Revents&unix.POLLIN != 0 {
			_, _ = r.Read(make([]byte, 1<<16))
			_, _ = unix.Poll(poll, 0)
		}
		if poll[0].Revents&unix.POLLHUP != 0 {
			fmt.Println("all are dead")
		} else {
			fmt.Println("some are alive")
		}
	}
	os.Exit(0)
}

// Infest starts a nest in a jail and waits until its attackers run. ask returns their state.
func Infest(t *testing.T, how string, count int, while string) (ask func() string) {
	t.Helper()
	cmd := exec.Command("/proc/self/exe", AttackWord, "nest", how, strconv.Itoa(count), while)
	in, err := cmd.StdinPipe()
	OK(t, err)
	out, err := cmd.StdoutPipe()
	OK(t, err)
	OK(t, cmd.Start())
	t.Cleanup(func() { _, _ = cmd.Process.Kill(), cmd.Wait() })
	lines := bufio.NewScanner(out)
	next := func() string {
		if !lines.Scan() {
			t.Fatalf("the nest ended: %v", lines.Err())
		}
		return lines.Text()
	}
	if said := next(); said != "ready" {
		t.Fatalf("the nest says %q", said)
	}
	return func() string {
		_, err := io.WriteString(in, "?\n")
		OK(t, err)
		return next()
	}
}
