package facts

import (
	"cmp"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/hostler/hostler/agent/erase"
	"github.com/hostler/hostler/agent/machine"
	"github.com/hostler/hostler/taskcatalog"
)

const blockDevices = "/sys/block"

// disks lists the machine's own disks: block devices backed by hardware that are no firmware area,
// not removable (such as a management controller's virtual media), and no hidden path to a disk
// listed by itself. A disk without a size has a real size and a tenant's data, and is identified by
// its names. Without a size and a name it is an empty slot.
func disks(m *machine.Machine) ([]taskcatalog.DiskFacts, error) {
	names, err := m.Names(blockDevices)
	if err != nil || len(names) == 0 {
		return nil, err
	}
	slices.Sort(names)
	system, err := m.SystemDisks()
	if err != nil {
		return nil, err
	}
	transports, err := erase.Transports(m)
	if err != nil {
		return nil, err
	}
	var all []taskcatalog.DiskFacts
	for _, name := range names {
		if machine.FirmwareArea(name) {
			continue
		}
		dir := path.Join(blockDevices, name)
		read := func(file string) string { return attribute(m, path.Join(dir, file)) }
		sectors, _ := strconv.ParseInt(read("size"), 10, 64) // of 512 bytes, whatever the disk's own
		if linkBase(m, path.Join(dir, "device")) == "" || read("removable") == "1" || read("hidden") == "1" {
			continue
		}
		d := taskcatalog.DiskFacts{
			Name: name, Model: cmp.Or(read("device/model"), read("device/name")), WWID: read("wwid"),
			SizeBytes: sectors * 512, Transport: transports[name], System: slices.Contains(system, name),
		}
		if d.WWID == "" {
			d.WWID = read("device/wwid")
		}
		for _, serial := range []string{read("device/serial"), read("serial"), unitSerial(read("device/vpd_pg80"))} {
			if d.Serial == "" {
				d.Serial = serial
			}
		}
		if d.Serial == "" && d.WWID == "" && (sectors <= 0 || read("ro") == "1") {
			continue // an empty slot; or an installer's seed, which nobody writes to
		}
		if sectors <= 0 {
			d.SizeBytes, d.Problem = 0, taskcatalog.DiskNoSize
		}
		all = append(all, d)
	}
	return all, nil
}

// unitSerial reads the serial number page of a SCSI disk: a head of four bytes, with the length in
// the last two.
func unitSerial(page string) string {
	const head = 4
	if len(page) < head || page[1] != 0x80 {
		return ""
	}
	length := int(page[2])<<8 | int(page[3])
	text := page[head:min(head+length, len(page))]
	return strings.TrimSpace(strings.Trim(text, "\x00"))
}
