package slurm

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// startIn bounds the start of a program. Slurm's take half a second.
const startIn = time.Minute

// hold starts a process that does nothing in new namespaces. What runs in them ends with it.
func (c *Cluster) hold(programs string) (err error) {
	if c.dir, err = os.MkdirTemp("", "hostler-slurm-"); err != nil {
		return err
	}
	c.closing = append(c.closing, func() { _ = os.RemoveAll(c.dir) })
	cmd := exec.Command("unshare", "--net", "--mount", "--pid", "--uts", "--ipc", "--fork", "--kill-child",
		"--root="+programs, "--mount-proc=/proc", "/usr/bin/cat")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // Ctrl-C is for the program that closes the cluster
	in, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	c.closing = append(c.closing, func() {
		_ = in.Close()
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	if _, err := io.WriteString(in, "ready\n"); err != nil {
		return err
	}
	if _, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		return err
	}
	c.pid = strconv.Itoa(childrenOf(cmd.Process.Pid)[0])
	c.Root = "/proc/" + c.pid + "/root"
	return exec.Command("nsenter", "--target", c.pid, "--uts", "hostname", "ctl").Run()
}

// command is a program in the cluster's namespaces.
func (c *Cluster) command(argv ...string) *exec.Cmd {
	enter := []string{"--target", c.pid, "--net", "--mount", "--pid", "--uts", "--ipc", "--root", "--wdns=/"}
	cmd := exec.Command("nsenter", append(enter, argv...)...)
	cmd.Env = []string{"PATH=/usr/sbin:/usr/bin", "LC_ALL=C"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	return cmd
}

// Output runs a program, and returns what it prints.
func (c *Cluster) Output(ctx context.Context, argv ...string) (string, error) {
	cmd := c.command(argv...)
	ctx, cancel := context.WithTimeout(ctx, startIn)
	defer cancel()
	defer context.AfterFunc(ctx, func() { _ = cmd.Process.Kill() })()
	cmd.WaitDelay = time.Second
	out, err := cmd.CombinedOutput()
	if err != nil {
		err = fmt.Errorf("%s: %w\n%s", strings.Join(argv, " "), err, out)
	}
	return string(out), err
}

// Begin starts a program that ends with the cluster or with stop.
func (c *Cluster) Begin(argv ...string) (stop func(), err error) {
	cmd := c.command(argv...)
	// Not a pipe: a program's children would hold it open.
	out, err := os.CreateTemp(c.dir, "output-")
	if err != nil {
		return nil, err
	}
	defer out.Close()
	c.outputs = append(c.outputs, out.Name())
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	stop = sync.OnceFunc(func() {
		// The program is the child of nsenter, which waits for it.
		for _, child := range childrenOf(cmd.Process.Pid) {
			_ = unix.Kill(child, unix.SIGKILL)
		}
		_ = cmd.Wait()
	})
	c.closing = append(c.closing, stop)
	return stop, nil
}

// childrenOf are the child processes of a process with one thread.
func childrenOf(pid int) (children []int) {
	self := strconv.Itoa(pid)
	raw, _ := os.ReadFile("/proc/" + self + "/task/" + self + "/children") // none: it has ended
	for _, word := range strings.Fields(string(raw)) {
		if child, err := strconv.Atoi(word); err == nil {
			children = append(children, child)
		}
	}
	return children
}

// Until asks until the answer is yes.
func (c *Cluster) Until(ctx context.Context, what string, yes func() bool) error {
	again := time.NewTicker(20 * time.Millisecond)
	defer again.Stop()
	for end := time.Now().Add(startIn); !yes(); {
		if time.Now().After(end) {
			return fmt.Errorf("not in time: %s", what)
		}
		select {
		case <-again.C:
		case <-ctx.Done():
			return fmt.Errorf("waited in vain until %s: %w", what, context.Cause(ctx))
		}
	}
	return nil
}
