package store

import (
	"context"
	"slices"
	"strings"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/store/sqlkit"
)

// recordAccepted records as repairs the parts that a person accepted or attested. Where one part of a kind went and one
// came, it was replaced; all others were removed or added. A repair during a maintenance belongs to it.
func (t *tx) recordAccepted(ctx context.Context, actor broker.Actor, n broker.Node, before, after []broker.Device, reason string) error {
	gone, came := map[broker.DeviceKind][]broker.Device{}, map[broker.DeviceKind][]broker.Device{}
	for _, d := range after {
		i := slices.IndexFunc(before, func(b broker.Device) bool { return b.Kind == d.Kind && b.ID == d.ID })
		switch {
		case i < 0 || before[i].State == d.State:
		case d.State == broker.DeviceRemoved:
			gone[d.Kind] = append(gone[d.Kind], d)
		case before[i].State == broker.DeviceUnexpected:
			came[d.Kind] = append(came[d.Kind], d)
		}
	}
	open, err := sqlkit.Collect(ctx, t, scanMaintenance, `SELECT `+maintenanceColumns+` FROM maintenances WHERE node_id = $1 AND status = 'open'`, n.ID)
	if err != nil {
		return err
	}
	for _, kind := range []broker.DeviceKind{broker.DeviceDisk, broker.DeviceGPU} {
		for _, r := range acceptedRepairs(kind, gone[kind], came[kind]) {
			r.ID, r.NodeID, r.Source, r.Note = broker.NewTenantID(broker.RepairPrefix, t.now), n.ID, broker.RepairByDevice, reason
			r.OpenedAt, r.ClosedAt = t.now, t.now
			if len(open) > 0 {
				r.MaintenanceID, r.Ticket = open[0].ID, open[0].Ticket
			}
			if _, err := t.recordRepair(ctx, actor, &r); err != nil {
				return err
			}
		}
	}
	return nil
}

// acceptedRepairs pairs one part that is gone with one that came. With several nobody knows which replaces which.
func acceptedRepairs(kind broker.DeviceKind, gone, came []broker.Device) (all []broker.Repair) {
	part := func(d broker.Device) broker.RepairPart {
		serial := d.Serial
		if serial == "" {
			serial = strings.TrimSpace(d.ID)
		}
		return broker.RepairPart{Model: d.Model, Serial: serial}
	}
	of := broker.Repair{Category: broker.MaintenanceCategory(kind), Part: string(kind)}
	if len(gone) == 1 && len(came) == 1 && part(gone[0]).Serial != part(came[0]).Serial {
		of.Action, of.Old, of.New = "replaced", part(gone[0]), part(came[0])
		return []broker.Repair{of}
	}
	for _, d := range gone {
		r := of
		r.Action, r.Old = "removed", part(d)
		all = append(all, r)
	}
	for _, d := range came {
		r := of
		r.Action, r.New = "added", part(d)
		all = append(all, r)
	}
	return all
}
