package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
	"testing"
)

// signalled makes the test binary a program that is stopped.
const signalled = "TRY_IS_SIGNALLED"

func TestMain(m *testing.M) {
	if os.Getenv(signalled) != "" {
		beSignalled()
		return
	}
	os.Exit(m.Run())
}

// beSignalled prints into a pipe that nobody reads, waits for Ctrl-C, and then closes until its stdin
// ends.
func beSignalled() {
	ctx, stop := untilStopped()
	defer stop()
	fmt.Println("nobody reads this")
	fmt.Fprintln(os.Stderr, "ready")
	<-ctx.Done()
	fmt.Fprintln(os.Stderr, "closes")
	_, _ = io.Copy(io.Discard, os.Stdin)
}

func TestAReaderThatEndsEndsNothingAndTheSecondCtrlCDoes(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), signalled+"=1")
	unread, out, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stdout = out
	said, err1 := cmd.StderrPipe()
	_, err2 := cmd.StdinPipe() // open until the program has ended
	if err1 != nil || err2 != nil {
		t.Fatal(err1, err2)
	}
	if err := errors.Join(unread.Close(), cmd.Start(), out.Close()); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(said)
	if !lines.Scan() || lines.Text() != "ready" {
		t.Fatalf("it ends with its reader: %v", cmd.Wait())
	}
	if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	if !lines.Scan() || lines.Text() != "closes" {
		t.Fatalf("the first Ctrl-C does not end its context: %q, %v", lines.Text(), cmd.Wait())
	}
	if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	err = cmd.Wait()
	if status := cmd.ProcessState.Sys().(syscall.WaitStatus); status.Signal() != syscall.SIGINT {
		t.Errorf("the second Ctrl-C does not end it: %v", err)
	}
}
