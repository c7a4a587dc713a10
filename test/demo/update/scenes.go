package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/hostler/hostler/taskcatalog"
	"github.com/hostler/hostler/taskcatalog/release"
	"github.com/hostler/hostler/test/demo/play"
	"github.com/hostler/hostler/test/lab"
	"github.com/hostler/hostler/test/qemu"
	"github.com/hostler/hostler/test/registry"
)

const (
	node   = "gpu-01"
	good   = "1.1.0"
	broken = "1.2.0"
)

type demo struct {
	*play.Play
	image      *qemu.Image
	releases   *lab.Releases
	repository string
	first      string // the package's version
}

func (d *demo) node(ctx context.Context) error {
	if err := d.Broker(ctx); err != nil {
		return err
	}
	if err := d.ByHand(ctx, d.image, qemu.Config{Name: node}, "update_watch: 5s\n"); err != nil {
		return err
	}
	said, err := d.InGuest(ctx, "hostler-agent", "version")
	if err != nil {
		return err
	}
	d.first = strings.Fields(said)[1]
	return d.Hostler(ctx, 20, "node", "agent-lifecycle", node)
}

func (d *demo) publish(ctx context.Context) error {
	r, err := registry.Run(d.Lab.Path("registry"), registry.Config{})
	if err != nil {
		return err
	}
	context.AfterFunc(ctx, r.Stop)
	_, port, _ := strings.Cut(r.Addr, ":")
	if err := lab.LeadTo(ctx, d.Alone, port); err != nil {
		return err
	}
	d.repository = r.Addr + "/hostler/agent"
	if d.releases, err = d.Lab.NewReleases(ctx); err != nil {
		return err
	}
	d.Say("A release key was added to the trust bundle. A node believes a release that such a key signed, and nothing else about it.")
	program, err := d.releases.Build(ctx, good)
	if err != nil {
		return err
	}
	return d.release(ctx, good, program)
}

func (d *demo) release(ctx context.Context, version, program string) error {
	for _, args := range d.releases.Commands(version, program, "--registry", d.repository, "--plain-http") {
		if err := d.Hostler(ctx, 6, args...); err != nil {
			return err
		}
	}
	return d.Hostler(ctx, 6, "agent-release", "list")
}

// rollout holds the fields of a rollout's JSON that the scenes read.
type rollout struct {
	ID     string `json:"id"`
	Status string `json:"status"`
	Code   string `json:"error_code"`
}

func (d *demo) start(version string) []string {
	return []string{
		"rollout", "start", "--release", version, "--nodes", "all", "--canary", "1", "--soak", "5s", "--max-failures", "1",
		"--reason", "this week's agent", "--wait",
	}
}

func (d *demo) last(ctx context.Context) (r rollout, err error) {
	var list struct {
		Items []rollout `json:"items"`
	}
	if err := d.Lab.JSON(ctx, &list, "rollout", "list"); err != nil || len(list.Items) == 0 {
		return r, fmt.Errorf("there is no rollout: %w", err)
	}
	return list.Items[0], nil
}

// update returns the node's result of its last update.
func (d *demo) update(ctx context.Context) (res taskcatalog.SelfUpdateResult, err error) {
	t, err := d.LastTask(ctx, node, "node.self_update")
	if err != nil {
		return res, err
	}
	return res, json.Unmarshal(t.Result, &res)
}

// runs checks that the guest's kernel runs the version's agent.
func (d *demo) runs(ctx context.Context, version string) error {
	pid, err := d.InGuest(ctx, "systemctl", "show", "-P", "MainPID", "hostler-agent")
	if err != nil {
		return err
	}
	exe, err := d.InGuest(ctx, "readlink", "/proc/"+pid+"/exe")
	if err == nil && !strings.HasSuffix(exe, "/versions/"+version+"/hostler-agent") {
		err = fmt.Errorf("%s runs, and not %s", exe, version)
	}
	return err
}

func (d *demo) rollOut(ctx context.Context) error {
	if err := d.Watched(ctx, 40, d.start(good)...); err != nil {
		return err
	}
	if err := d.runs(ctx, good); err != nil {
		return err
	}
	res, err := d.update(ctx)
	if err != nil || res.Outcome != taskcatalog.UpdateConfirmed {
		return fmt.Errorf("the node says %+v: %w", res, err)
	}
	d.Saw("%s came to the node by the registry's digest and a release key's signature: %.1f s from the stop of %s until %s was confirmed",
		good, res.SwitchSeconds, d.first, good)
	return d.Hostler(ctx, 20, "node", "agent-lifecycle", node)
}

// proved waits until a version is the node's rollback target.
func (d *demo) proved(ctx context.Context, version string) error {
	return d.Lab.Wait(ctx, version+" to be known to work", func() error {
		to, err := d.InGuest(ctx, "readlink", "/usr/lib/hostler-agent/good")
		if err == nil && !strings.HasSuffix(to, "/"+version) {
			err = fmt.Errorf("it is %s", to)
		}
		return err
	})
}

func (d *demo) broken(ctx context.Context) error {
	if err := d.proved(ctx, good); err != nil {
		return err
	}
	program, err := d.releases.StandIn(broken, release.Arch, "exit 1")
	if err != nil {
		return err
	}
	d.Say("%s is signed as well, and passes its own test. But its agent ends as soon as it begins.", broken)
	if err := d.release(ctx, broken, program); err != nil {
		return err
	}
	if err := play.Stopped(d.Watched(ctx, 40, d.start(broken)...)); err != nil {
		return err
	}
	r, err := d.last(ctx)
	if err != nil {
		return err
	}
	if err := d.Hostler(ctx, 30, "rollout", "status", r.ID); err != nil {
		return err
	}
	if err := d.runs(ctx, good); err != nil {
		return err
	}
	res, err := d.update(ctx)
	if err != nil || res.Outcome != taskcatalog.UpdateRolledBack {
		return fmt.Errorf("the node says %+v: %w", res, err)
	}
	d.Saw("%s was put back by the node's own watcher: %s was ready again %.1f s after %s had first ended (%s)", broken, good,
		res.SwitchSeconds, broken, res.Reason)
	d.Saw("the rollout paused by itself (%s), and no other node would have been given it", r.Code)
	return nil
}

func (d *demo) alone(ctx context.Context) error {
	d.Typed("hostler-agent update show          # on the node")
	said, err := d.InGuest(ctx, "hostler-agent", "update", "show")
	d.Printed(said, 30)
	if err == nil && !strings.Contains(said, broken) {
		err = fmt.Errorf("it does not say that %s is skipped", broken)
	}
	return err
}

func (d *demo) truth(ctx context.Context) error {
	r, err := d.last(ctx)
	if err != nil {
		return err
	}
	for _, args := range [][]string{
		{"rollout", "abort", r.ID, "--reason", broken + " does not come up"},
		{"agent-release", "revoke", broken, "--reason", "it does not come up", "--yes"},
		{"rollout", "list"},
		{"node", "agent-lifecycle", node},
	} {
		if err := d.Hostler(ctx, 20, args...); err != nil {
			return err
		}
	}
	if err := d.Refused(ctx, d.start(broken), "revoked"); err != nil {
		return err
	}
	d.Saw("%s is revoked: nobody is given it any more", broken)
	return d.Hostler(ctx, 6, "audit", "verify")
}
