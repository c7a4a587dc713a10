package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/hostler/hostler/test/lab"
	"github.com/hostler/hostler/test/qemu"
)

func main() {
	bin := flag.String("bin", "bin", "where the programs are")
	dist := flag.String("dist", "dist", "where the agent's package is")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *bin, *dist); err != nil {
		fmt.Fprintln(os.Stderr, "\nerror: demo:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, bin, dist string) error {
	n := &narrator{out: os.Stdout, started: time.Now()}
	n.say("Hostler looks after GPU machines between two tenants. This is one such machine, in QEMU.")
	image, err := qemu.BuildImage(ctx, os.Stdout)
	if err != nil {
		return err
	}
	n.started = time.Now() // the image is built once; the story is what is timed
	l, err := lab.New(bin, qemu.HostAddress)
	if err != nil {
		return err
	}
	d := &demo{narrator: n, lab: l, image: image, bin: bin, dist: dist}
	defer d.close()
	ctx, cancel := context.WithTimeout(ctx, 10*time.Minute)
	defer cancel()
	for _, scene := range []struct {
		title string
		play  func(context.Context) error
	}{
		{"A broker, from nothing", d.broker},
		{"A machine boots and enrols by itself", d.enrol},
		{"A tenant moves in, and leaves things behind", d.tenant},
		{"Is this machine clean?", d.dirty},
		{"The turnover: revoke, clean, look again", d.clean},
		{"The GPUs' memory", d.vram},
		{"Overwrite, verify, look again", d.scrub},
		{"What ran on this node, and how do we know?", d.evidence},
		{"Attacks", d.attacks},
	} {
		n.scene(scene.title)
		if err := scene.play(ctx); err != nil {
			return fmt.Errorf("%s: %w\n%s", scene.title, err, d.diagnosis())
		}
	}
	n.epilogue()
	return nil
}
