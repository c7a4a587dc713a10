package main

import (
	"context"
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

func main() {
	// The kernel kills the broker when the thread that started it ends (Pdeathsig). The agents run in
	// this process, and threads end with them.
	runtime.LockOSThread()
	bin := flag.String("bin", "bin", "where the programs are")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	err := run(ctx, *bin)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "\nerror: demo-onboarding:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, bin string) error {
	s := story.New(os.Stdout)
	s.Say("A rack of machines is onboarded by a MAAS region, which is simulated. What it installs are systems whose file system is a directory, with the agent and two fake GPUs.")
	l, err := lab.New(bin, "127.0.0.1")
	if err != nil {
		return err
	}
	d := &demo{Play: &play.Play{Story: s, Lab: l, Bin: bin}}
	defer d.close()
	ctx, cancel := context.WithTimeout(ctx, 10*time.Minute)
	defer cancel()
	for _, scene := range []struct {
		title string
		play  func(context.Context) error
	}{
		{"A broker and a site", d.site},
		{"A rack at once", d.batch},
		{"A hostname that is somebody else's machine", d.typo},
		{"The stop button, and the screen for whoever is on call", d.freeze},
		{"One has no disk to boot from: mended, and resumed", d.mend},
		{"What was frozen goes on by itself", d.thaw},
	} {
		s.Scene(scene.title)
		if err := scene.play(ctx); err != nil {
			return fmt.Errorf("%s: %w\n%s", scene.title, err, d.diagnosis())
		}
	}
	s.End(
		"make demo", "one machine that is a real guest, from its BMC to a clean turnover",
		"make maassim", "a simulated region to play with; it has a door for making trouble",
		"docs/how-to/onboarding.md", "what an onboarding does, what it refuses, and what a failure asks for",
	)
	return nil
}

// diagnosis describes a failed scene for the reader.
func (d *demo) diagnosis() string {
	text := "broker:\n" + play.Tail(d.Lab.BrokerLog(), 15)
	for name, h := range d.hosts {
		if err := h.Err(); err != nil {
			text += fmt.Sprintf("\nhost at %s: %v", name, err)
		}
	}
	return text
}
