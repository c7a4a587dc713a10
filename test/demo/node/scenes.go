package main

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/hostler/hostler/test/demo/story"
	"github.com/hostler/hostler/test/lab"
	"github.com/hostler/hostler/test/maassim"
	"github.com/hostler/hostler/test/qemu"
)

const (
	node       = "gpu-01"
	tenant     = "alice"
	allocation = "a-1"
)

type demo struct {
	*story.Story
	lab    *lab.Lab
	image  *qemu.Image
	region *lab.Region
	metal  *lab.Metal
	box    maassim.Hardware
	bin    string // where the programs are
	dist   string // where the agent's package is
	token  string // the enrolment token, to be stolen later
}

func (d *demo) close() {
	if d.metal != nil {
		d.metal.Close()
	}
	if d.region != nil {
		d.region.Close()
	}
	d.lab.Close()
}

// guest is the machine as MAAS has installed it; nil before that.
func (d *demo) guest() *qemu.Guest {
	if d.metal == nil {
		return nil
	}
	g, err := d.metal.Guest()
	if err != nil {
		d.Say("%v", err)
	}
	return g
}

// diagnosis is what a failed scene leaves for the reader.
func (d *demo) diagnosis() string {
	text := "broker:\n" + tail(d.lab.BrokerLog(), 15)
	if g := d.guest(); g != nil {
		console, _ := g.Console()
		text += "\nconsole:\n" + tail(console, 25)
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		journal, _ := g.Run(ctx, "journalctl", "--no-pager", "-n", "25", "-u", "hostler-agent")
		text += "\nagent:\n" + journal.Stdout
	}
	return text
}

func tail(text string, lines int) string {
	all := strings.Split(strings.TrimRight(text, "\n"), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}

// hostler types a command, runs it, and shows what it printed.
func (d *demo) hostler(ctx context.Context, limit int, args ...string) error {
	d.Typed("hostler " + strings.Join(args, " "))
	text, err := d.lab.Hostler(ctx, args...)
	d.Printed(text, limit)
	return err
}

func (d *demo) broker(ctx context.Context) error {
	d.Typed("hostler-broker serve --data-dir …")
	if err := d.lab.StartBroker(ctx); err != nil {
		return err
	}
	debs, err := filepath.Glob(filepath.Join(d.dist, "hostler-agent_*.deb"))
	if err != nil || len(debs) == 0 {
		return fmt.Errorf("cannot find the agent's package in %s (make package)", d.dist)
	}
	slices.Sort(debs)
	if err := d.hostler(ctx, 4, "agent-release", "publish", debs[len(debs)-1]); err != nil {
		return err
	}
	if err := d.hostler(ctx, 4, "resolver", "push", "resolver-profiles", "--nodes", "all", "--version", "shipped"); err != nil {
		return err
	}
	d.Saw("a broker with its own CA, keys, database and administrator, from one command")
	return nil
}

// residue is what a careless or hostile tenant leaves. Each has a check that
// must find it, and a cleaner that must remove it.
var residue = []struct{ what, command string }{
	{"files in /tmp, /var/tmp and /dev/shm", "echo secret-canary > /tmp/model.bin; echo secret-canary > /var/tmp/weights; echo secret-canary > /dev/shm/cache"},
	{"a process that outlives the session", "setsid nohup sleep 86400 > /dev/null 2>&1 < /dev/null &"},
	{"a cron entry", "echo '* * * * * true' | crontab -"},
	{"a shared-memory segment", "ipcmk --shmem 65536 > /dev/null"},
	{"shell history and a home full of files", "echo secret-canary > ~/.bash_history; mkdir -p ~/data; echo secret-canary > ~/data/set"},
}

func (d *demo) tenant(ctx context.Context) error {
	file := d.lab.Path("alice.json")
	if err := tenantParams(file); err != nil {
		return err
	}
	d.Typed("hostler task enqueue " + node + " allocation.provision_user --params alice.json --wait")
	text, err := d.lab.Hostler(ctx, "task", "enqueue", node, "allocation.provision_user", "--params", file, "--wait")
	if err != nil {
		return err
	}
	d.Printed(text, 8)
	for _, r := range residue {
		result, err := d.guest().Run(ctx, "runuser", "-u", tenant, "--", "sh", "-c", r.command)
		if err != nil || result.Exit != 0 {
			return fmt.Errorf("cannot plant %s: %w %s", r.what, err, result.Stderr)
		}
		d.Say("%s leaves %s", tenant, r.what)
	}
	return nil
}

// task is what the scenes read of a task's JSON.
type task struct {
	ID      string `json:"id"`
	Type    string `json:"type"`
	Status  string `json:"status"`
	Verdict string `json:"verdict"`
	Code    string `json:"code"`
	Message string `json:"message"`
}

// validate runs validate_clean and returns its verdict.
func (d *demo) validate(ctx context.Context) (task, error) {
	d.Typed("hostler task enqueue " + node + " node.validate_clean --wait")
	var t task
	if err := d.lab.JSON(ctx, &t, "task", "enqueue", node, "node.validate_clean", "--wait"); err != nil && t.ID == "" {
		return t, err
	}
	text, err := d.lab.Hostler(ctx, "task", "show", t.ID)
	d.Printed(text, 40)
	return t, err
}

func (d *demo) dirty(ctx context.Context) error {
	t, err := d.validate(ctx)
	if err != nil {
		return err
	}
	if t.Verdict != "not_clean" {
		return fmt.Errorf("the verdict is %q with a tenant's residue on the node, not not_clean", t.Verdict)
	}
	d.Saw("%d kinds of residue, and the verdict not_clean", len(residue))
	return nil
}

func (d *demo) clean(ctx context.Context) error {
	for _, args := range [][]string{
		{"task", "enqueue", node, "allocation.revoke_user", "-p", "allocation_id=" + allocation, "-p", "username=" + tenant, "--wait", "--yes"},
		{"task", "enqueue", node, "node.storage_cleanup", "-p", "scope=local", "--wait", "--yes"},
	} {
		if err := d.hostler(ctx, 12, args...); err != nil {
			return err
		}
	}
	t, err := d.validate(ctx)
	if err != nil {
		return err
	}
	if t.Verdict != "clean" {
		return fmt.Errorf("the verdict after the cleanup is %q, not clean", t.Verdict)
	}
	// Not the agent's word: the disk itself is searched for what was planted.
	found, err := d.guest().Run(ctx, "grep", "-rlI", "secret-canary", "/tmp", "/var/tmp", "/dev/shm", "/home", "/var/spool/cron")
	if found.Exit != 1 { // 1: grep found nothing
		return fmt.Errorf("still on the node: %s %w", found.Stdout, err)
	}
	d.Saw("after revoke and cleanup the verdict is clean, and a search of the node finds nothing of %s's", tenant)
	return nil
}

func (d *demo) evidence(ctx context.Context) error {
	if err := d.hostler(ctx, 24, "node", "timeline", node); err != nil {
		return err
	}
	if err := d.hostler(ctx, 6, "audit", "verify"); err != nil {
		return err
	}
	d.Saw("every task with its actor and evidence on one line of time, in an audit log whose seals hold")
	return nil
}
