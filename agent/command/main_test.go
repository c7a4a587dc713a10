package command

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hostler/hostler/resolver-profiles"
)

// The test binary is also every program run by the tests: copied into a root directory, its
// arguments select the behaviour.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "be" {
		be(os.Args[2], os.Args[3:])
		syscall.Exit(0) // os.Exit waits a second under the race detector
	}
	os.Exit(m.Run())
}

func be(what string, args []string) {
	switch what {
	case "args":
		fmt.Printf("%q\n", append(os.Args[:1:1], args...))
	case "environment":
		fmt.Println(strings.Join(os.Environ(), "\n"))
	case "who":
		groups, _ := os.Getgroups()
		sid, _, _ := syscall.RawSyscall(syscall.SYS_GETSID, 0, 0, 0)
		dir, _ := os.Getwd()
		fmt.Println(os.Getuid(), os.Getgid(), groups, dir, int(sid) == os.Getpid())
	case "files":
		names, _ := filepath.Glob("/proc/self/fd/*")
		for _, name := range names {
			to, _ := os.Readlink(name)
			fmt.Println(to)
		}
	case "fail":
		fmt.Println("on stdout")
		fmt.Fprintln(os.Stderr, "it broke\x1b[2J")
		syscall.Exit(9)
	case "flood":
		block := []byte(strings.Repeat("x", 1<<20))
		for range 64 {
			_, _ = os.Stdout.Write(block)
		}
	case "hang":
		signal.Ignore(syscall.SIGTERM)
		fmt.Println("hangs")
		select {}
	case "crash":
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {}
	case "parent", "parent-of-stray", "parent-of-stranger":
		child := exec.Command("/proc/self/exe", "be", "hold")
		child.Stdout = os.Stdout
		child.SysProcAttr = &syscall.SysProcAttr{Setsid: what != "parent"}
		if what == "parent-of-stranger" {
			child.Env = []string{"PATH=/bin"}
		}
		in, err := child.StderrPipe()
		if err == nil {
			err = child.Start()
		}
		if err == nil {
			_, err = bufio.NewReader(in).ReadString('\n') // it runs
		}
		if err != nil {
			fmt.Println(err)
			syscall.Exit(1)
		}
		fmt.Println(child.Process.Pid)
	case "hold":
		fmt.Fprintln(os.Stderr, "here")
		select {}
	case "count":
		f, err := os.OpenFile(args[0], os.O_APPEND|os.O_WRONLY|os.O_CREATE, 0o644)
		if err == nil {
			_, _ = f.WriteString("x")
			info, _ := f.Stat()
			if info.Size() >= 3 {
				syscall.Exit(0)
			}
		}
		syscall.Exit(1)
	}
}

// box is a machine's root directory with the test binary as /usr/bin/tool.
func box(t *testing.T) (*Runner, string) {
	t.Helper()
	self, err := os.Executable()
	ok(t, err)
	raw, err := os.ReadFile(self)
	ok(t, err)
	return boxWith(t, raw)
}

// boxWith is a box whose tool may be a file that is only inspected.
func boxWith(t *testing.T, raw []byte) (*Runner, string) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root can make files that belong to root")
	}
	dir := t.TempDir()
	for _, d := range []string{dir, dir + "/usr", dir + "/usr/bin", dir + "/opt"} {
		ok(t, os.MkdirAll(d, 0o755))
		ok(t, os.Chmod(d, 0o755))
	}
	ok(t, os.WriteFile(dir+"/usr/bin/tool", raw, 0o755))
	ok(t, os.Chmod(dir+"/usr/bin/tool", 0o755))
	r, err := New(dir, time.Now)
	ok(t, err)
	t.Cleanup(func() { _ = r.Close() })
	r.Pause = 0
	return r, dir
}

func ok(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// tool is a profile that runs the test binary with a behaviour.
func tool(args ...string) *profiles.CommandProfile {
	return &profiles.CommandProfile{
		ID: "tool", Command: "/usr/bin/tool", BaseArgs: append([]string{"be"}, args...), User: "root", TimeoutSeconds: 60,
		CaptureStdout: profiles.DefaultCapture, CaptureStderr: profiles.DefaultCapture,
	}
}
