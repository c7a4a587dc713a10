package broker

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/hostler/hostler/taskcatalog"
)

// DeviceKind is the kind of a part of a machine.
type DeviceKind string

// The kinds of parts that are tracked by serial, because they keep tenant data.
const (
	DeviceDisk DeviceKind = "disk"
	DeviceGPU  DeviceKind = "gpu"
)

// DeviceState compares a part on record with the report of the node's agent.
type DeviceState string

// The states.
const (
	DeviceExpected   DeviceState = "expected"   // expected; nobody has looked yet
	DeviceFound      DeviceState = "found"      // expected and reported
	DeviceMissing    DeviceState = "missing"    // expected but not reported
	DeviceUnexpected DeviceState = "unexpected" // reported but not expected
	DeviceRemoved    DeviceState = "removed"    // was expected; an operator accepted that it is gone
)

// Device is a part of a node's machine. A removed part stays on record, because a tenant's data
// left with the part.
type Device struct {
	Kind   DeviceKind
	ID     string // the identity to recognise the part by: a disk's serial, a GPU's UUID
	Serial string // if the part has one beside the ID
	Model  string
	Place  string // a disk's name, a GPU's PCI address; not an identity
	Size   int64  // bytes, as first recorded; 0: unknown
	State  DeviceState
	Source string    // first source of the record: maas, agent
	Since  time.Time // of the state
	Reason string    // why an operator accepted the part
	// Of a disk, as recorded: its use, and its transport.
	Role      DiskRole
	Transport string
	alias     string // another name that sysfs has for a disk
}

// ReportedDevices returns the parts in a node's facts. GPUs without an identity are left out.
func ReportedDevices(f taskcatalog.Facts) (out []Device) {
	for i, d := range reportedDisks(f.Disks) {
		if firstPath(f.Disks, i) == i {
			out = append(out, d)
		}
	}
	for _, g := range f.GPUs {
		d := Device{Kind: DeviceGPU, ID: cmp.Or(g.UUID, g.Serial), Serial: g.Serial, Model: g.Name, Place: g.PCIAddress, Source: "agent"}
		if g.MemoryBytes != nil {
			d.Size = int64(min(*g.MemoryBytes, 1<<62))
		}
		if d.ID != "" {
			out = append(out, d)
		}
	}
	return out
}

// Paired finds for each part on record its index among the reported parts, each used once; -1:
// none. A match by the same identity goes before a match by another name of the part.
func Paired(known, reported []Device) []int {
	at, left := make([]int, len(known)), make([]bool, len(reported))
	for i := range at {
		at[i] = -1
	}
	for _, same := range []func(k, r Device) bool{
		func(k, r Device) bool { return k.Kind == r.Kind && strings.EqualFold(k.ID, r.ID) },
		Device.is,
	} {
		for i, k := range known {
			for j, r := range reported {
				if at[i] < 0 && !left[j] && same(k, r) {
					at[i], left[j] = j, true
				}
			}
		}
	}
	return at
}

// is reports whether a reported part is this part. MAAS knows some disks by their worldwide name;
// the kernel writes the same name with a prefix for the kind of name.
func (d Device) is(reported Device) bool {
	if d.Kind != reported.Kind {
		return false
	}
	_, wwn, _ := strings.Cut(reported.alias, ".")
	id := strings.TrimPrefix(strings.ToLower(d.ID), "0x")
	if d.Kind == DeviceDisk && strings.EqualFold(d.ID, reported.Serial) {
		return true // the disk was recorded when no other disk shared the drive's serial
	}
	return strings.EqualFold(d.ID, reported.ID) || reported.alias != "" &&
		(strings.EqualFold(d.ID, reported.alias) || wwn != "" && id == strings.ToLower(wwn))
}

// In reports whether the facts include the part.
func (d Device) In(f taskcatalog.Facts) bool {
	return slices.ContainsFunc(ReportedDevices(f), d.is)
}

// Compared returns the parts on record after an agent's report. looked lists the kinds that the
// agent looked for; parts of other kinds stay unchanged. An unexpected part that is gone again is
// dropped.
func Compared(known, reported []Device, looked []DeviceKind, now time.Time) []Device {
	out := make([]Device, 0, len(known))
	left := slices.Clone(reported)
	put := func(d Device, s DeviceState) {
		if d.State != s {
			d.State, d.Since = s, now
		}
		out = append(out, d)
	}
	var gone []Device
	for _, d := range known {
		at := slices.IndexFunc(left, d.is)
		switch {
		case !slices.Contains(looked, d.Kind):
			out = append(out, d)
		case at < 0 && d.State == DeviceUnexpected:
		case d.State == DeviceRemoved:
			gone = append(gone, d) // matched last: a reported part may belong to a part that was not removed
		case at < 0:
			put(d, DeviceMissing)
		default:
			d.Place, d.Model, d.Size = left[at].Place, cmp.Or(d.Model, left[at].Model), cmp.Or(d.Size, left[at].Size)
			left = slices.Delete(left, at, at+1)
			if d.State == DeviceUnexpected {
				out = append(out, d)
			} else {
				put(d, DeviceFound)
			}
		}
	}
	for _, d := range gone {
		if at := slices.IndexFunc(left, d.is); at >= 0 {
			left = slices.Delete(left, at, at+1)
			put(d, DeviceUnexpected) // the part is back
		} else {
			out = append(out, d)
		}
	}
	for _, d := range left {
		if slices.Contains(looked, d.Kind) && !slices.ContainsFunc(out, func(o Device) bool { return o.Kind == d.Kind && o.ID == d.ID }) {
			d.State = ""
			put(d, DeviceUnexpected)
		}
	}
	return out
}

// WrongDevices returns the parts that a person must look at. A turnover may not call such a
// machine clean, and an adopted machine with such parts does not become a node.
func WrongDevices(all []Device) (missing, unexpected []Device) {
	for _, d := range all {
		switch d.State {
		case DeviceMissing:
			missing = append(missing, d)
		case DeviceUnexpected:
			unexpected = append(unexpected, d)
		}
	}
	return missing, unexpected
}
