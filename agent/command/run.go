package command

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hostler/hostler/resolver-profiles"
	"github.com/hostler/hostler/taskcatalog"
)

// Why a program that was allowed to run did not succeed.
const (
	CodeAccountUnknown taskcatalog.Code = "account_unknown"
	CodeNotStarted     taskcatalog.Code = "command_not_started"
	CodeExitCode       taskcatalog.Code = "exit_code_unexpected"
	CodeSignaled       taskcatalog.Code = "command_ended_by_signal"
	CodeTimedOut       taskcatalog.Code = "command_timed_out"
	CodeStuck          taskcatalog.Code = "command_stuck"
	CodeLeftProcesses  taskcatalog.Code = "command_left_processes"
)

// Runner runs command profiles on a machine.
type Runner struct {
	Root    *os.File // the machine's root directory
	Environ func(name string) (string, bool)
	Account func(name string) (*syscall.Credential, error)
	Now     func() time.Time
	Pause   time.Duration // between two attempts

	grace time.Duration // the time for a killed program to be gone, and its output to end
	// checked is called between the check and the start: tests swap files there.
	checked func()
}

// New returns a runner for the machine with this root directory, with this process's environment
// and accounts.
func New(root string, now func() time.Time) (*Runner, error) {
	dir, err := os.OpenFile(root, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("cannot open the root directory %s: %w", root, err)
	}
	return &Runner{
		Root: dir, Environ: os.LookupEnv, Account: account, Now: now, Pause: time.Second, grace: 5 * time.Second,
		checked: func() {},
	}, nil
}

// Close closes the root directory.
func (r *Runner) Close() error { return r.Root.Close() }

// Attempt is a single run of a program.
type Attempt struct {
	ExitCode int // -1 if the program did not exit by itself
	Code     taskcatalog.Code
	Took     time.Duration
}

// Result is the outcome of the last attempt, and a record of each attempt.
type Result struct {
	Attempts []Attempt
	ExitCode int
	Stdout   Output
	Stderr   Output
}

// Run runs a command profile with a step's arguments, and repeats it as often as the profile
// allows. The result is valid even with an error. A program that may not run is not retried.
func (r *Runner) Run(ctx context.Context, p *profiles.CommandProfile, args map[string]any) (Result, error) {
	var res Result
	argv, err := p.Argv(args)
	if err != nil {
		return res, err
	}
	for try := 0; ; try++ {
		if try > 0 {
			select {
			case <-ctx.Done():
				return res, context.Cause(ctx)
			case <-time.After(r.Pause):
			}
		}
		began := r.Now()
		again, err := r.attempt(ctx, p, argv, &res)
		res.Attempts = append(res.Attempts, Attempt{
			ExitCode: res.ExitCode, Code: taskcatalog.CodeOf(err, failed(err)),
			Took: r.Now().Sub(began),
		})
		if err == nil || !again || try >= p.Retries || ctx.Err() != nil {
			return res, err
		}
	}
}

// failed is the code of an error without a code: the context's end.
func failed(err error) taskcatalog.Code {
	if err == nil {
		return ""
	}
	return taskcatalog.CodeCanceled
}

// Check judges the parts that depend on the machine: the program and the account.
func (r *Runner) Check(p *profiles.CommandProfile) error {
	e, err := find(r.Root, p.Command, p.Own())
	if err != nil {
		return err
	}
	_ = e.Close()
	_, err = r.credential(p.User)
	return err
}

// attempt runs the program once and reports whether another attempt makes sense.
func (r *Runner) attempt(ctx context.Context, p *profiles.CommandProfile, argv []string, res *Result) (again bool, err error) {
	res.ExitCode, res.Stdout, res.Stderr = -1, Output{}, Output{}
	credential, err := r.credential(p.User)
	if err != nil {
		return false, err
	}
	e, err := find(r.Root, p.Command, p.Own())
	if err != nil {
		return false, err
	}
	defer func() { _ = e.Close() }()
	r.checked()
	mark := newMark()
	out, errs := &sink{limit: int(p.CaptureStdout)}, &sink{limit: int(p.CaptureStderr)}
	cmd := &exec.Cmd{
		Args: argv, Env: append(r.environment(p), mark), Dir: "/", Stdout: out, Stderr: errs, WaitDelay: r.grace,
		SysProcAttr: &syscall.SysProcAttr{Setsid: true, Credential: credential},
	}
	if e.script { // the interpreter opens it by this name
		cmd.ExtraFiles, cmd.Path = []*os.File{e.file}, "/proc/self/fd/3"
	} else { // closed by the execve
		fd, err := unix.FcntlInt(e.file.Fd(), unix.F_DUPFD_CLOEXEC, beyondStdio)
		if err != nil {
			return true, taskcatalog.Errorf(CodeNotStarted, "cannot run %s: %v", p.Command, err)
		}
		defer func() { _ = unix.Close(fd) }()
		cmd.Path = "/proc/self/fd/" + strconv.Itoa(fd)
	}
	if err := ctx.Err(); err != nil {
		return false, context.Cause(ctx)
	}
	if err := cmd.Start(); err != nil {
		return true, taskcatalog.Errorf(CodeNotStarted, "cannot run %s: %s", p.Command, taskcatalog.Clean(err.Error(), 200))
	}
	err = r.wait(ctx, cmd, mark, time.Duration(p.TimeoutSeconds)*time.Second)
	res.Stdout, res.Stderr = out.output(), errs.output()
	if cmd.ProcessState != nil {
		res.ExitCode = cmd.ProcessState.ExitCode()
	}
	return r.judge(ctx, p, res, err)
}

// beyondStdio is above the descriptors of a child's standard input and output. Between fork and
// execve the Go runtime moves a descriptor of its own to the first number above those, even if the
// number is in use: it must not be the program's.
const beyondStdio = 1000

// judge converts the program's end to an error.
func (r *Runner) judge(ctx context.Context, p *profiles.CommandProfile, res *Result, err error) (again bool, _ error) {
	said := res.Stderr.excerpt()
	if said == "" {
		said = res.Stdout.excerpt()
	}
	if said != "" {
		said = ": " + said
	}
	exit, exited := errors.AsType[*exec.ExitError](err)
	switch {
	case ctx.Err() != nil:
		return false, context.Cause(ctx)
	case errors.Is(err, errTimeout):
		return true, taskcatalog.Errorf(CodeTimedOut, "%s did not end within %d s%s", p.Command, p.TimeoutSeconds, said)
	case errors.Is(err, errStuck):
		return false, taskcatalog.Errorf(CodeStuck, "%s does not end after SIGKILL: the process is blocked in the kernel (reboot the node)",
			p.Command)
	case errors.Is(err, exec.ErrWaitDelay):
		return false, taskcatalog.Errorf(CodeLeftProcesses, "%s ended and left a process behind that keeps its output open", p.Command)
	case exited && exit.ExitCode() < 0:
		return true, taskcatalog.Errorf(CodeSignaled, "%s was ended by %s%s", p.Command, exit, said)
	case err != nil && !exited:
		return true, taskcatalog.Errorf(CodeNotStarted, "cannot run %s: %s", p.Command, taskcatalog.Clean(err.Error(), 200))
	case !p.Expects(res.ExitCode):
		return true, taskcatalog.Errorf(CodeExitCode, "%s ended with %d%s", p.Command, res.ExitCode, said)
	}
	return false, nil
}

var (
	errTimeout = errors.New("the deadline has passed")
	errStuck   = errors.New("the process does not end after SIGKILL")
)

// wait waits for the program, then kills the rest of the group and all other processes with the
// mark. The program is reaped last, so that the group's number is not reused before the group is
// empty.
func (r *Runner) wait(ctx context.Context, cmd *exec.Cmd, mark string, timeout time.Duration) error {
	pid, ended := cmd.Process.Pid, make(chan struct{})
	go func() {
		for unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil) == unix.EINTR {
		}
		close(ended)
	}()
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	var why error
	select {
	case <-ended:
	case <-timer.C:
		why = errTimeout
	case <-ctx.Done():
		why = context.Cause(ctx)
	}
	_ = unix.Kill(-pid, unix.SIGKILL)
	if why != nil {
		dead := time.NewTimer(r.grace)
		defer dead.Stop()
		select {
		case <-ended:
		case <-dead.C:
			go func() { // in case it ends later
				<-ended
				_ = cmd.Wait()
			}()
			return errStuck
		}
	}
	endMarked(mark)
	err := cmd.Wait()
	if why != nil {
		return why
	}
	return err
}
