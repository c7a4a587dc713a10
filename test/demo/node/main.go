package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/hostler/hostler/test/demo/story"
	"github.com/hostler/hostler/test/lab"
	"github.com/hostler/hostler/test/qemu"
)

func main() {
	bin := flag.String("bin", "bin", "where the programs are")
	dist := flag.String("dist", "dist", "where the agent's package is")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	err := run(ctx, *bin, *dist)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "\nerror: demo:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, bin, dist string) error {
	s := story.New(os.Stdout)
	s.Say("Hostler looks after GPU machines between two tenants. This is one such machine, in QEMU, and a MAAS region, simulated.")
	image, err := qemu.BuildImage(ctx, os.Stdout)
	if err != nil {
		return err
	}
	s.Restart() // the image is built once; the story is what is timed
	l, err := lab.New(bin, qemu.HostAddress)
	if err != nil {
		return err
	}
	d := &demo{Story: s, lab: l, image: image, bin: bin, dist: dist}
	defer d.close()
	ctx, cancel := context.WithTimeout(ctx, 15*time.Minute)
	defer cancel()
	for _, scene := range []struct {
		title string
		play  func(context.Context) error
	}{
		{"A broker, from nothing", d.broker},
		{"A site: one MAAS region, and what it lacks", d.site},
		{"What would be done, before it is done", d.plan},
		{"From a BMC's address to an active node, whatever happens", d.onboard},
		{"A tenant moves in, and leaves things behind", d.tenant},
		{"Is this machine clean?", d.dirty},
		{"The turnover: revoke, clean, look again", d.clean},
		{"The GPUs' memory", d.vram},
		{"Overwrite, verify, look again", d.scrub},
		{"What ran on this node, and how do we know?", d.evidence},
		{"Attacks", d.attacks},
	} {
		s.Scene(scene.title)
		if err := scene.play(ctx); err != nil {
			return fmt.Errorf("%s: %w\n%s", scene.title, err, d.diagnosis())
		}
	}
	s.End(
		"make demo-onboarding", "a rack at once: a batch, what goes wrong there, and the stop button",
		"bin/hostler-broker serve --data-dir ./trial", "a broker of your own",
		"bin/hostler --config ./trial/client.yaml task describe node.validate_clean", "what is cleaned, what is only found",
		"README.md", "a walk by hand",
		"docs/security.md", "who can and cannot do what",
	)
	return nil
}
