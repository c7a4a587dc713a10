package certificate

import (
	"slices"

	"github.com/go-json-experiment/json"

	"github.com/hostler/hostler/taskcatalog"
)

// Disks returns the rows of an erase: a row for each disk in the result. The caller marks
// expected disks, adds expected disks outside the result, and may lower a verdict but never raise
// one.
func Disks(taskID string, r taskcatalog.DiskEraseResult) []Device {
	rows := make([]Device, 0, len(r.Disks))
	for _, d := range r.Disks {
		covered, of := d.CoveredBytes, d.OfBytes
		rows = append(rows, Device{
			Kind: KindDisk, Serial: d.Serial, UUID: d.WWN, Model: d.Model, Found: true,
			Method: d.Method, Verification: d.Verification, CoveredBytes: &covered, OfBytes: &of, Exclusions: []Exclusion{},
			Verdict: d.Verdict, Code: d.Code, Message: d.Message, TaskID: taskID,
		})
	}
	return rows
}

// DiskDowngrades returns the disks of a result that were treated below their ability, for a
// person or a policy to accept.
func DiskDowngrades(r taskcatalog.DiskEraseResult) []Downgrade {
	var all []Downgrade
	for i := range r.Disks {
		d := &r.Disks[i]
		if reason, yes := d.Downgraded(); yes {
			device := Device{Serial: d.Serial, UUID: d.WWN}
			all = append(all, Downgrade{Device: device.Name(), Asked: d.Asked, Did: d.Method, Reason: reason})
		}
	}
	return all
}

// downgraded refuses a certificate that hides a downgrade signed by the node.
func (c *Clean) downgraded(p proven) error {
	if p.task.Type != "node.disk_erase" || p.task.Proof.Result == "" {
		return nil
	}
	var r taskcatalog.DiskEraseResult
	if err := json.Unmarshal([]byte(p.task.Proof.Result), &r); err != nil {
		return refuse(CodeEvidenceWrongResult, "cannot accept the evidence of task %s: its result cannot be read", p.task.ID)
	}
	for _, d := range DiskDowngrades(r) {
		told := slices.ContainsFunc(c.Downgrades, func(g Downgrade) bool {
			return g.Device == d.Device && g.Asked == d.Asked && g.Did == d.Did
		})
		if !told {
			return refuse(CodeDeviceContradicted,
				"cannot accept certificate: disk %s was to be erased by %s and task %s did %s, which the certificate does not state",
				d.Device, d.Asked, p.task.ID, d.Did)
		}
	}
	return nil
}
