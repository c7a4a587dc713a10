package broker

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/hostler/hostler/taskcatalog"
)

// DiskRole is what a disk was for when it was recorded: when the node was first let in,
// when a fresh system was installed on it, or by an operator's word.
type DiskRole string

// The roles.
const (
	RoleUnrecorded DiskRole = "" // a node from before roles were kept, or let in before it said anything
	RoleSystem     DiskRole = "system"
	RoleData       DiskRole = "data"
)

// DiskUse is what a turnover takes a disk for.
type DiskUse string

// The uses. Everything that is not the one or the other by its record is data: it is
// named to be erased, and an agent that finds that it cannot be refuses the whole.
const (
	DiskData    DiskUse = "data"
	DiskSystem  DiskUse = "system"  // the system runs from it: on record, and by what the node says
	DiskNetwork DiskUse = "network" // likewise not the machine's own
)

// JudgedDisk is a disk that a node reports, held to the record.
type JudgedDisk struct {
	taskcatalog.DiskFacts
	ID       string // of the record; empty: there is none
	Use      DiskUse
	Recorded int64 // bytes; 0: the record has none, or several disks go by it
	// Code and Why say what the node tells otherwise than the record.
	Code taskcatalog.Code
	Why  string
}

// networked are the transports of disks that are somebody else's: a network's, or a
// hypervisor's.
var networked = []string{"tcp", "rdma", "fc", "nvme over fabrics", "iscsi", "fibre channel", "virtio"}

// Networked reports whether a disk that is reached so is not the machine's own. One whose
// transport is not known is not: it may be a volume of disks of the machine's.
func Networked(transport string) bool { return slices.Contains(networked, transport) }

// JudgeDisks holds the disks that a node reports to those on record. What a node says of
// itself exempts none of its disks from an erase: whoever had root on it could make it
// say so.
func JudgeDisks(known []Device, f taskcatalog.Facts) []JudgedDisk {
	at := recordsOf(known, f) // in known; -1: none
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

// recordsOf is where the record of each disk is: by its own name, before that of another
// which it gives as one more.
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

// judge holds what a node says of a disk to the record; alone: no other disk of the node
// goes by it; all are the bytes of those that do.
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
		say(taskcatalog.CodeDiskRoleUnrecorded, "the node says that its system runs from it, and nobody has recorded whether it does (hostler node device accept NODE SERIAL --system)")
	case has.System:
		say(taskcatalog.CodeDiskNotSystem, "the node says that its system runs from it, and by the record it does not")
	case Networked(has.Transport) && Networked(d.Transport) && alone:
		out.Use = DiskNetwork
	case Networked(has.Transport):
		say(taskcatalog.CodeDiskTransportDiffers, "the node says that it is reached by "+taskcatalog.Clean(has.Transport, 40)+", and the record says nothing like it")
	}
	if out.Use != DiskNetwork && d.Size > 0 && all < d.Size {
		say(taskcatalog.CodeDiskSmaller, sizes(all, d.Size))
	}
	if out.Use != DiskNetwork && has.Problem != "" {
		say(taskcatalog.CodeDiskNoSize, taskcatalog.Clean(has.Problem, 100)+", so nobody erases it")
	}
	return out
}

func sizes(is, was int64) string {
	return fmt.Sprintf("it has %d bytes and had %d when it was recorded: what is past its end is not erased (HPA, DCO, or a namespace made smaller)", is, was)
}

// firstPath is the first of the disks that the one at i is another path to: itself, for
// all but multipath.
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

// reportedDisks are the disks that a node tells of, as parts. Each is known by its serial
// where it alone has that, as the namespaces of an NVMe drive all have the drive's; else
// by its worldwide name; else by the kernel's name, so that none is left out.
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

// disksOf are the disks of which the one at is the record.
func disksOf(known []Device, at int, f taskcatalog.Facts) (fit []taskcatalog.DiskFacts) {
	for i, record := range recordsOf(known, f) {
		if record == at && firstPath(f.Disks, i) == i {
			fit = append(fit, f.Disks[i])
		}
	}
	return fit
}

// record takes what a node says of a disk, and of how it is reached, for what it shall
// be. A size is only raised: the first that was seen is what a tenant could have written
// to.
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

// AcceptDisk takes a person's word for a disk on record: that it is as large and reached
// as the node says, and, if system, that the system runs from it. It reports whether that
// is another record than there was.
func AcceptDisk(known []Device, at int, f taskcatalog.Facts, system bool) bool {
	d, was := &known[at], known[at]
	d.Size = 0
	d.record(disksOf(known, at, f))
	d.Size = cmp.Or(d.Size, was.Size)
	switch {
	case d.Role == RoleUnrecorded: // no disk, or one that the node does not tell of
	case system || was.Role == RoleSystem && was.State != DeviceUnexpected:
		d.Role = RoleSystem
	default:
		d.Role = RoleData
	}
	return *d != was
}

// RecordDisks takes what a node says of its disks for what they shall be, of those that
// belong to it. It is for facts from before a tenant could have had a hand in them.
func RecordDisks(known []Device, f taskcatalog.Facts) []Device {
	out := slices.Clone(known)
	for i := range out {
		if out[i].State == DeviceFound || out[i].State == DeviceExpected {
			out[i].record(disksOf(out, i, f))
		}
	}
	return out
}
