package broker

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/hostler/hostler/taskcatalog"
)

// DeviceKind is what a part of a machine is.
type DeviceKind string

// The parts that are known by their serials: those that keep what a tenant wrote.
const (
	DeviceDisk DeviceKind = "disk"
	DeviceGPU  DeviceKind = "gpu"
)

// DeviceState is how a part stands between what the machine shall have and what its
// agent reports.
type DeviceState string

// The states.
const (
	DeviceExpected   DeviceState = "expected"   // it shall be there; nobody has looked
	DeviceFound      DeviceState = "found"      // it shall be there, and is
	DeviceMissing    DeviceState = "missing"    // it shall be there, and is not reported
	DeviceUnexpected DeviceState = "unexpected" // it is reported, and nobody said that it shall be there
	DeviceRemoved    DeviceState = "removed"    // it was there; an operator accepted that it is not
)

// Device is a part of a node's machine. One that was removed is kept on record: what
// a tenant wrote on it has left with it.
type Device struct {
	Kind   DeviceKind
	ID     string // by which it is known again: a disk's serial, a GPU's UUID
	Serial string // where it has one beside the ID
	Model  string
	Place  string // a disk's name, a GPU's PCI address: not by what it is known
	Size   int64  // bytes, as first taken; 0: not told
	State  DeviceState
	Source string    // who first told of it: maas, agent
	Since  time.Time // of the state
	Reason string    // why an operator accepted it
	// Of a disk, as it was recorded: what it was for, and how it was reached.
	Role      DiskRole
	Transport string
	alias     string // another name that sysfs has for a disk
}

// ReportedDevices are the parts that a node's facts tell of, GPUs without an identity
// left out.
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

// Paired finds for each part on record the one among the reported that it is, each once;
// -1: none. One that goes by the very same identity comes before one that goes by
// another of its names.
func Paired(known, reported []Device) []int {
	at, left := make([]int, len(known)), make([]bool, len(reported))
	for i := range at {
		at[i] = -1
	}
	for _, same := range []func(k, r Device) bool{func(k, r Device) bool { return k.Kind == r.Kind && strings.EqualFold(k.ID, r.ID) }, Device.is} {
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

// is reports whether what an agent reported is this part. MAAS knows some disks by
// their worldwide name, which the kernel writes with the kind of it in front.
func (d Device) is(reported Device) bool {
	if d.Kind != reported.Kind {
		return false
	}
	_, wwn, _ := strings.Cut(reported.alias, ".")
	id := strings.TrimPrefix(strings.ToLower(d.ID), "0x")
	if d.Kind == DeviceDisk && strings.EqualFold(d.ID, reported.Serial) {
		return true // it had its drive's serial for itself when it was recorded
	}
	return strings.EqualFold(d.ID, reported.ID) || reported.alias != "" && (strings.EqualFold(d.ID, reported.alias) || wwn != "" && id == strings.ToLower(wwn))
}

// In reports whether facts tell of the part.
func (d Device) In(f taskcatalog.Facts) bool {
	return slices.ContainsFunc(ReportedDevices(f), d.is)
}

// Compared is what becomes of the parts on record when an agent has reported those
// of the kinds that it looked for. A part that nobody expected is forgotten when it
// is gone again.
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
			gone = append(gone, d) // what is there may be a part that is not removed
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
			put(d, DeviceUnexpected) // it is back
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

// WrongDevices are those that a person has to look at: what a turnover may not call
// clean, and what keeps an adopted machine from becoming a node.
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

// Unlike says why GPUs are not those of the SKU; empty: they are. Memory is told
// with what the vendor keeps for itself taken off, so a twentieth is no difference.
func (s SKU) Unlike(gpus []taskcatalog.GPUFacts) string {
	if len(gpus) != s.GPUCount {
		return fmt.Sprintf("it has %d GPUs, and a %s has %d", len(gpus), s.ID, s.GPUCount)
	}
	for _, g := range gpus {
		name := "GPU " + taskcatalog.Clean(g.PCIAddress, 32)
		switch {
		case g.Vendor != s.GPUVendor:
			return fmt.Sprintf("%s is of %s, and those of a %s are of %s", name, taskcatalog.Clean(g.Vendor, 32), s.ID, s.GPUVendor)
		case !s.names(g.Name):
			return fmt.Sprintf("%s is a %s, and those of a %s are %s (the model of a SKU is whole words of the vendor's name, such as H100 or A100-SXM4-80GB)", name, taskcatalog.Clean(g.Name, 64), s.ID, s.GPUModel)
		case s.GPUMemoryBytes == 0:
		case g.MemoryBytes == nil:
			return fmt.Sprintf("%s does not tell how much memory it has", name)
		case *g.MemoryBytes < s.GPUMemoryBytes-s.GPUMemoryBytes/20 || *g.MemoryBytes > s.GPUMemoryBytes+s.GPUMemoryBytes/20:
			return fmt.Sprintf("%s has %d MiB of memory, and those of a %s have %d", name, *g.MemoryBytes>>20, s.ID, s.GPUMemoryBytes>>20)
		}
	}
	return ""
}

// names reports whether the words of the SKU's model stand in a vendor's name of a GPU,
// whole and in the same order: H200 is no GH200, A10 no A100, and L40 no L40S.
func (s SKU) names(gpu string) bool {
	model, all := words(s.GPUModel), words(gpu)
	for i := range len(all) - len(model) + 1 {
		if slices.Equal(all[i:i+len(model)], model) && len(model) > 0 {
			return true
		}
	}
	return s.GPUModel == ""
}

// words are the runs of letters and digits, in lower case.
func words(text string) []string {
	return strings.FieldsFunc(strings.ToLower(text), func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) })
}
