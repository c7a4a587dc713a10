package main

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/hostler/hostler/test/demo/play"
	"github.com/hostler/hostler/test/lab"
	"github.com/hostler/hostler/test/qemu"
)

const node = "gpu-01"

type demo struct {
	*play.Play
	image   *qemu.Image
	session *lab.Terminal
	id      string
	shown   int // bytes of the session shown so far
}

func (d *demo) node(ctx context.Context) error {
	if err := d.Broker(ctx); err != nil {
		return err
	}
	if err := d.ByHand(ctx, d.image, qemu.Config{Name: node}, ""); err != nil {
		return err
	}
	return d.Tenant(ctx, node, "a-1", "alice", nil)
}

// does types a line into the session and waits for its output.
func (d *demo) does(ctx context.Context, line, shows string) error {
	return d.session.Does(ctx, line, shows)
}

// show prints the session's output since the last call.
func (d *demo) show() {
	text := d.session.Text()
	d.Printed(plain(text[d.shown:]), 40)
	d.shown = len(text)
}

// plain removes a terminal's control sequences.
func plain(text string) string {
	return escapes.ReplaceAllString(strings.ReplaceAll(text, "\r\n", "\n"), "")
}

// escapes matches control sequences that draw on a terminal.
var escapes = regexp.MustCompile("\x1b(?:\\[[0-9;?]*[A-Za-z]|[()].|.)|[\r\x0f]")

var sessionName = regexp.MustCompile(`session (ts-[a-z0-9]+) as alice`)

func (d *demo) open(ctx context.Context) (err error) {
	ports, err := d.InGuest(ctx, "ss", "-Hltnp")
	if err != nil {
		return err
	}
	if strings.Contains(ports, "hostler") {
		return fmt.Errorf("the agent listens: %s", ports)
	}
	d.Saw("nothing of Hostler's listens on the node")
	d.Typed("hostler terminal " + node + " --reason 'a look at the disks'")
	if d.session, err = d.Lab.Terminal("terminal", node, "--reason", "a look at the disks"); err != nil {
		return err
	}
	context.AfterFunc(ctx, d.session.Close)
	if _, err := d.session.Shows(ctx, "what it shows is recorded"); err != nil {
		return err
	}
	if _, err := d.session.Shows(ctx, "$ "); err != nil { // the shell is there
		return err
	}
	d.id = sessionName.FindStringSubmatch(d.session.Text())[1]
	for _, l := range [][2]string{
		{"PS1='$ '; NOTE=kept-by-the-shell; echo ready=$((6*7))", "ready=42"},
		{"whoami; id -u | sed s/^/uid=/", "\nuid="},
		{"echo this is $(uname -n), shell $$", "this is " + node},
		{"df -h / | tail -n 1", "% /"},
		{`printf '\033]0;owned\007the title: %s\n' dropped`, "the title: dropped"},
	} {
		if err := d.does(ctx, l[0], l[1]); err != nil {
			return err
		}
	}
	if strings.Contains(d.session.Text(), "\x1b]") {
		return fmt.Errorf("the node has set the title of the operator's terminal")
	}
	d.show()
	d.Saw("the shell is alice's, and what it wrote to set the terminal's title did not reach the terminal")
	return nil
}

func (d *demo) restart(ctx context.Context) error {
	before, err := d.InGuest(ctx, "systemctl", "show", "-P", "MainPID", "hostler-agent")
	if err != nil {
		return err
	}
	d.Typed("systemctl restart hostler-agent   # on the node")
	began := time.Now()
	if _, err := d.InGuest(ctx, "systemctl", "restart", "hostler-agent"); err != nil {
		return err
	}
	if err := d.does(ctx, "echo $NOTE-$((6*7))", "kept-by-the-shell-42"); err != nil {
		return err
	}
	took := time.Since(began)
	after, err := d.InGuest(ctx, "systemctl", "show", "-P", "MainPID", "hostler-agent")
	if err != nil || after == before {
		return fmt.Errorf("the agent was not restarted (%s, %s): %w", before, after, err)
	}
	if strings.Contains(d.session.Text(), "hostler: ") {
		return fmt.Errorf("the operator was told of a break: %q", d.session.Text())
	}
	d.show()
	d.Saw("the agent was restarted (process %s, then %s), and the shell answered %.1f s after the order, with what it held", before, after,
		took.Seconds())
	return nil
}

func (d *demo) refused(ctx context.Context) error {
	if err := d.Refused(ctx, []string{"terminal", node, "--user", "root", "--command", "id"}, "terminal_root_refused"); err != nil {
		return err
	}
	d.Saw("nobody is root there, as no policy says so")
	return nil
}

func (d *demo) played(ctx context.Context) error {
	if err := d.session.Type("exit 3\r"); err != nil {
		return err
	}
	status, err := d.session.End(ctx)
	if err != nil || status != 3 {
		return fmt.Errorf("the exit status is %d: %w", status, err)
	}
	d.show()
	err = d.Lab.Wait(ctx, "the session's end", func() error {
		var t struct {
			Status string `json:"status"`
		}
		if err := d.Lab.JSON(ctx, &t, "terminal", "show", d.id); err != nil || t.Status != "closed" {
			return fmt.Errorf("it is %q: %w", t.Status, err)
		}
		left, err := d.InGuest(ctx, "systemctl", "list-units", "--all", "--no-legend", "--plain", "hostler-terminal-*.service")
		if err != nil || left != "" {
			return fmt.Errorf("on the node is left: %s: %w", left, err)
		}
		return nil
	})
	if err != nil {
		return err
	}
	d.Saw("the exit status of the shell, 3, was that of hostler terminal; no unit of the session is left on the node")
	if err := d.Hostler(ctx, 4, "recording", "list"); err != nil {
		return err
	}
	play := []string{"recording", "play", d.id, "--speed", "20", "--idle-limit", "2s"}
	d.Typed("hostler " + strings.Join(play, " "))
	played, err := d.Lab.Hostler(ctx, play...)
	if err != nil {
		return err
	}
	d.Printed(plain(played), 40)
	if err := d.Hostler(ctx, 10, "recording", "verify", d.id); err != nil {
		return err
	}
	d.Saw("the recording was played back, and is complete by its hashes and by the audit log")
	return nil
}
