package main

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// programs builds try and what it starts, as make try does.
func programs(t *testing.T) string {
	t.Helper()
	bin := t.TempDir()
	for name, cgo := range map[string]string{
		"broker/cmd/hostler-broker": "0", "broker/cmd/hostler": "0", "test/try": "0", "agent/cmd/hostler-agent": "1",
	} {
		build := exec.CommandContext(t.Context(), "go", "build", "-o", filepath.Join(bin, filepath.Base(name)), "../../"+name)
		build.Env = append(os.Environ(), "CGO_ENABLED="+cgo)
		if out, err := build.CombinedOutput(); err != nil {
			t.Fatalf("cannot build %s: %v\n%s", name, err, out)
		}
	}
	return bin
}

// show is a running try.
type show struct {
	t       *testing.T
	cmd     *exec.Cmd
	lines   *bufio.Scanner
	printed strings.Builder
	tmp     string
}

func start(t *testing.T, bin string) *show {
	t.Helper()
	s := &show{t: t, tmp: t.TempDir(), cmd: exec.CommandContext(t.Context(), filepath.Join(bin, "try"), "-bin", bin)}
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	s.cmd.Env = append(os.Environ(), "TMPDIR="+s.tmp)
	s.cmd.Stderr = os.Stderr
	out, err := s.cmd.StdoutPipe()
	if err == nil {
		err = s.cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	s.lines = bufio.NewScanner(out)
	return s
}

// until reads the output until a line contains the words, and returns the line.
func (s *show) until(words string) string {
	s.t.Helper()
	for s.lines.Scan() {
		fmt.Fprintln(&s.printed, s.lines.Text())
		if strings.Contains(s.lines.Text(), words) {
			return s.lines.Text()
		}
	}
	s.t.Fatalf("it ended before it said %q:\n%s", words, s.printed.String())
	return ""
}

// stop is Ctrl-C in a terminal, which sends it to the whole group of the program. Nothing may be left
// of the processes or of the files.
func (s *show) stop() {
	s.t.Helper()
	running := children(s.t, s.cmd.Process.Pid)
	if len(running) == 0 {
		s.t.Error("it runs no broker")
	}
	for _, child := range running {
		pid, err := strconv.Atoi(child)
		if err != nil {
			s.t.Fatal(err)
		}
		if group, err := syscall.Getpgid(pid); err == nil && group == s.cmd.Process.Pid { // else it has ended
			s.t.Errorf("Ctrl-C reaches process %d as well, whose end looks like a failure", pid)
		}
	}
	if err := syscall.Kill(-s.cmd.Process.Pid, syscall.SIGINT); err != nil {
		s.t.Fatal(err)
	}
	s.until("Stopped. ")
	for s.lines.Scan() {
	}
	if err := s.cmd.Wait(); err != nil {
		s.t.Errorf("stopped, it ends with %v", err)
	}
	for _, pid := range running {
		if _, err := os.Stat("/proc/" + pid); !errors.Is(err, fs.ErrNotExist) {
			s.t.Errorf("process %s still runs: %v", pid, err)
		}
	}
	left, err := os.ReadDir(s.tmp)
	if err != nil || len(left) > 0 {
		s.t.Errorf("%v is left, %v", left, err)
	}
}

// children lists the processes that a process has started.
func children(t *testing.T, pid int) (all []string) {
	t.Helper()
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range threads {
		if raw, err := os.ReadFile(name); err == nil { // else the thread has ended
			all = append(all, strings.Fields(string(raw))...)
		}
	}
	return all
}

func TestTryEndsWithACertificateAndLeavesNothingBehind(t *testing.T) {
	bin := programs(t)
	s := start(t, bin)
	early := start(t, bin) // beside it, and stopped on the way
	early.until("wait_for_deployed")
	early.stop()

	_, config, _ := strings.Cut(s.until("export HOSTLER_CONFIG="), "=")
	s.until("Ctrl-C stops")
	for _, want := range []string{
		"simulated  the MAAS region; the node", "verdict  clean: meets the policy",
		"issuer  make try: a simulation, in which no machine was cleaned", "file_deletion",
		"nothing of the tenant's is left", "certificate verify ", "checks found nothing",
	} {
		if !strings.Contains(s.printed.String(), want) {
			t.Errorf("it does not say %q:\n%s", want, s.printed.String())
		}
	}
	look := exec.CommandContext(t.Context(), filepath.Join(bin, "hostler"), "node", "show", name)
	look.Env = append(os.Environ(), "HOSTLER_CONFIG="+config)
	if out, err := look.CombinedOutput(); err != nil || !strings.Contains(string(out), "may be handed out  yes") {
		t.Errorf("the broker that is still up says of the node: %v\n%s", err, out)
	}
	s.stop()
}
