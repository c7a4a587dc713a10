package main

import (
	"context"
	"fmt"

	"github.com/hostler/hostler/test/demo/play"
	"github.com/hostler/hostler/test/lab"
	"github.com/hostler/hostler/test/maassim"
	"github.com/hostler/hostler/test/qemu"
)

const (
	node       = "gpu-01"
	site       = "dc1"
	sku        = "xe9680.no-gpu"
	tenant     = "mallory"
	allocation = "a-1"
	canary     = "what mallory wrote and nobody may read again" // on the disks
	driveSize  = 64 << 20
)

type demo struct {
	*play.Play
	image *qemu.Image
	drive *lab.Drive
	id    string        // of the node
	first *lab.Identity // of the system that the tenant had root on
	last  *lab.Identity // of the next system
	boot  string        // the first system's boot id
	run   play.Turnover
}

func (d *demo) site(ctx context.Context) (err error) {
	if err := d.Broker(ctx); err != nil {
		return err
	}
	if d.drive, err = lab.NewDrive(d.Lab.Path("nvme.raw"), "NVME1", driveSize); err != nil {
		return err
	}
	if d.Rack, err = lab.NewRack(d.image, qemu.Config{Name: node}, maassim.Box(1), d.drive); err != nil {
		return err
	}
	d.Say("A simulated MAAS 3.6 at %s has one machine: it boots from one disk, and has an NVMe drive beside it.", d.Rack.At("127.0.0.1"))
	d.Say("This site takes MAAS's word that it erased a disk (accept_maas_erase): the certificate says that nobody has read it again.")
	if err := d.Site(ctx, site, "accept_maas_erase=true"); err != nil {
		return err
	}
	return d.Hostler(ctx, 3, "sku", "create", sku)
}

func (d *demo) onboard(ctx context.Context) error {
	if err := d.Watched(ctx, 12, "onboarding", "start", "--site", site, "--hostname", node, "--ipmi-ip", d.Rack.Box.BMC.Address,
		"--sku", sku, "--wait"); err != nil {
		return err
	}
	n, err := d.Node(ctx, node)
	if err != nil || n.Status != "active" || n.Epoch != 1 {
		return fmt.Errorf("the node is %+v: %w", n, err)
	}
	d.id = n.ID
	if d.first, err = lab.TakeIdentity(ctx, d.Guest(), d.Lab.Path("first")); err != nil {
		return err
	}
	d.boot, err = d.InGuest(ctx, "cat", "/proc/sys/kernel/random/boot_id")
	return err
}

func (d *demo) tenant(ctx context.Context) error {
	if err := d.Tenant(ctx, node, allocation, tenant, map[string]any{"sudo": true}); err != nil {
		return err
	}
	if err := d.soil(ctx); err != nil {
		return err
	}
	for what, line := range map[string]string{
		"puts an account of its own beside root": "useradd --non-unique --uid 0 --gid 0 toor",
		"has a unit start at each boot":          "printf '[Service]\nExecStart=/bin/sleep 86400\n[Install]\nWantedBy=multi-user.target\n' > /etc/systemd/system/kept.service && systemctl enable --now kept.service",
		"leaves its data on the system's disk":   "echo '" + canary + "' > /var/lib/kept; sync",
	} {
		if _, err := d.InGuest(ctx, "sh", "-c", line); err != nil {
			return err
		}
		d.Say("%s %s", tenant, what)
	}
	d.Say("and copies the agent's key and certificate, to be the node from elsewhere.")
	return d.Hostler(ctx, 40, "decommission", "plan", node, "--mode", "reimage", "--erase", "secure")
}

// soil fills the drive with the tenant's data and checks the drive's file from outside.
func (d *demo) soil(ctx context.Context) error {
	if _, err := d.InGuest(ctx, "sh", "-c", "yes '"+canary+
		"' | dd of=/dev/nvme0n1 bs=1M iflag=fullblock oflag=direct status=none || true"); err != nil {
		return err
	}
	n, err := d.drive.Count(canary)
	if err == nil && n < driveSize/(len(canary)+1)-1 {
		err = fmt.Errorf("the drive's file holds only %d lines", n)
	}
	if err != nil {
		return err
	}
	d.Say("The NVMe drive is full of what %s wrote: %d lines in the file that the drive is, read from outside.", tenant, n)
	return nil
}

// clean checks the drive from outside.
func (d *demo) clean() error {
	n, err := d.drive.Count(canary[:20])
	if err == nil && n > 0 {
		err = fmt.Errorf("%d lines are left on the drive", n)
	}
	return err
}

func (d *demo) decommission(ctx context.Context) error {
	if err := d.Watched(ctx, 40, "decommission", "start", node, "--mode", "full_decommission", "--reason", "sold", "--yes",
		"--wait"); err != nil {
		return err
	}
	n, err := d.Node(ctx, d.id)
	if err != nil || n.Status != "deleted" {
		return fmt.Errorf("the node is %+v: %w", n, err)
	}
	m, has := d.Rack.Of(node)
	if !has || m.Status != maassim.Ready || m.On {
		return fmt.Errorf("the machine is %v in MAAS, on %v", m.Status, m.On)
	}
	d.Saw("the node is deleted; its machine is Ready in MAAS, and off")
	for whose, i := range map[string]*lab.Identity{"of the first system": d.first, "of the last system": d.last} {
		code, err := i.Knock(ctx, d.Lab)
		if err != nil {
			return err
		}
		d.Say("The identity %s is refused: %s", whose, code)
	}
	d.Say("Somebody brings it back by its id:")
	for _, args := range [][]string{
		{"node", "activate", d.id, "--override", "--reason", "we need it"},
		{"node", "token", "extend", d.id, "--reason", "we need it"},
	} {
		if err := d.Refused(ctx, args, "deleted"); err != nil {
			return err
		}
	}
	d.Saw("its id never comes back: no certificate that it ever had is let in, and no operator revives it")
	return d.Hostler(ctx, 6, "audit", "verify")
}
