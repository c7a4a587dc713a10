package terminal

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// The test binary is also every program that runs in a terminal: its arguments select the
// behaviour.
func TestMain(m *testing.M) {
	if len(os.Args) > 2 && os.Args[1] == "be" {
		be(os.Args[2])
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func be(what string) {
	switch what {
	case "cat":
		in := bufio.NewReader(os.Stdin)
		for {
			line, err := in.ReadString('\n')
			fmt.Printf("<%s>\n", strings.TrimSuffix(line, "\n"))
			if err != nil {
				return
			}
		}
	case "flood":
		fmt.Println("floods")
		for block := bytes.Repeat([]byte("y\n"), 2048); ; {
			if _, err := os.Stdout.Write(block); err != nil {
				return
			}
		}
	case "lines":
		var all bytes.Buffer
		for i := range lines {
			fmt.Fprintf(&all, "%06d\n", i)
		}
		_, _ = os.Stdout.Write(all.Bytes())
	case "surroundings":
		surroundings()
	case "sizes":
		changed := make(chan os.Signal, 1)
		signal.Notify(changed, syscall.SIGWINCH)
		for {
			size, err := unix.IoctlGetWinsize(0, unix.TIOCGWINSZ)
			fmt.Printf("size %v %v\n", size, err)
			<-changed
		}
	case "signals", "pair": // with a background process of the same kind
		if what == "pair" {
			child := exec.Command("/proc/self/exe", "be", "signals")
			child.Stdout, child.SysProcAttr = os.Stdout, &syscall.SysProcAttr{Setpgid: true}
			if err := child.Start(); err != nil {
				fmt.Println(err)
			}
		}
		heard := make(chan os.Signal, 8)
		signal.Notify(heard, syscall.SIGUSR1, syscall.SIGTERM)
		fmt.Println("listens")
		for sig := range heard {
			fmt.Println("heard", sig)
			if sig == syscall.SIGTERM {
				os.Exit(7)
			}
		}
	case "deaf":
		signal.Ignore(syscall.SIGHUP, syscall.SIGTERM)
		fmt.Println("is deaf")
		select {}
	case "parent": // of a process that ignores SIGHUP and outlives it
		child := exec.Command("/proc/self/exe", "be", "deaf")
		child.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		said, err := child.StdoutPipe()
		if err == nil {
			err = child.Start()
		}
		if err == nil {
			_, err = bufio.NewReader(said).ReadString('\n')
		}
		fmt.Println("child", child.Process.Pid, err)
	}
}

const lines = 8000

func surroundings() {
	sid, _, _ := syscall.RawSyscall(syscall.SYS_GETSID, 0, 0, 0)
	tty, err := os.Open("/dev/tty")
	fmt.Println("argv", os.Args)
	fmt.Println("leads", int(sid) == os.Getpid(), "controls", err == nil)
	if err == nil {
		tty.Close()
	}
	groups, _ := os.Getgroups()
	fmt.Println("who", os.Getuid(), os.Getgid(), groups)
	var st syscall.Stat_t
	fmt.Println("tty", syscall.Fstat(0, &st), st.Uid, strconv.FormatUint(uint64(st.Mode&0o777), 8))
	dir, _ := os.Getwd()
	fmt.Println("dir", dir)
	open, _ := filepath.Glob("/proc/self/fd/*")
	for _, name := range open {
		if to, err := os.Readlink(name); err == nil && !strings.HasPrefix(to, "/dev/pts/") && !strings.HasPrefix(to, "anon_inode:") && !strings.HasPrefix(to, "/sys/fs/cgroup/") {
			fmt.Println("open", to)
		}
	}
	for _, env := range os.Environ() {
		fmt.Println("env", env)
	}
	fmt.Println("end")
}

// leavesNothing fails a test that leaks a goroutine, a descriptor or a child.
func leavesNothing(t *testing.T) {
	t.Helper()
	before := descriptors()
	t.Cleanup(func() {
		var left string
		for end := time.Now().Add(10 * time.Second); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
			if left = leftover(before); left == "" {
				return
			}
		}
		t.Errorf("left: %s", left)
	})
}

func descriptors() map[string]bool {
	all := map[string]bool{}
	names, _ := filepath.Glob("/proc/self/fd/*")
	for _, name := range names {
		if to, err := os.Readlink(name); err == nil {
			all[name+" "+to] = true
		}
	}
	return all
}

func leftover(before map[string]bool) string {
	for fd := range descriptors() {
		if !before[fd] && !strings.Contains(fd, "anon_inode:[event") {
			return "descriptor " + fd
		}
	}
	if err := unix.Waitid(unix.P_ALL, 0, nil, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT, nil); !errors.Is(err, unix.ECHILD) {
		return fmt.Sprintf("a child (%v)", err)
	}
	buf := make([]byte, 1<<20)
	for stack := range strings.SplitSeq(string(buf[:runtime.Stack(buf, true)]), "\n\n") {
		if strings.Contains(stack, "leavesNothing") || strings.Contains(stack, "testing.(*T).Run") {
			continue
		}
		if strings.Contains(stack, "agent/terminal.") || strings.Contains(stack, "quic-go") {
			return stack
		}
	}
	return ""
}

func ok(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
