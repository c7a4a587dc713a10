package main

import (
	"context"
	"fmt"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/test/demo/play"
	"github.com/hostler/hostler/test/lab"
	"github.com/hostler/hostler/test/maassim"
	"github.com/hostler/hostler/test/qemu"
)

const (
	node = "gpu-01"
	site = "dc1"
	sku  = "h100.80g.8gpu"
	gpus = 8
)

type demo struct {
	*play.Play
	image      *qemu.Image
	acme, beta *tenant
	one, two   string // their certificates
}

func (d *demo) node(ctx context.Context) error {
	if err := d.Broker(ctx); err != nil {
		return err
	}
	rootfs, err := d.GPUs(gpus)
	if err != nil {
		return err
	}
	if d.Rack, err = lab.NewRack(d.image, qemu.Config{Name: node, Rootfs: rootfs}, maassim.Box(1)); err != nil {
		return err
	}
	d.Say("The machine boots from its only disk. This site accepts that files are deleted there (accept_system_disk), which stands on")
	d.Say("each certificate as a downgrade. By default such a machine is reimaged: docs/how-to/turnover.md.")
	if err := d.Site(ctx, site, "accept_system_disk=true"); err != nil {
		return err
	}
	if err := d.Hostler(ctx, 3, "sku", "create", sku, "--gpu-vendor", "nvidia", "--gpu-model", "H100", "--gpu-count", fmt.Sprint(gpus),
		"--gpu-memory", play.GPUMemory+"iB"); err != nil {
		return err
	}
	if err := d.Watched(ctx, 12, "onboarding", "start", "--site", site, "--hostname", node, "--ipmi-ip", d.Rack.Box.BMC.Address,
		"--sku", sku, "--wait"); err != nil {
		return err
	}
	return d.Hostler(ctx, 6, "capacity")
}

func (d *demo) tenants(ctx context.Context) (err error) {
	if d.acme, err = newTenant(ctx, d.Play, "acme"); err != nil {
		return err
	}
	if d.beta, err = newTenant(ctx, d.Play, "beta"); err != nil {
		return err
	}
	d.Say("From here on no operator does anything: each command is a tenant's, with the token of its project.")
	return d.acme.refused(ctx, "role_insufficient", "node", "list")
}

func (d *demo) moveIn(ctx context.Context) error {
	if err := d.acme.moveIn(ctx); err != nil {
		return err
	}
	d.Saw("a request of acme's became a login on a machine with %d GPUs, by signed tasks alone", gpus)
	if err := d.beta.refused(ctx, "sku_unavailable", d.beta.request()...); err != nil {
		return err
	}
	if err := d.beta.refused(ctx, "allocation_not_found", "allocation", "show", d.acme.holds.ID); err != nil {
		return err
	}
	if err := d.beta.keptOut(ctx); err != nil {
		return err
	}
	d.Saw("beta was refused the node, saw nothing of acme's allocation, and its key let nobody in")
	return nil
}

// left is in all that acme leaves, on disk and in the memory of the GPUs.
const left = "acme-secret"

// residue lists what acme leaves. A search of the next tenant must find none of it.
var residue = []string{
	"echo " + left + " | tee /tmp/model.bin /var/tmp/weights /dev/shm/cache ~/.bash_history > /dev/null",
	"setsid nohup sleep 86400 > /dev/null 2>&1 < /dev/null &",
	`echo "* * * * * true # ` + left + `" | crontab -`,
	"ipcmk --shmem 65536 > /dev/null",
}

// search is a tenant's search for what another has left.
const search = "grep -rls " + left + " /tmp /var/tmp /dev/shm /home /var/spool; pgrep -x sleep; ipcs -m | grep " + broker.AllocationAccount

func (d *demo) leave(ctx context.Context) error {
	for _, line := range residue {
		if _, err := d.acme.does(ctx, line); err != nil {
			return err
		}
	}
	if err := d.LeaveInVRAM(ctx, broker.AllocationAccount, left); err != nil {
		return err
	}
	held, err := d.InVRAM(ctx, left)
	if err != nil || len(held) != gpus {
		return fmt.Errorf("the memory of %v holds what acme left: %w", held, err)
	}
	d.Say("A program of acme's left its weights in the memory of all %d GPUs: this driver does not clear what is freed.", gpus)
	return nil
}

func (d *demo) moveOut(ctx context.Context) (err error) {
	if d.one, err = d.acme.moveOut(ctx); err != nil {
		return err
	}
	held, err := d.InVRAM(ctx, left)
	if err != nil || len(held) != 0 {
		return fmt.Errorf("the memory of %v still holds what acme left: %w", held, err)
	}
	d.Saw("acme's release ended with a certificate; its key lets nobody in, and no GPU holds its weights")
	return nil
}

func (d *demo) next(ctx context.Context) error {
	if err := d.beta.moveIn(ctx); err != nil {
		return err
	}
	said, _ := d.beta.does(ctx, search) // the last grep finds nothing, and fails
	if said != "" {
		return fmt.Errorf("beta finds %s", said)
	}
	// What beta may not read is searched by root.
	if found, err := d.Guest().Run(ctx, "grep", "-rls", left, "/tmp", "/var/tmp", "/dev/shm", "/home", "/var/spool"); found.Exit != 1 {
		return fmt.Errorf("on the machine is %s: %w", found.Stdout, err)
	}
	if err := d.acme.keptOut(ctx); err != nil {
		return err
	}
	d.Saw("beta has the same machine: a search by beta, and one by root, find nothing of acme's, and acme's key is of no use")
	return nil
}

func (d *demo) receipts(ctx context.Context) (err error) {
	if d.two, err = d.beta.moveOut(ctx); err != nil {
		return err
	}
	if d.one == d.two {
		return fmt.Errorf("both have certificate %s", d.one)
	}
	file, err := d.acme.receipt(ctx, d.one)
	if err != nil {
		return err
	}
	if err := d.Flip(ctx, file); err != nil {
		return err
	}
	if _, err := d.beta.receipt(ctx, d.two); err != nil {
		return err
	}
	if err := d.beta.refused(ctx, "allocation_not_found", "allocation", "certificate", d.acme.holds.ID); err != nil {
		return err
	}
	d.Saw("two receipts, downloaded by the tenants and verified without the broker; one bit changed, and nothing is believed")
	return d.Hostler(ctx, 8, "usage")
}
