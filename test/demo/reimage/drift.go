package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/hostler/hostler/taskcatalog"
	"github.com/hostler/hostler/test/demo/play"
	"github.com/hostler/hostler/test/lab"
	"github.com/hostler/hostler/test/maassim"
)

func (d *demo) drift(ctx context.Context) error {
	d.Say("A new site only observes. This one shall act on a machine that is released behind its back:")
	if err := d.Hostler(ctx, 4, "site", "reconcile", "set", site, "released=act", "--confirm", "10s",
		"--reason", "read the list for a week"); err != nil {
		return err
	}
	m, has := d.Rack.Of(node)
	if !has {
		return errors.New("MAAS has no machine of that name")
	}
	if err := d.Rack.ByHand(maassim.ReadyByHand, m.SystemID); err != nil {
		return err
	}
	d.Say("Somebody releases machine %s in MAAS.", m.SystemID)
	err := d.Lab.Wait(ctx, "the drift", func() error {
		if _, err := d.Lab.Hostler(ctx, "reconcile", "run", site); err != nil {
			return err
		}
		n, err := d.Node(ctx, node)
		if err == nil && n.Status != "quarantined" {
			err = fmt.Errorf("the node is %s", n.Status)
		}
		return err
	})
	if err != nil {
		return err
	}
	if err := d.resolve(ctx, "released", "a person pressed the wrong button: the node goes"); err != nil {
		return err
	}
	n, err := d.Node(ctx, node)
	if err != nil || n.Status != "quarantined" {
		return fmt.Errorf("a resolved drift has let the node in: %+v: %w", n, err)
	}
	d.Saw("a machine that was released behind the broker's back: found in two looks, the node quarantined, and dealt with by a person")
	return nil
}

func (d *demo) erase(ctx context.Context) error {
	if err := d.soil(ctx); err != nil {
		return err
	}
	network, err := lab.NetworkDisk(ctx, d.Guest())
	if err != nil {
		return err
	}
	drive := lab.DiskName(ctx, d.Guest(), "nvme0n1")
	if drive.Serial != d.drive.Serial {
		return fmt.Errorf("nvme0n1 is %+v", drive)
	}
	d.Say("The guest mounts a disk over the network (NVMe/TCP), serial %s. An erase names the drive, and that disk by mistake:",
		network.Serial)
	before, err := os.ReadFile(d.drive.File)
	if err != nil {
		return err
	}
	t, err := d.diskErase(ctx, "both.json", drive, network)
	if err != nil {
		return err
	}
	after, err := os.ReadFile(d.drive.File)
	if err != nil || t.Code != "disk_not_local" || !slices.Equal(before, after) {
		return fmt.Errorf("it ended %s (%s), and the drive is as before: %v: %w", t.Status, t.Code, slices.Equal(before, after), err)
	}
	d.Saw("an erase that names a network disk was refused as a whole (%s): not a byte of the drive beside it was changed, seen from outside", t.Code)
	if err := lab.NoNetworkDisk(ctx, d.Guest()); err != nil {
		return err
	}
	d.Say("And the drive alone:")
	if t, err = d.diskErase(ctx, "drive.json", drive); err != nil {
		return err
	}
	var result taskcatalog.DiskEraseResult
	if err := json.Unmarshal(t.Result, &result); err != nil || t.Status != "succeeded" || len(result.Disks) != 1 {
		return fmt.Errorf("it ended %s: %s: %s: %w", t.Status, t.Code, t.Message, err)
	}
	row := result.Disks[0]
	if row.Method != taskcatalog.MethodNVMeFormatErase || row.Verification != "verified" || row.CoveredBytes != driveSize {
		return fmt.Errorf("it says %+v", row)
	}
	if err := d.clean(); err != nil {
		return err
	}
	d.Saw("the drive was erased by its own command (%s, %s), and the file that it is holds nothing of %s's any more", row.Method,
		row.Verification, tenant)
	return nil
}

// diskErase has the node erase the named disks, and returns the ended task.
func (d *demo) diskErase(ctx context.Context, name string, disks ...taskcatalog.DiskName) (t play.Task, err error) {
	raw, err := json.Marshal(taskcatalog.DiskEraseParams{Mode: taskcatalog.EraseSecure, Disks: disks})
	if err != nil {
		return t, err
	}
	file := d.Lab.Path(name)
	if err := os.WriteFile(file, raw, 0o600); err != nil {
		return t, err
	}
	args := []string{"task", "enqueue", node, "node.disk_erase", "--params", file, "--yes", "--wait"}
	err = d.Watched(ctx, 40, args...)
	if _, is := errors.AsType[*lab.ExitError](err); err != nil && !is {
		return t, err
	}
	return d.LastTask(ctx, node, "node.disk_erase")
}
