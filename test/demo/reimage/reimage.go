package main

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/hostler/hostler/test/demo/play"
	"github.com/hostler/hostler/test/lab"
)

func (d *demo) reimage(ctx context.Context) error {
	knocked := make(chan error, 1)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		err := d.oldSystem(ctx)
		if err != nil {
			cancel() // there is nothing to wait for any more
		}
		knocked <- err
	}()
	err := play.Stopped(d.Watched(ctx, 40, "decommission", "start", node, "--mode", "reimage", "--erase", "secure", "--force-release",
		"--reason", "allocation a-1 ended", "--yes", "--wait"))
	if err := errors.Join(<-knocked, err); err != nil {
		return err
	}
	if d.run, err = d.LastTurnover(ctx, node); err != nil || d.run.Class != "state_ambiguity" || d.run.Code != "previous_os_alive" {
		return fmt.Errorf("the reimage is %+v: %w", d.run, err)
	}
	d.Saw("the identity that was copied before the release was refused, and the reimage stopped for a person: the previous OS is still running")
	return nil
}

// oldSystem connects with the copied identity as soon as MAAS has the machine back.
func (d *demo) oldSystem(ctx context.Context) error {
	err := d.Lab.Wait(ctx, "the deployment of a fresh system", func() error {
		t, err := d.LastTurnover(ctx, node)
		if err != nil {
			return err
		}
		if !slices.Contains([]string{"deploy_via_maas", "wait_for_deployed", "wait_for_hardware_sync_healthy"}, t.Stage) {
			return fmt.Errorf("the reimage is at %s", t.Stage)
		}
		return nil
	})
	if err != nil {
		return err
	}
	if err := d.clean(); err != nil {
		return fmt.Errorf("MAAS has the machine back: %w", err)
	}
	d.Meanwhile("MAAS has the machine back; the file that the NVMe drive is holds nothing of %s's any more", tenant)
	code, err := d.first.Knock(ctx, d.Lab)
	if err != nil {
		return err
	}
	if code != "certificate_denied" {
		return fmt.Errorf("the old identity was refused by %s", code)
	}
	d.Meanwhile("from elsewhere somebody is the old system, with the key that was copied: refused (%s)", code)
	return nil
}

// drifts shows the open drifts and returns their rules.
func (d *demo) drifts(ctx context.Context) (rules []string, err error) {
	if err := d.Hostler(ctx, 6, "drift", "list"); err != nil {
		return nil, err
	}
	var open struct {
		Items []struct {
			Rule string `json:"rule"`
		} `json:"items"`
	}
	err = d.Lab.JSON(ctx, &open, "drift", "list")
	for _, o := range open.Items {
		rules = append(rules, o.Rule)
	}
	return rules, err
}

// resolve resolves the drift of the rule; no other drift may be open.
func (d *demo) resolve(ctx context.Context, rule, reason string) error {
	rules, err := d.drifts(ctx)
	if err != nil || !slices.Equal(rules, []string{rule}) {
		return fmt.Errorf("the drifts are %v, not %s: %w", rules, rule, err)
	}
	if err := d.Hostler(ctx, 4, "drift", "resolve", node, "--reason", reason); err != nil {
		return err
	}
	if rules, err = d.drifts(ctx); err != nil || len(rules) > 0 {
		return fmt.Errorf("after that the drifts are %v: %w", rules, err)
	}
	return nil
}

func (d *demo) resume(ctx context.Context) error {
	if err := d.resolve(ctx, "previous_os_alive", "it was a copy, on a laptop"); err != nil {
		return err
	}
	if err := d.Watched(ctx, 40, "decommission", "resume", d.run.ID, "--reason", "looked at", "--wait"); err != nil {
		return err
	}
	var err error
	if d.run, err = d.LastTurnover(ctx, node); err != nil || d.run.Status != "completed" || !d.run.MeetsPolicy {
		return fmt.Errorf("the reimage is %+v: %w", d.run, err)
	}
	n, err := d.Node(ctx, node)
	if err != nil || n.ID != d.id || n.Epoch != 2 || n.Status != "active" || !n.Handout.OK {
		return fmt.Errorf("the node is %+v, and was %s: %w", n, d.id, err)
	}
	boot, err := d.InGuest(ctx, "cat", "/proc/sys/kernel/random/boot_id")
	if err != nil || boot == d.boot || d.Deployed() != 2 {
		return fmt.Errorf("it is boot %s after %s, and MAAS has deployed it %d times: %w", boot, d.boot, d.Deployed(), err)
	}
	if r, err := d.Guest().Run(ctx, "test", "-e", "/var/lib/kept", "-o", "-e", "/etc/systemd/system/kept.service", "-o",
		"-e", "/home/"+tenant); r.Exit != 1 {
		return fmt.Errorf("something of %s's is on the fresh system: %w", tenant, err)
	}
	if r, err := d.Guest().Run(ctx, "getent", "passwd", "toor", tenant); r.Stdout != "" {
		return fmt.Errorf("an account of %s's is on the fresh system: %s %w", tenant, r.Stdout, err)
	}
	d.last, err = lab.TakeIdentity(ctx, d.Guest(), d.Lab.Path("last"))
	if err != nil {
		return err
	}
	d.Saw("the same node id on a fresh system, enrolled by another token: nothing of %s's is there", tenant)
	return nil
}

func (d *demo) proof(ctx context.Context) error {
	c, file, err := d.Verify(ctx, d.run.Certificate)
	if err != nil {
		return err
	}
	disks := 0
	for _, k := range c.Devices {
		if k.Kind == "disk" && k.Method == "maas_secure_erase" && k.Verification != "verified" {
			disks++
		}
	}
	if c.Environment != "fresh_os" || c.Node.ID != d.id || c.Node.Epoch != 2 || disks != 2 || !c.Verdict.MeetsPolicy {
		return fmt.Errorf("the certificate says %+v", c)
	}
	if err := d.Flip(ctx, file); err != nil {
		return err
	}
	d.Saw("a certificate in fresh_os, verified with a file of keys alone; of the disks it says that MAAS erased them and nobody read them again")
	return nil
}
