package broker

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/hostler/hostler/taskcatalog"
)

// DiskRole is the use of a disk when it was recorded: when the node was first let in, when a
// fresh system was installed on the disk, or when an operator accepted the disk.
type DiskRole string

// The roles.
const (
	RoleUnrecorded DiskRole = "" // the node is older than roles, or was let in before its first report
	RoleSystem     DiskRole = "system"
	RoleData       DiskRole = "data"
)

// DiskUse is how a turnover treats a disk.
type DiskUse string

// The uses. A disk is data unless its record says otherwise. A data disk is named for erasure,
// and an agent that cannot erase a named disk refuses the whole task.
const (
	DiskData    DiskUse = "data"
	DiskSystem  DiskUse = "system"  // the system runs from the disk, by the record and by the node's report
	DiskNetwork DiskUse = "network" // not the machine's own disk, by the record and by the node's report
)

// JudgedDisk is a reported disk compared with the record.
type JudgedDisk struct {
	taskcatalog.DiskFacts
	ID       string // of the record; empty: no record
	Use      DiskUse
	Recorded int64 // bytes; 0: the record has no size, or several disks share the record
	// Code and Why say how the report differs from the record.
	Code taskcatalog.Code
	Why  string
}

// networked lists the transports of disks outside the machine: a network's or a hypervisor's.
var networked = []string{"tcp", "rdma", "fc", "nvme over fabrics", "iscsi", "fibre channel", "virtio"}

// Networked reports whether a disk with this transport is not the machine's own. An unknown
// transport counts as the machine's own: such a disk may be a volume on the machine's disks.
func Networked(transport string) bool { return slices.Contains(networked, transport) }

// JudgeDisks compares a node's reported disks with the record. A node's report alone exempts no
// disk from an erase, because a tenant with root could have falsified the report.
func JudgeDisks(known []Device, f taskcatalog.Facts) []JudgedDisk {
	at := recordsOf(known, f) // index in known; -1: no record
	bytes, count := map[int]int64{}, map[int]int{}
	for i, d := range f.Disks {
		bytes[at[i]] += d.SizeBytes
		count[at[i]]++
	}
	out := make([]JudgedDisk, len(f.Disks))
	for i, d := range f.Disks {
		var record Device
		if at[i] >= 0 {
			record = known[at[i]]
		}
		out[i] = record.judge(d, count[at[i]] == 1, bytes[at[i]]) // namespaces share a serial
	}
	return out
}

// recordsOf returns the index of each disk's record. A match by the disk's own name goes before a
// match by its alias.
func recordsOf(known []Device, f taskcatalog.Facts) []int {
	out := make([]int, 0, len(f.Disks))
	for _, d := range reportedDisks(f.Disks) {
		there := func(k Device) bool { return k.State != DeviceRemoved && k.is(d) }
		at := slices.IndexFunc(known, func(k Device) bool { return there(k) && strings.EqualFold(k.ID, d.ID) })
		if at < 0 {
			at = slices.IndexFunc(known, there)
		}
		out = append(out, at)
	}
	return out
}

// judge compares a reported disk with its record. alone: no other disk of the node shares the
// record. all is the total of bytes of the disks that share the record.
func (d Device) judge(has taskcatalog.DiskFacts, alone bool, all int64) JudgedDisk {
	out := JudgedDisk{DiskFacts: has, ID: d.ID, Use: DiskData}
	if alone {
		out.Recorded = d.Size
	}
	say := func(code taskcatalog.Code, why string) { out.Code, out.Why = code, why }
	switch {
	case has.System && d.Role == RoleSystem && alone:
		out.Use = DiskSystem
	case has.System && d.Role == RoleUnrecorded && d.State != DeviceUnexpected && d.ID != "":
		say(taskcatalog.CodeDiskRoleUnrecorded,
			"the node reports this disk as its system disk, and the disk's role is not recorded (hostler node device accept NODE SERIAL --system)")
	case has.System:
		say(taskcatalog.CodeDiskNotSystem, "the node reports this disk as its system disk, and the record does not confirm this")
	case Networked(has.Transport) && Networked(d.Transport) && alone:
		out.Use = DiskNetwork
	case Networked(has.Transport):
		say(taskcatalog.CodeDiskTransportDiffers, "the node reports the transport "+taskcatalog.Clean(has.Transport, 40)+
			", and the record does not confirm this")
	}
	if out.Use != DiskNetwork && d.Size > 0 && all < d.Size {
		say(taskcatalog.CodeDiskSmaller, sizes(all, d.Size))
	}
	if out.Use != DiskNetwork && has.Problem != "" {
		say(taskcatalog.CodeDiskNoSize, taskcatalog.Clean(has.Problem, 100)+", so the agent does not erase it")
	}
	return out
}

func sizes(is, was int64) string {
	return fmt.Sprintf("the disk has %d bytes, and its recorded size is %d: the missing part is not erased (HPA, DCO, or a namespace made smaller)", is, was)
}

// firstPath returns the index of the first path to the disk at i. For a disk without multipath,
// the result is i.
func firstPath(all []taskcatalog.DiskFacts, i int) int {
	d := all[i]
	at := slices.IndexFunc(all[:i], func(o taskcatalog.DiskFacts) bool {
		return d.WWID != "" && strings.EqualFold(d.WWID, o.WWID) && strings.EqualFold(d.Serial, o.Serial)
	})
	if at < 0 {
		return i
	}
	return at
}

// reportedDisks returns the disks that a node reports, as parts. A disk's ID is its serial where
// the serial is unique; the namespaces of an NVMe drive share the drive's serial. Otherwise the
// ID is the worldwide name, and last the kernel's name, so that no disk is left out.
func reportedDisks(all []taskcatalog.DiskFacts) []Device {
	out := make([]Device, len(all))
	for i, d := range all {
		first, alone := firstPath(all, i), true
		for j, o := range all {
			alone = alone && (firstPath(all, j) == first || !strings.EqualFold(d.Serial, o.Serial))
		}
		id := d.WWID
		if d.Serial != "" && alone {
			id = d.Serial
		}
		switch {
		case first != i:
			id = out[first].ID
		case id == "", slices.ContainsFunc(out[:i], func(has Device) bool { return strings.EqualFold(has.ID, id) }):
			id = "disk:" + d.Name
		}
		out[i] = Device{Kind: DeviceDisk, ID: id, Model: d.Model, Place: d.Name, Size: d.SizeBytes, Source: "agent", alias: d.WWID}
		if id != d.Serial {
			out[i].Serial = d.Serial
		}
	}
	return out
}

// disksOf returns the reported disks whose record is the one at index at.
func disksOf(known []Device, at int, f taskcatalog.Facts) (fit []taskcatalog.DiskFacts) {
	for i, record := range recordsOf(known, f) {
		if record == at && firstPath(f.Disks, i) == i {
			fit = append(fit, f.Disks[i])
		}
	}
	return fit
}

// record stores a node's report of the disk and its transport as the expected state. A size is
// only raised: a tenant could have written to the whole of the first recorded size.
func (d *Device) record(fit []taskcatalog.DiskFacts) {
	if d.Kind != DeviceDisk || len(fit) == 0 {
		return
	}
	d.Role, d.Transport = RoleData, fit[0].Transport
	var size int64
	for _, has := range fit {
		size += has.SizeBytes
		if has.System {
			d.Role = RoleSystem
		}
		if has.Transport != d.Transport {
			d.Transport = ""
		}
	}
	d.Size = max(d.Size, size)
}

// AcceptDisk records a disk on an operator's decision: size and transport as the node reports
// them and, with system, the role of a system disk. It reports whether the record changed.
func AcceptDisk(known []Device, at int, f taskcatalog.Facts, system bool) bool {
	d, was := &known[at], known[at]
	d.Size = 0
	d.record(disksOf(known, at, f))
	d.Size = cmp.Or(d.Size, was.Size)
	switch {
	case d.Role == RoleUnrecorded: // no disk on record, or the node does not report the disk
	case system || was.Role == RoleSystem && was.State != DeviceUnexpected:
		d.Role = RoleSystem
	default:
		d.Role = RoleData
	}
	return *d != was
}

// RecordDisks stores a node's report of its own disks as the expected state. Callers pass only
// facts from before a tenant could have falsified them.
func RecordDisks(known []Device, f taskcatalog.Facts) []Device {
	out := slices.Clone(known)
	for i := range out {
		if out[i].State == DeviceFound || out[i].State == DeviceExpected {
			out[i].record(disksOf(out, i, f))
		}
	}
	return out
}
