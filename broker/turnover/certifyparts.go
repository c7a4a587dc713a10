package turnover

import (
	"slices"
	"strings"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/certificate"
	"github.com/hostler/hostler/taskcatalog"
)

// disk is a disk of the machine as recorded. A disk without a record is as reported, and
// unexpected.
type disk struct {
	broker.Device
	seen *taskcatalog.DiskFacts // as last reported; nil: not reported
}

// disks are all recorded and all reported disks of the machine. Only a disk that is recorded as
// removed, and not reported, is left out.
func (p Parts) disks() (out []disk) {
	known := ofKind(p.Devices, broker.DeviceDisk)
	reported := ofKind(broker.ReportedDevices(p.Facts), broker.DeviceDisk)
	seen := func(d broker.Device) *taskcatalog.DiskFacts {
		at := slices.IndexFunc(p.Facts.Disks, func(f taskcatalog.DiskFacts) bool { return f.Name == d.Place })
		if at < 0 {
			return nil
		}
		return &p.Facts.Disks[at]
	}
	left := make([]bool, len(reported))
	for i, at := range broker.Paired(known, reported) {
		d := disk{Device: known[i]}
		if at >= 0 {
			left[at], d.seen = true, seen(reported[at])
		}
		out = append(out, d)
	}
	for i, d := range reported {
		if !left[i] {
			d.State = broker.DeviceUnexpected
			out = append(out, disk{d, seen(d)})
		}
	}
	return out
}

func ofKind(all []broker.Device, kind broker.DeviceKind) (out []broker.Device) {
	for _, d := range all {
		if d.Kind == kind && d.State != broker.DeviceRemoved {
			out = append(out, d)
		}
	}
	return out
}

// attested reports whether a person has attested what became of a part: destroyed or removed.
func (p Parts) attested(d broker.Device) bool {
	return slices.ContainsFunc(p.Attested, func(a certificate.Attested) bool {
		part := a.Statement.Device
		return part.Kind == string(d.Kind) && (part.Serial == d.ID || part.UUID == d.ID)
	})
}

// isRow reports whether a row of an erase belongs to the disk. A serial names a drive, which may
// have several namespaces: if both have a worldwide name, the worldwide name decides.
func (d disk) isRow(row certificate.Device) bool {
	switch {
	case row.Kind != certificate.KindDisk:
		return false
	case d.seen != nil && d.seen.WWID != "" && row.UUID != "":
		return strings.EqualFold(d.seen.WWID, row.UUID)
	case strings.EqualFold(d.ID, row.Serial) || row.UUID != "" && strings.EqualFold(d.ID, row.UUID):
		return true
	}
	return d.seen != nil && d.seen.Serial != "" && strings.EqualFold(d.seen.Serial, row.Serial)
}

// gpus adds a row for each GPU of the baseline or the record that no scrub has reported. A GPU
// recorded as unexpected gets a row, too.
func gpus(out *certificate.Clean, parts Parts) {
	add := func(uuid, serial, model string, expected, found bool) {
		if slices.ContainsFunc(out.Devices, func(d certificate.Device) bool {
			return d.Kind == certificate.KindGPU && (strings.EqualFold(d.UUID, uuid) || strings.EqualFold(d.Parent, uuid))
		}) {
			return
		}
		row := certificate.Device{
			Kind: certificate.KindGPU, UUID: uuid, Serial: serial, Model: model, Expected: expected, Found: found,
			Method:       certificate.MethodNone,
			Verification: taskcatalog.OverwriteNone, Verdict: taskcatalog.VerdictInconclusive, Message: "no scrub reported on it",
		}
		if !found {
			row.Code = taskcatalog.CodeGPUMissing
		}
		out.Devices = append(out.Devices, row)
	}
	for _, g := range parts.GPUs {
		add(g.UUID, g.Serial, g.Name, true, slices.ContainsFunc(parts.Facts.GPUs,
			func(f taskcatalog.GPUFacts) bool { return f.UUID == g.UUID }))
	}
	for _, d := range ofKind(parts.Devices, broker.DeviceGPU) {
		unexpected := d.State == broker.DeviceUnexpected
		add(d.ID, d.Serial, d.Model, !unexpected, unexpected || d.State == broker.DeviceFound)
	}
}

// inventory is the check that looks for the parts of the baseline.
const inventory = "inventory"

// nics adds a row for each network card of the baseline, if the validation looked for them and
// listed all its findings.
func nics(out *certificate.Clean, parts Parts) {
	v := &out.Validation
	unseen := func(check taskcatalog.Check) bool { return check.Name == inventory }
	if v.TaskID == "" || out.FindingsOmitted > 0 || slices.ContainsFunc(v.ChecksNotMade, unseen) ||
		slices.ContainsFunc(v.NotApplicable, unseen) {
		return
	}
	for _, mac := range slices.Compact(slices.Sorted(slices.Values(parts.NICs))) {
		gone := slices.ContainsFunc(out.Findings, func(f taskcatalog.Finding) bool {
			return f.Check == inventory && f.Subject == certificate.KindNIC+" "+mac
		})
		out.Devices = append(out.Devices, certificate.Device{
			Kind: certificate.KindNIC, UUID: mac, Expected: true, Found: !gone, Method: certificate.MethodNone,
			Verification: taskcatalog.OverwriteNone, Verdict: taskcatalog.VerdictClean, // a NIC holds no tenant data
		})
	}
}
