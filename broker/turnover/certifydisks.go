package turnover

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/certificate"
	"github.com/hostler/hostler/broker/chain"
	"github.com/hostler/hostler/broker/maas"
	"github.com/hostler/hostler/taskcatalog"
)

// nextSmaller is the advice for a disk that has become smaller.
func nextSmaller(nodeID string) string {
	return "restore the disk's size (hdparm -N, hdparm --dco-restore, nvme create-ns) or replace it; or accept it as it is (hostler node device accept " + nodeID + " SERIAL --reason R)"
}

// nextNoSize is the advice for a disk without a size in the kernel.
const nextNoSize = "format the disk with sectors of 512 or 4096 bytes and without metadata (sg_format, nvme format), so that it can be erased, or take it out"

// disks marks each erased disk as expected or not, and adds a row for every other disk with its
// true treatment and no more: MAAS's treatment once MAAS has the machine back, otherwise file
// deletion for the system's disk, and none for the others. A network disk always has none.
func disks(s *Turnover, out *certificate.Clean, parts Parts) {
	erased := len(out.Devices)
	taken := make([]bool, erased)
	cleaned := s.cleaned(out)
	all := broker.JudgeDisks(parts.Devices, parts.Facts)
	for _, d := range parts.disks() {
		is := d.judged(all)
		expected := d.State != broker.DeviceUnexpected
		at := -1
		for i, row := range out.Devices[:erased] {
			if at < 0 && !taken[i] && d.isRow(row) {
				at = i
			}
		}
		if at >= 0 {
			row := &out.Devices[at]
			taken[at], row.Expected = true, expected
			if row.OfBytes != nil && is.Recorded > 0 && *row.OfBytes < uint64(is.Recorded) && is.Code == "" {
				is.Code, is.Why = taskcatalog.CodeDiskSmaller, "the erase covered less than the disk's recorded size"
			}
			lower(row, is)
			continue
		}
		row := certificate.Device{
			Kind: certificate.KindDisk, Serial: d.ID, Model: d.Model, Expected: expected, Found: d.State == broker.DeviceFound || !expected,
			Method: certificate.MethodNone, Verification: taskcatalog.OverwriteNone, Verdict: taskcatalog.VerdictInconclusive,
		}
		down := certificate.Downgrade{Asked: certificate.MethodOverwrite}
		switch system := is.Use == broker.DiskSystem; {
		case is.Use == broker.DiskNetwork:
			row.Code, row.Message = taskcatalog.CodeDiskNotLocal, "the disk is not the machine's own: its transport is "+
				taskcatalog.Clean(is.Transport, 40)
			row.Exclusions = []certificate.Exclusion{{
				Reason: "not_local_" + strings.ReplaceAll(is.Transport, " ", "_"),
				Bytes:  uint64(max(is.SizeBytes, 0)),
			}}
			if s.Policy.AcceptNetworkDisks {
				down.Reason, down.AcceptedBy, down.Because = row.Message, "policy", "accept_network_disks"
			}
		case !s.WipedAt.IsZero():
			row.Method, down = s.byMAAS(system)
		case system && cleaned != "":
			row.Method, row.TaskID, down.Reason = certificate.MethodFileDeletion, cleaned, "the system runs from this disk"
			if s.Policy.AcceptSystemDisk {
				down.AcceptedBy, down.Because = "policy", "accept_system_disk"
			}
		}
		if row.Method != certificate.MethodNone {
			row.Verdict = taskcatalog.VerdictClean
		}
		if down.Reason != "" {
			down.Device, down.Did = d.ID, row.Method
			out.Downgrades = append(out.Downgrades, down)
		}
		lower(&row, is)
		out.Devices = append(out.Devices, row)
	}
}

// judged is the disk's report compared with the record. If several disks share a record, a fault
// of one disk counts for all of them.
func (d disk) judged(all []broker.JudgedDisk) (is broker.JudgedDisk) {
	for _, has := range all {
		mine := d.seen != nil && has.Name == d.seen.Name
		if d.State != broker.DeviceUnexpected && has.ID != "" {
			mine = has.ID == d.ID
		}
		if mine && is.Code == "" {
			is = has
		}
	}
	return is
}

// lower notes on a row the difference between the node's report and the record, and lowers the
// row's verdict.
func lower(row *certificate.Device, is broker.JudgedDisk) {
	if is.Code == "" {
		return
	}
	row.Code, row.Message, row.Verdict = is.Code, is.Why, taskcatalog.VerdictNotClean
	if is.Code == taskcatalog.CodeDiskRoleUnrecorded {
		row.Verdict = taskcatalog.VerdictInconclusive
	}
}

// acceptDowngrades accepts open downgrades as far as the policy's accept_erase_downgrade allows.
func acceptDowngrades(least string, out *certificate.Clean) {
	if least == "" || least == "never" {
		return
	}
	for i := range out.Downgrades {
		d := &out.Downgrades[i]
		unverified := slices.ContainsFunc(out.Devices, func(row certificate.Device) bool {
			return (row.Serial == d.Device || row.UUID == d.Device) && row.Verification != taskcatalog.OverwriteVerified
		})
		if d.AcceptedBy == "" && !d.Did.Grade().Below(certificate.Grade(least)) && (!unverified || least == string(certificate.GradeNone)) {
			d.AcceptedBy, d.Because = "policy", "accept_erase_downgrade"
		}
	}
}

// cleaned is the task that deleted the tenant's files; empty: none succeeded.
func (s *Turnover) cleaned(out *certificate.Clean) (taskID string) {
	did, asked := s.lastTask("cleanup_storage")
	if asked &&
		slices.ContainsFunc(out.Tasks, func(t certificate.Task) bool {
			return t.ID == did.ID &&
				t.Outcome == taskcatalog.OutcomeSucceeded
		}) {
		return did.ID
	}
	return ""
}

// madeByMAAS maps MAAS's words for an erase to methods.
var madeByMAAS = map[string]certificate.Method{
	maas.EraseQuick: certificate.MethodMAASQuickErase, maas.EraseSecure: certificate.MethodMAASSecureErase,
	maas.EraseOverwrite: certificate.MethodMAASSecureErase,
}

// byMAAS is MAAS's treatment of a disk at the release of the machine, and the reason why the
// treatment is less than a verified overwrite. MAAS reports on the machine as a whole, and not on
// single disks. An erase that MAAS was asked for and did not make is a downgrade of each disk; a
// site's acceptance of disks treated as asked does not cover this case.
func (s *Turnover) byMAAS(system bool) (did certificate.Method, down certificate.Downgrade) {
	rc := s.Machine.Reclaim
	method := func(erase string) certificate.Method { return cmp.Or(madeByMAAS[erase], certificate.MethodNone) }
	did, down.Asked = method(rc.Did), method(s.Erase)
	less := rc.Downgrade != "" || did.Weaker(down.Asked)
	switch {
	case did == certificate.MethodMAASSecureErase:
		down.Reason = "MAAS erased the disk, and no agent has read it since"
	case did == certificate.MethodMAASQuickErase:
		down.Reason = "MAAS overwrote only the disk's ends"
	case system && s.Mode == Reimage:
		did, down.Reason = certificate.MethodMkfs, "a new system was written to the disk, and nothing was erased"
	}
	switch {
	case less:
		down.Reason = cmp.Or(rc.Downgrade, "MAAS took the machine back before this run, so it did not erase the disk for this run")
	case did == certificate.MethodMAASSecureErase && s.Policy.AcceptMAASErase:
		down.AcceptedBy, down.Because = "policy", "accept_maas_erase"
	case system && s.Policy.AcceptSystemDisk:
		down.AcceptedBy, down.Because = "policy", "accept_system_disk"
	}
	return did, down
}

// erased adds the disks of an erase task, with their actual treatment.
func erased(out *certificate.Clean, taskID string, p *certificate.Proof) error {
	var result taskcatalog.DiskEraseResult
	if err := json.Unmarshal([]byte(p.Result), &result); err != nil {
		return chain.Fail(untrusted, "the result of task %s cannot be read", taskID).With("bad_result", nil)
	}
	out.Devices = append(out.Devices, certificate.Disks(taskID, result)...)
	out.Downgrades = append(out.Downgrades, certificate.DiskDowngrades(result)...)
	return nil
}
