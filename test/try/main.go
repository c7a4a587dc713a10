package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"syscall"
	"time"

	"github.com/hostler/hostler/test/demo/play"
	"github.com/hostler/hostler/test/demo/story"
	"github.com/hostler/hostler/test/lab"
)

// limit bounds the way to the certificate.
const limit = 5 * time.Minute

func main() {
	bin := flag.String("bin", "bin", "where the programs are")
	flag.Parse()
	// The kernel kills the broker when the thread that started it ends (Pdeathsig). The
	// agent's code ends threads; a locked main goroutine keeps its own.
	runtime.LockOSThread()
	ctx, stop := untilStopped()
	err := run(ctx, *bin)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "\nerror: try:", err)
		os.Exit(1)
	}
}

// untilStopped returns a context that the first Ctrl-C ends. The next one ends the program at once,
// and leaves the directory behind. A program that reads the output and ends, such as head, ends
// nothing: only Ctrl-C removes the directory.
func untilStopped() (context.Context, context.CancelFunc) {
	signal.Ignore(syscall.SIGPIPE)
	signalled, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	ctx, cancel := context.WithCancel(context.Background())
	context.AfterFunc(signalled, func() {
		stop() // the next signal has its default effect before anybody sees that ctx has ended
		cancel()
	})
	return ctx, stop
}

// run shows the turnover, waits for the end of ctx, and removes everything. Stopped by ctx, run
// returns nil.
func run(ctx context.Context, bin string) error {
	s := story.New(os.Stdout)
	s.Say("A GPU node is turned over between two tenants, in about a minute. Ctrl-C stops everything and removes it; while gcc builds, as soon as gcc has ended.")
	s.Say("")
	s.Say("real       the broker with its database, the command line, the agent's code, the signatures, the certificate")
	s.Say("simulated  the MAAS region; the node, whose disk is a directory; its GPUs, which are libraries with NVIDIA's ABI")
	s.Say("           over memory that is a file; the tenant")
	s.Say("")
	s.Say("Nothing that runs now needs root, and nothing on this machine is changed outside one temporary directory and the build caches.")
	l, err := lab.New(bin, "127.0.0.1")
	if err != nil {
		return err
	}
	t := &try{Play: &play.Play{Story: s, Lab: l, Bin: bin}}
	err = t.show(ctx)
	switch {
	case err == nil:
		<-ctx.Done()
	case ctx.Err() != nil:
		err = nil // Ctrl-C reaches this program alone, so no command fails because of Ctrl-C before ctx ends
	}
	if err = errors.Join(err, t.close()); err == nil {
		s.Say("Stopped. The broker, the region and the node have ended, and %s is removed.", l.Path(""))
	}
	return err
}

// show plays the scenes.
func (t *try) show(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("it took more than %v", limit))
	defer cancel()
	for _, scene := range []struct {
		title string
		play  func(context.Context) error
	}{
		{"A broker, and a site with one machine", t.site},
		{"From a BMC's address to a node", t.onboard},
		{"A tenant leaves", t.leave},
		{"The turnover", t.turnover},
		{"The certificate", t.proof},
	} {
		t.Scene(scene.title)
		if err := scene.play(ctx); err != nil {
			if ctx.Err() != nil {
				err = fmt.Errorf("%w: %w", context.Cause(ctx), err) // a command that ctx ends says only that it was killed
			}
			return fmt.Errorf("%s: %w\n%s", scene.title, err, t.diagnosis())
		}
	}
	return t.invite()
}
