package onboarding

import (
	"context"

	"github.com/hostler/hostler/broker/chain"
	"github.com/hostler/hostler/broker/maas"
	"github.com/hostler/hostler/taskcatalog"
)

// configureStorage compares the machine with the SKU and prepares the boot disk. MAAS permits
// storage changes in Ready alone, before the machine is claimed.
func (c *Chains) configureStorage(ctx context.Context, r *run) error {
	at, err := c.look(ctx, r)
	if err != nil {
		return err
	}
	s := &r.State
	switch {
	case at.marked():
		return nil // done before the claim
	case at.Status == maas.Commissioning, at.Status == maas.Testing:
		return chain.Again(patience(r, lookAgain), "machine is %s", at.StatusName)
	case at.Status == maas.New && (at.free() || at.leftover()): // released, and never commissioned: MAAS then does not know its disks
		return c.recommission(ctx, at)
	case at.leftover() && at.Status == maas.Ready,
		s.Recommission && (at.Status == maas.Ready || at.Status == maas.FailedCommissioning || at.Status == maas.FailedTesting) &&
			(at.free() || at.leftover()):
		return c.recommission(ctx, at)
	case at.Status == maas.FailedCommissioning, at.Status == maas.FailedTesting:
		if s.Failed != "" && (at.free() || at.leftover()) {
			return c.recommission(ctx, at)
		}
		return at.notCommissioned(ctx)
	case at.Status != maas.Ready || !at.free():
		return at.refuseForeign("its storage can be prepared only in Ready")
	case at.Locked:
		return at.locked()
	}
	boot, err := fits(s.SKU, at.Machine)
	if err != nil {
		if s.Failed != "" { // a person has repaired the machine: MAAS notices when it commissions again
			return c.recommission(ctx, at)
		}
		s.Failed = failedHardware
		return err
	}
	s.Failed = ""
	if at.BootDisk == nil || at.BootDisk.ID != boot.ID {
		if err := at.region.SetBootDisk(ctx, at.SystemID, boot.ID); err != nil {
			return at.changeFault(ctx, err)
		}
		return chain.Again(next, "machine boots from %s", boot.Serial)
	}
	if err := at.region.SetFlatLayout(ctx, at.SystemID); err != nil {
		return at.changeFault(ctx, err)
	}
	s.BootDisk, s.Disks = &boot, nil
	for _, d := range at.Disks {
		s.Disks = append(s.Disks, deviceOf(d))
	}
	r.Note(map[string]any{"boot_disk": boot, "disks": s.Disks}, "the machine boots from %s", boot.Serial)
	return nil
}

// recommission has MAAS commission the machine again, or test it again if its tests failed.
func (c *Chains) recommission(ctx context.Context, at *place) error {
	at.state.Failed, at.state.Recommission = "", true
	if err := c.startCommissioning(ctx, at); err != nil {
		return err
	}
	if at.Status == maas.FailedTesting {
		return chain.Again(patience(at.run, lookAgain), "machine is tested again")
	}
	return chain.Again(patience(at.run, lookAgain), "machine is commissioned again")
}

func names(all []maas.Interface) []string {
	out := []string{}
	for _, i := range all {
		out = append(out, taskcatalog.Clean(i.Name, 32))
	}
	return out
}
