//go:build e2e && e2e_all

package qemu_test

import (
	"bytes"
	"context"
	"net"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/hostler/hostler/test/qemu"
)

// TestGuestBootsAndComesBackFromItsSnapshot tests the harness end to end, on one guest, because
// booting takes most of the time.
func TestGuestBootsAndComesBackFromItsSnapshot(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	img, err := qemu.BuildImage(ctx, os.Stderr)
	if err != nil {
		t.Fatal(err)
	}

	began := time.Now()
	lap := func(what string) {
		t.Helper()
		t.Logf("%-28s %6.1f s", what, time.Since(began).Seconds())
		began = time.Now()
	}
	g := qemu.Start(t, img, qemu.Config{
		Name:     "n1",
		UserData: "#cloud-config\nwrite_files:\n- {path: /etc/from-user-data, content: seen}\nruncmd:\n- [sh, -c, 'echo user data ran > /dev/console']\n",
		Disks:    []int64{64 << 20},
	})
	must(t, g.WaitSSH(ctx))
	lap("start to ssh")
	must(t, g.WaitCloudInit(ctx))
	lap("ssh to cloud-init done")
	must(t, g.WaitBooted(ctx))
	lap("cloud-init to booted")
	if line, err := g.WaitConsole(ctx, regexp.MustCompile(`user data ran`)); err != nil || line == "" {
		t.Errorf("console: %q, %v", line, err)
	}
	if got := output(t, g, "cat", "/etc/from-user-data"); got != "seen" {
		t.Errorf("the file of the user-data is %q", got)
	}
	if got := output(t, g, "hostname"); got != "n1\n" {
		t.Errorf("the host is called %q", got)
	}
	if got := output(t, g, "lsblk", "-bno", "SIZE", "/dev/vdc"); strings.TrimSpace(got) != "67108864" {
		t.Errorf("the spare disk has %q bytes", got)
	}

	awkward := []string{"", "a b", "it's", "$(id)", "`id`", "\\", "*", "\n"}
	if got, want := output(t, g, append([]string{"printf", "%s\\0"}, awkward...)...), strings.Join(awkward, "\x00")+"\x00"; got != want {
		t.Errorf("argv arrives as %q, not %q", got, want)
	}
	if r, err := g.Run(ctx, "sh", "-c", "echo out; echo err >&2; exit 3"); err == nil || r.Exit != 3 || r.Stdout != "out\n" || r.Stderr != "err\n" {
		t.Errorf("a failing command gives %+v, %v", r, err)
	}
	began = time.Now()
	content := bytes.Repeat([]byte("0123456789abcdef"), 1<<20)
	must(t, g.Put(ctx, "/opt/a/b", content, 0o755))
	lap("put 16 MB")
	if got := output(t, g, "stat", "-c", "%s %a", "/opt/a/b"); got != "16777216 755\n" {
		t.Errorf("the file arrived as %q", got)
	}

	began = time.Now()
	must(t, g.SaveVM(ctx, "ready"))
	lap("savevm")
	must(t, g.WaitSSH(ctx))
	lap("savevm to ssh")
	for i := range 2 {
		output(t, g, "touch", "/etc/residue")
		then := time.Date(2031, 2, 3, 4, 5, 6+i, 0, time.UTC)
		began = time.Now()
		must(t, g.LoadVM(ctx, "ready", then))
		lap("loadvm, ssh, clock set")
		if _, err := g.Run(ctx, "test", "-e", "/etc/residue"); err == nil {
			t.Error("what came after the snapshot is still there")
		}
		now, err := time.Parse(time.RFC3339, strings.TrimSpace(output(t, g, "date", "-u", "+%Y-%m-%dT%H:%M:%SZ")))
		if err != nil || now.Before(then.Truncate(time.Second)) || now.After(then.Add(time.Minute)) {
			t.Errorf("the clock shows %v, %v; it was set to %v", now, err, then)
		}
	}
	if err := g.LoadVM(ctx, "never-saved", time.Now()); err == nil {
		t.Error("a snapshot that was never saved was loaded")
	}
	began = time.Now()
	twin, err := g.Twin(ctx)
	must(t, err)
	defer twin.Close()
	must(t, twin.LoadVM(ctx, "ready", time.Now()))
	lap("a twin, where it was saved")
	output(t, g, "touch", "/etc/of-the-first")
	output(t, twin, "touch", "/etc/of-the-twin")
	for guest, theirs := range map[*qemu.Guest]string{g: "/etc/of-the-twin", twin: "/etc/of-the-first"} {
		if got := output(t, guest, "stat", "-c", "%s %a", "/opt/a/b"); got != "16777216 755\n" {
			t.Errorf("what was saved is %q", got)
		}
		if _, err := guest.Run(ctx, "test", "-e", theirs); err == nil {
			t.Errorf("%s is on both guests", theirs)
		}
	}

	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer l.Close()
	_, port, err := net.SplitHostPort(l.Addr().String())
	must(t, err)
	if _, err := g.Run(ctx, "timeout", "5", "bash", "-c", "exec 3<>/dev/tcp/"+qemu.HostAddress+"/"+port); err == nil {
		t.Error("a guest that may reach nothing reached a listener of the host")
	}

	output(t, g, "logger", "seen in the journal")
	tells(t, g, "a guest that works", "seen in the journal", "QEMU: VM status: running", "RIP=", "user data ran")
	output(t, g, "mount", "--bind", "/usr/bin/false", "/usr/bin/journalctl")
	tells(t, g, "a guest with a journalctl that fails", "journal: journalctl ended with status 1")
	output(t, g, "umount", "/usr/bin/journalctl")
	must(t, g.Tell(ctx, "stop")) // the connection stays open without answers
	began = time.Now()
	tells(t, g, "a guest that is frozen", "QEMU: VM status: paused", "RIP=", "user data ran", "jobs: does not answer", "journal: does not answer")
	lap("a look at a frozen guest")
	must(t, g.Tell(ctx, "cont"))
	must(t, g.WaitSSH(ctx))
	must(t, g.SwitchOff(ctx))
	tells(t, g, "a guest without power", "does not answer", "QEMU: VM status: paused")
}

// tells examines a guest and checks the report. A look that never ends would hang the whole test.
func tells(t *testing.T, g *qemu.Guest, what string, wants ...string) {
	t.Helper()
	said := make(chan string, 1)
	go func() { said <- g.Examine(t.Context()) }()
	select {
	case text := <-said:
		for _, want := range wants {
			if !strings.Contains(text, want) {
				t.Errorf("%s is told without %q: %s", what, want, text)
			}
		}
	case <-time.After(3 * time.Minute):
		t.Fatalf("%s: nothing was told of it: a look at it does not end", what)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func output(t *testing.T, g *qemu.Guest, argv ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	r, err := g.Run(ctx, argv...)
	must(t, err)
	return r.Stdout
}
