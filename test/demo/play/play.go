package play

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/hostler/hostler/test/demo/story"
	"github.com/hostler/hostler/test/lab"
	"github.com/hostler/hostler/test/qemu"
)

// Play is a story with a lab. Rack is nil until there is a site with a machine; Alone is nil unless
// a machine was booted by hand, without a site.
type Play struct {
	*story.Story
	Lab   *lab.Lab
	Rack  *lab.Rack
	Alone *qemu.Guest
	Bin   string // where the programs are
	dist  string // where the agent's package is
	after []func()
}

// Scene is a part of a play.
type Scene struct {
	Title string
	Play  func(context.Context) error
}

// Main is the main function of a demo with a guest. The untimed function prepare returns the scenes
// and the suggested next steps, in pairs of a command and its purpose.
func Main(name, about string, prepare func(*Play, *qemu.Image) (scenes []Scene, next []string)) {
	bin := flag.String("bin", "bin", "where the programs are")
	dist := flag.String("dist", "dist", "where the agent's package is")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	p := &Play{Story: story.New(os.Stdout), Bin: *bin, dist: *dist}
	err := p.run(ctx, about, prepare)
	stop()
	if err != nil {
		fmt.Fprintf(os.Stderr, "\nerror: %s: %v\n", name, err)
		os.Exit(1)
	}
}

func (p *Play) run(ctx context.Context, about string, prepare func(*Play, *qemu.Image) ([]Scene, []string)) (err error) {
	p.Say("%s", about)
	image, err := qemu.BuildImage(ctx, os.Stdout)
	if err != nil {
		return err
	}
	p.Restart() // the image is built once; the story is what is timed
	if p.Lab, err = lab.New(p.Bin, qemu.HostAddress); err != nil {
		return err
	}
	defer p.close()
	ctx, cancel := context.WithTimeout(ctx, 25*time.Minute)
	defer cancel()
	scenes, next := prepare(p, image)
	for _, s := range scenes {
		p.Scene(s.Title)
		if err := s.Play(ctx); err != nil {
			return fmt.Errorf("%s: %w\n%s", s.Title, err, p.diagnosis())
		}
	}
	p.End(next...)
	return nil
}

// After has something called after the play, the last first.
func (p *Play) After(do func()) { p.after = append(p.after, do) }

func (p *Play) close() {
	if p.Rack != nil {
		_ = p.Rack.Close()
	}
	if p.Alone != nil {
		_ = p.Alone.Close()
	}
	_ = p.Lab.Close()
	for _, do := range slices.Backward(p.after) {
		do()
	}
}

// Guest is the machine booted by hand, or the machine that MAAS installed; nil before that.
func (p *Play) Guest() *qemu.Guest {
	if p.Rack == nil {
		return p.Alone
	}
	g, err := p.Rack.Metal.Guest()
	if err != nil {
		p.Say("%v", err)
	}
	return g
}

// InGuest runs a command as root in the guest; the command must succeed.
func (p *Play) InGuest(ctx context.Context, argv ...string) (string, error) {
	r, err := p.Guest().Run(ctx, argv...)
	if err == nil && r.Exit != 0 {
		err = fmt.Errorf("%s: exit %d: %s", strings.Join(argv, " "), r.Exit, r.Stderr)
	}
	return strings.TrimSpace(r.Stdout), err
}

// Hostler types a command, runs it, and shows at most limit lines of its output.
func (p *Play) Hostler(ctx context.Context, limit int, args ...string) error {
	p.Typed(Typed(args))
	text, err := p.Lab.Hostler(ctx, args...)
	p.Printed(text, limit)
	return err
}

// Watched is Hostler for a long command: its progress is drawn.
func (p *Play) Watched(ctx context.Context, limit int, args ...string) error {
	p.Typed(Typed(args))
	w, done := p.Drawing(60)
	text, err := p.Lab.HostlerLive(ctx, "", w, args...)
	done()
	p.Printed(text, limit)
	return err
}

// Refused is Hostler for a command that policy or state must refuse. The refusal must contain all
// words.
func (p *Play) Refused(ctx context.Context, args []string, words ...string) error {
	p.Typed(Typed(args))
	_, err := p.Lab.Hostler(ctx, args...)
	exit, is := errors.AsType[*lab.ExitError](err)
	if !is || exit.Code != refused {
		return fmt.Errorf("it was not refused: %w", err)
	}
	p.Printed(strings.TrimSpace(exit.Stderr), 6)
	p.Say("(exit status %d)", exit.Code)
	for _, w := range words {
		if !strings.Contains(exit.Stderr, w) {
			return fmt.Errorf("the refusal does not say %q", w)
		}
	}
	return nil
}

// refused is the exit status of a refusal by policy or state.
const refused = 3

// Stopped returns nil if the command reported a run that stopped for a person.
func Stopped(err error) error {
	if exit, is := errors.AsType[*lab.ExitError](err); !is || exit.Code != 1 {
		return fmt.Errorf("it did not stop: %w", err)
	}
	return nil
}

// Typed is a command as a person types it.
func Typed(args []string) string {
	words := slices.Clone(args)
	for i, w := range words {
		if strings.ContainsAny(w, " *") {
			words[i] = "'" + w + "'"
		}
	}
	return "hostler " + strings.Join(words, " ")
}

// diagnosis describes a failed scene for the reader.
func (p *Play) diagnosis() string {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	status, _ := p.Lab.Hostler(ctx, "status")
	text := "status:\n" + status + "\nbroker:\n" + Tail(p.Lab.BrokerLog(), 15)
	if g := p.Guest(); g != nil {
		console, _ := g.Console()
		text += "\nconsole:\n" + Tail(console, 25)
		journal, _ := g.Run(ctx, "journalctl", "--no-pager", "-n", "25", "-u", "hostler-agent")
		text += "\nagent:\n" + journal.Stdout
	}
	return text
}

// Tail returns the last lines of a text.
func Tail(text string, lines int) string {
	all := strings.Split(strings.TrimRight(text, "\n"), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}
