package main

import (
	"cmp"
	"context"
	"errors"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"golang.org/x/term"
)

// version and commit are set by the linker.
var (
	version = "0.0.0-dev"
	commit  = "unknown"
)

// processEnv are the parts of the process that a run uses.
type processEnv struct {
	in       io.Reader
	out, err io.Writer
	getenv   func(string) string
	now      func() time.Time
	ask      bool          // in and err are a terminal: a person can answer a question
	live     bool          // err is a terminal: a line may be overwritten
	color    bool          // out is a terminal
	width    func() int    // of the terminal of err, in columns
	outWidth func() int    // of the terminal of out, in columns; 0 if out is no terminal
	patience time.Duration // of a completion; 0: no limit
	reaches  func(ctx context.Context, address string) bool
	become   func(program string, args ...string) error // returns only if that fails
}

// interrupts end a run in an orderly way; SIGHUP stands for a closed terminal.
var interrupts = []os.Signal{os.Interrupt, syscall.SIGTERM, syscall.SIGHUP}

// signalled is the cause of a context that a signal has ended.
type signalled struct{ os.Signal }

func (s signalled) Error() string { return s.String() + " signal received" }

// untilSignal is a context that the first of the interrupts ends. A second signal ends the process at
// once.
func untilSignal() (context.Context, context.CancelFunc) {
	ctx, end := context.WithCancelCause(context.Background())
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, interrupts...)
	go func() {
		select {
		case s := <-signals:
			signal.Stop(signals)
			end(signalled{s})
		case <-ctx.Done():
		}
	}()
	return ctx, func() { signal.Stop(signals); end(nil) }
}

func main() { os.Exit(runProcess()) }

func runProcess() int {
	ctx, stop := untilSignal()
	defer stop()
	onTerminal := func(f *os.File) bool { return term.IsTerminal(int(f.Fd())) }
	plain := os.Getenv("NO_COLOR") != "" || os.Getenv("TERM") == "dumb"
	return run(ctx, os.Args[1:], processEnv{
		in: os.Stdin, out: os.Stdout, err: os.Stderr,
		getenv: os.Getenv, now: time.Now,
		ask:      onTerminal(os.Stdin) && onTerminal(os.Stderr),
		live:     onTerminal(os.Stderr) && os.Getenv("TERM") != "dumb",
		color:    onTerminal(os.Stdout) && !plain,
		width:    func() int { return cmp.Or(widthOf(os.Stderr), 80) },
		outWidth: func() int { return widthOf(os.Stdout) },
		patience: completionPatience,
		reaches:  reaches, become: become,
	})
}

// widthOf is the width of a terminal, in columns; 0 if the file is no terminal.
func widthOf(f *os.File) int {
	w, _, err := term.GetSize(int(f.Fd()))
	if err != nil {
		return 0
	}
	return max(w, 0)
}

// run is one command, from its arguments to its exit status.
func run(ctx context.Context, args []string, s processEnv) int {
	a := &app{processEnv: s, stopped: ctx.Done()}
	root := newRoot(a)
	root.SetArgs(programsWords(args))
	root.SetIn(s.in)
	root.SetOut(s.out)
	root.SetErr(s.err)
	err := root.ExecuteContext(ctx)
	if err == nil {
		err = a.helpErr
	}
	if err != nil && ctx.Err() != nil && errors.Is(err, context.Canceled) {
		err = errInterrupted
	}
	a.learnRoots(ctx)
	return a.end(err)
}
