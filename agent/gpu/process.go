package gpu

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"github.com/hostler/hostler/taskcatalog"
)

// childEnv is the fixed environment of a child; Helper.Env adds to it. A child inherits no
// variable, so that the agent's environment does not decide which library is loaded.
var childEnv = []string{"LC_ALL=C", "PATH=/usr/bin:/bin", "GOTRACEBACK=none"}

// request starts a child, sends r and decodes the answer into result. The child's process group is
// gone when request returns, except after CodeHelperStuck.
func (h *Helper) request(ctx context.Context, r request, progress func(Progress), result checked) error {
	line, err := taskcatalog.Encode(r)
	if err != nil {
		return err
	}
	c, err := h.start()
	if err != nil {
		return taskcatalog.Errorf(CodeHelperCrashed, "cannot start the gpu helper: %v", err)
	}
	ended := false
	defer func() {
		if !ended { // progress panicked
			_ = c.end()
		}
	}()
	answer, err := c.converse(ctx, append(line, '\n'), h.Deadline, h.Silence, progress)
	ended = true
	if stuck := c.end(); stuck != nil {
		return stuck
	}
	switch {
	case errors.Is(err, errNoAnswer):
		return c.crashed()
	case err != nil:
		return err
	case answer.Error != nil:
		return &taskcatalog.Error{Code: answer.Error.Code, Message: answer.Error.Message}
	}
	return decodeResult(answer.Result, result)
}

// process is a running child.
type process struct {
	cmd       *exec.Cmd
	stdin     *os.File
	stdout    *os.File
	stderr    *os.File
	replies   chan received
	tail      chan string // the end of stderr, once stderr is closed
	exited    chan error
	kill      func(group int)
	grace     time.Duration
	ended     error  // of Wait
	lastError string // the last line of stderr
}

type received struct {
	reply reply
	err   error
}

// errNoAnswer: stdout ended with neither result nor error.
var errNoAnswer = errors.New("no answer")

func (h *Helper) start() (*process, error) {
	var ours, theirs [3]*os.File
	done := func(files []*os.File) {
		for _, f := range files {
			if f != nil {
				f.Close()
			}
		}
	}
	for i := range ours {
		r, w, err := os.Pipe()
		if err != nil {
			done(ours[:])
			done(theirs[:])
			return nil, err
		}
		ours[i], theirs[i] = r, w
		if i == 0 {
			ours[i], theirs[i] = w, r
		}
	}
	cmd := &exec.Cmd{Path: h.Path, Args: h.Argv}
	cmd.Dir = "/"
	cmd.Env = append(append([]string{}, childEnv...), h.Env...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = theirs[0], theirs[1], theirs[2]
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	err := cmd.Start()
	done(theirs[:])
	if err != nil {
		done(ours[:])
		return nil, err
	}
	p := &process{
		cmd: cmd, stdin: ours[0], stdout: ours[1], stderr: ours[2], grace: h.Grace, kill: h.kill,
		replies: make(chan received), tail: make(chan string, 1), exited: make(chan error, 1),
	}
	if p.kill == nil {
		p.kill = func(group int) { _ = syscall.Kill(-group, syscall.SIGKILL) }
	}
	go p.listen()
	go func() { p.tail <- lastOf(p.stderr) }()
	go func() { p.exited <- cmd.Wait() }()
	return p, nil
}

// converse sends the request and waits for the answer.
func (p *process) converse(ctx context.Context, line []byte, deadline, silence time.Duration, progress func(Progress)) (reply, error) {
	if _, err := p.stdin.Write(line); err != nil {
		return reply{}, errNoAnswer // the child ended before it read: its status says why
	}
	late := time.NewTimer(deadline)
	defer late.Stop()
	silent := time.NewTimer(silence)
	defer silent.Stop()
	for {
		select {
		case <-ctx.Done():
			return reply{}, ctx.Err()
		case <-late.C:
			return reply{}, taskcatalog.Errorf(CodeHelperHung, "the gpu helper gave no answer within %v", deadline)
		case <-silent.C:
			return reply{}, taskcatalog.Errorf(CodeHelperHung, "the gpu helper sent nothing for %v", silence)
		case h, open := <-p.replies:
			switch {
			case !open:
				return reply{}, errNoAnswer
			case h.err != nil:
				return reply{}, h.err
			case h.reply.Progress == nil:
				return h.reply, nil
			case progress != nil:
				progress(*h.reply.Progress)
			}
			silent.Reset(silence)
		}
	}
}

// listen decodes stdout until it ends, exceeds a limit or makes no sense.
func (p *process) listen() {
	defer close(p.replies)
	lines := bufio.NewReaderSize(io.LimitReader(p.stdout, maxOutput), maxLine)
	for {
		line, err := lines.ReadSlice('\n')
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			p.replies <- received{err: garbage("the gpu helper sent a line of more than %d bytes", maxLine)}
			return
		case err != nil && len(line) > 0:
			p.replies <- received{err: garbage("the gpu helper stopped in the middle of a line, or sent more than %d bytes", maxOutput)}
			return
		case err != nil:
			return
		}
		r, err := decodeReply(bytes.TrimSuffix(line, []byte("\n")))
		p.replies <- received{r, err}
		if err != nil || r.Progress == nil {
			return
		}
	}
}

// end kills the child's group, closes its pipes and waits until it is gone. A process in
// uninterruptible sleep stays, and still holds the GPU.
func (p *process) end() error {
	p.kill(p.cmd.Process.Pid)
	p.stdin.Close()
	defer p.stdout.Close()
	defer p.stderr.Close()
	go func() {
		for range p.replies { // listen may be blocked on a reply that nobody reads
		}
	}()
	gone := time.NewTimer(p.grace)
	defer gone.Stop()
	select {
	case p.ended = <-p.exited:
	case <-gone.C:
		return taskcatalog.Errorf(CodeHelperStuck,
			"the gpu helper, process %d, did not end within %v of SIGKILL: the driver holds it (reboot the machine)", p.cmd.Process.Pid,
			p.grace)
	}
	select {
	case p.lastError = <-p.tail:
	case <-gone.C: // a process that left the group holds the child's stderr
	}
	return nil
}

// crashed describes the end of a child that gave no answer.
func (p *process) crashed() error {
	how := "the helper ended without an answer"
	if p.ended != nil {
		how = p.ended.Error()
	}
	if p.lastError != "" {
		how += fmt.Sprintf("; its last output was %q", p.lastError)
	}
	return taskcatalog.Errorf(CodeHelperCrashed, "the gpu helper crashed: %s", how)
}

// lastOf reads a stream to its end and returns its last line.
func lastOf(r io.Reader) string {
	var kept []byte
	buf := make([]byte, maxStderr)
	for {
		n, err := r.Read(buf)
		kept = append(kept, buf[:n]...)
		if len(kept) > maxStderr {
			kept = kept[len(kept)-maxStderr:]
		}
		if err != nil {
			lines := strings.Split(strings.TrimSpace(string(kept)), "\n")
			return taskcatalog.Clean(lines[len(lines)-1], 300)
		}
	}
}
