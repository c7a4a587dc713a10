package turnover

import (
	"context"
	"slices"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/chain"
	"github.com/hostler/hostler/broker/taskstage"
	"github.com/hostler/hostler/taskcatalog"
)

// nothingToErase reports that no erase was requested, or that all disks of the node are on record
// as the system's or as not its own.
func (c *Chains) nothingToErase(ctx context.Context, r *run) (bool, error) {
	if r.State.Erase == EraseNone {
		return true, nil
	}
	p, err := c.parts(ctx, r)
	if err != nil || p.NoFacts {
		return false, err
	}
	all := broker.JudgeDisks(p.Devices, p.Facts)
	stops := func(d broker.JudgedDisk) bool {
		return r.State.Mode != FullDecommission && d.Code == taskcatalog.CodeDiskNoSize
	}
	return len(erasable(all)) == 0 && !slices.ContainsFunc(all, stops), nil
}

// erasable names the disks to erase, as the node has reported them. The agent refuses the whole
// task if a named disk has changed or may not be erased. Only the record, or a disk's lack of a
// size, leaves a disk out.
func erasable(all []broker.JudgedDisk) (names []taskcatalog.DiskName) {
	for _, d := range all {
		if d.Use == broker.DiskData && d.Code != taskcatalog.CodeDiskNoSize {
			names = append(names, taskcatalog.DiskName{Serial: d.Serial, WWN: d.WWID, Model: d.Model, SizeBytes: d.SizeBytes})
		}
	}
	return names
}

// eraseDisks erases each disk that the record does not leave out.
func (c *Chains) eraseDisks(ctx context.Context, r *run) error {
	p, err := c.parts(ctx, r)
	switch {
	case err != nil:
		return err
	case p.NoFacts:
		return factsUnknown(r)
	}
	all := broker.JudgeDisks(p.Devices, p.Facts)
	if err := c.unreached(ctx, r, all); err != nil {
		return err
	}
	params := taskcatalog.DiskEraseParams{Disks: erasable(all), Mode: r.State.Erase, DPUEmulatedOK: p.DPUDisks}
	k, err := c.request(ctx, r, unerased, taskstage.Task{Type: "node.disk_erase", Params: params}, "")
	if err != nil {
		return err
	}
	var result taskcatalog.DiskEraseResult
	if err := unmarshal(k, &result); err != nil {
		return err
	}
	for _, d := range result.Disks {
		if d.Verdict != taskcatalog.VerdictClean {
			return c.unclean(ctx, r, unerased, k, "disk %s is not erased: %s %s", taskcatalog.Clean(d.Serial+" "+d.Name, 100), d.Code,
				taskcatalog.Clean(d.Message, 200))
		}
	}
	r.Note(map[string]any{"task_id": k.ID, "disks": len(result.Disks)}, "%d disks are erased", len(result.Disks))
	return nil
}

// unreached stops before an erase that would miss a part of a disk, or a whole disk. A node that
// is being removed is erased as far as possible, and its certificate states the limits.
func (c *Chains) unreached(ctx context.Context, r *run, all []broker.JudgedDisk) error {
	if r.State.Mode == FullDecommission {
		return nil
	}
	for _, d := range all {
		next := nextSmaller(r.State.NodeID)
		switch d.Code {
		case taskcatalog.CodeDiskSmaller:
		case taskcatalog.CodeDiskNoSize:
			next = nextNoSize
		default:
			continue
		}
		f := chain.Fail(unerased, "disk %s is not erased: %s", taskcatalog.Clean(d.Serial+" "+d.Name, 100), d.Why).
			With(string(d.Code), map[string]any{"disk": d.ID, "size_bytes": d.SizeBytes, "recorded_bytes": d.Recorded}).
			Next("%s; then retry", next)
		if err := c.Nodes.Quarantine(ctx, r.State.NodeID, f.Message); err != nil {
			return taskstage.Records(err)
		}
		return f
	}
	return nil
}
