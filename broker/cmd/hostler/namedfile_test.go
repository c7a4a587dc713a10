package main

import (
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// notice signals a write, such as a question.
type notice struct {
	written chan struct{}
	bytes.Buffer
}

func (n *notice) Write(p []byte) (int, error) {
	select {
	case n.written <- struct{}{}:
	default:
	}
	return n.Buffer.Write(p)
}

// endsBySignal runs a command, cancels it once began is closed, and checks that the command ends as
// interrupted.
func endsBySignal(t *testing.T, s processEnv, began <-chan struct{}, args ...string) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	status := make(chan int, 1)
	go func() { status <- run(ctx, args, s) }()
	select {
	case <-began:
	case got := <-status:
		t.Fatalf("hostler %s ended with %d before it waited", strings.Join(args, " "), got)
	}
	cancel()
	select {
	case got := <-status:
		if got == 0 {
			t.Errorf("hostler %s ended with 0 though it was interrupted", strings.Join(args, " "))
		}
	case <-time.After(30 * time.Second):
		t.Fatalf("hostler %s does not end by a signal", strings.Join(args, " "))
	}
}

func TestACommandThatWaitsForAPipeEndsByASignal(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	began := make(chan struct{})
	close(began)
	for _, args := range [][]string{
		{"certificate", "verify", pipe},
		{"certificate", "verify", "/dev/null", "--trust", pipe},
		{"trust", "add-release-key", pipe, "--reason", "r"},
		{"agent-release", "sign", "dist", "--key", pipe},
		{"login", "https://127.0.0.1:1", "--ca-file", pipe, "--token-file", "-"},
		{"node", "list", "--token-file", pipe},
	} {
		var out bytes.Buffer
		endsBySignal(t, nowhere(&out, &out), began, args...)
	}
}

func TestAQuestionEndsByASignal(t *testing.T) {
	typed, never := io.Pipe() // a person who types nothing
	defer func() { _ = never.Close() }()
	var out bytes.Buffer
	said := &notice{written: make(chan struct{}, 1)}
	s := nowhere(&out, &out)
	s.err, s.in, s.ask = said, typed, true
	dir := t.TempDir()
	if err := newFakeBroker(t).writeClient(dir); err != nil {
		t.Fatal(err)
	}
	env := map[string]string{"HOSTLER_CONFIG": filepath.Join(dir, "client.yaml"), "HOME": dir}
	s.getenv = func(name string) string { return env[name] }
	endsBySignal(t, s, said.written, "trust", "rotate", "--use", "task", "--reason", "r")
}

func TestAPipeOfOnesOwnShellIsRead(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	go func() {
		f, err := os.OpenFile(pipe, os.O_WRONLY, 0)
		if err == nil {
			_, _ = f.WriteString("{}")
			_ = f.Close()
		}
	}()
	a := &app{}
	if raw, err := a.readBounded(pipe); err != nil || string(raw) != "{}" {
		t.Errorf("readBounded = %q, %v", raw, err)
	}
}
