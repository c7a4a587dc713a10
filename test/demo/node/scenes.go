package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/hostler/hostler/test/demo/play"
	"github.com/hostler/hostler/test/qemu"
)

const (
	node       = "gpu-01"
	tenant     = "alice"
	allocation = "a-1"
)

type demo struct {
	*play.Play
	image *qemu.Image
	token string // the enrolment token, to be stolen later
	run   play.Turnover
}

func (d *demo) broker(ctx context.Context) error {
	if err := d.Broker(ctx); err != nil {
		return err
	}
	d.Saw("a broker with its own CA, keys, database and administrator, from one command")
	return nil
}

// canary is in every file that the tenant leaves.
const canary = "secret-canary"

// residue lists a careless or hostile tenant's leftovers. For each there is a check that must find
// it, and a cleaner that must remove it.
var residue = []struct{ what, command string }{
	{"files in /tmp, /var/tmp and /dev/shm", "echo " + canary + " > /tmp/model.bin; echo " + canary + " > /var/tmp/weights; echo " +
		canary + " > /dev/shm/cache"},
	{"a process that outlives the session", "setsid nohup sleep 86400 > /dev/null 2>&1 < /dev/null &"},
	{"a cron entry", "echo '* * * * * true' | crontab -"},
	{"a shared-memory segment", "ipcmk --shmem 65536 > /dev/null"},
	{"shell history and a home full of files", "echo " + canary + " > ~/.bash_history; mkdir -p ~/data; echo " + canary + " > ~/data/set"},
}

func (d *demo) tenant(ctx context.Context) error {
	if err := d.Tenant(ctx, node, allocation, tenant, nil); err != nil {
		return err
	}
	for _, r := range residue {
		if err := d.As(ctx, tenant, r.command); err != nil {
			return fmt.Errorf("cannot plant %s: %w", r.what, err)
		}
		d.Say("%s leaves %s", tenant, r.what)
	}
	return d.vram(ctx)
}

func (d *demo) dirty(ctx context.Context) error {
	d.Typed("hostler task enqueue " + node + " node.validate_clean --wait")
	var t play.Task
	if err := d.Lab.JSON(ctx, &t, "task", "enqueue", node, "node.validate_clean", "--wait"); err != nil && t.ID == "" {
		return err
	}
	if err := d.Findings(ctx, t.ID); err != nil {
		return err
	}
	if t.Verdict != "not_clean" {
		return fmt.Errorf("the verdict is %q with a tenant's residue on the node, not not_clean", t.Verdict)
	}
	d.Saw("%d kinds of residue, and the verdict not_clean", len(residue))
	return nil
}

func (d *demo) evidence(ctx context.Context) error {
	if err := d.Hostler(ctx, 24, "node", "timeline", node); err != nil {
		return err
	}
	if err := d.Hostler(ctx, 6, "audit", "verify"); err != nil {
		return err
	}
	d.Saw("every task with its actor and evidence on one line of time, in an audit log whose seals hold")
	return nil
}

// nothingLeft searches the machine itself for the tenant's leftovers, independently of the agent.
func (d *demo) nothingLeft(ctx context.Context) error {
	found, err := d.Guest().Run(ctx, "grep", "-rlI", canary, "/tmp", "/var/tmp", "/dev/shm", "/home", "/var/spool", "/etc", "/root", "/opt",
		"/srv")
	if found.Exit != 1 { // 1: grep found nothing
		return fmt.Errorf("still on the node: %s %w", found.Stdout, err)
	}
	for what, argv := range map[string][]string{"a process": {"pgrep", "-u", tenant}, "an account": {"getent", "passwd", tenant}} {
		if r, err := d.Guest().Run(ctx, argv...); r.Exit == 0 {
			return errors.Join(fmt.Errorf("%s of %s's is still there: %s", what, tenant, r.Stdout), err)
		}
	}
	return nil
}
