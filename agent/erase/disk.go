package erase

import (
	"cmp"
	"errors"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/hostler/hostler/agent/machine"
	"github.com/hostler/hostler/taskcatalog"
	"github.com/hostler/hostler/taskcatalog/lazyregexp"
)

const blockDir = "/sys/block"

// disk is a block device backed by hardware, as described by the kernel.
type disk struct {
	name   string // nvme0n1
	number string // 259:0
	path   string // the kernel's path below /devices

	serial, wwn, nguid, model string
	size                      int64 // 0: the kernel reports no size
	readOnly                  bool
	ata                       bool // speaks ATA: the vendor attribute is ATA

	transport   string   // pcie, sata, sas, mmc, or another kind
	controllers []string // of an NVMe namespace: nvme0
	nsid        int64
	pciVendor   string // of an NVMe namespace's controller, four hex digits
	partitions  []string
}

// system reads sysfs and procfs of a machine.
type system struct{ *machine.Machine }

// text reads an attribute of sysfs: "" if it does not exist.
func (s system) text(name string) (string, error) {
	raw, err := s.ReadFile(name, 64<<10)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	return strings.TrimSpace(strings.Trim(string(raw), "\x00")), err
}

// link returns the target of a link of sysfs, below /sys; "" if there is no link.
func (s system) link(name string) (string, error) {
	to, err := s.Readlink(name)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	return path.Join("/", path.Dir(strings.TrimPrefix(name, "/sys/")), to), nil
}

// disks lists the block devices backed by hardware, with the read errors of each.
func (s system) disks() ([]*disk, map[*disk]error, error) {
	names, err := s.Names(blockDir)
	if err != nil {
		return nil, nil, err
	}
	slices.Sort(names)
	var all []*disk
	unread := map[*disk]error{}
	for _, name := range names {
		d, err := s.disk(name)
		if d == nil && err == nil {
			continue
		}
		all = append(all, d)
		if err != nil {
			unread[d] = err
		}
	}
	return all, unread, nil
}

// disk reads an entry of /sys/block. It returns nil and no error for an entry without hardware, for
// an entry with no size, no serial and no WWN, for a firmware area, and for a hidden path to a disk
// listed by itself. With an error the disk is never nil: it has what could be read.
func (s system) disk(name string) (*disk, error) {
	d := &disk{name: name}
	var faults []error
	read := func(file string) string {
		text, err := s.text(path.Join(blockDir, name, file))
		faults = append(faults, err)
		return text
	}
	var err error
	if d.path, err = s.link(path.Join(blockDir, name)); err != nil {
		return d, err
	}
	device, err := s.link("/sys" + d.path + "/device")
	if device == "" && err == nil || read("hidden") == "1" || machine.FirmwareArea(name) {
		return nil, nil
	}
	faults = append(faults, err)
	sectors, _ := strconv.ParseInt(read("size"), 10, 64) // of 512 bytes, whatever the disk's are
	d.size, d.number, d.readOnly = max(sectors, 0)*512, read("dev"), read("ro") == "1"
	d.model = cmp.Or(read("device/model"), read("device/name")) // an eMMC has a name
	d.wwn = cmp.Or(read("wwid"), read("device/wwid"))
	d.serial = cmp.Or(read("device/serial"), read("serial"))
	if d.serial == "" {
		page, err := s.ReadFile(path.Join(blockDir, name, "device/vpd_pg80"), 4096)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			faults = append(faults, err)
		}
		d.serial = unitSerial(page)
	}
	if d.size == 0 && d.serial == "" && d.wwn == "" {
		if err := errors.Join(faults...); err != nil {
			return d, err
		}
		return nil, nil
	}
	d.ata = read("device/vendor") == "ATA"
	d.transport = transport(d.path)
	if strings.HasPrefix(name, "nvme") {
		d.nguid = read("nguid")
		d.nsid, _ = strconv.ParseInt(read("nsid"), 10, 64)
		faults = append(faults, s.nvme(d, path.Base(device)))
	}
	entries, err := s.Names(path.Join(blockDir, name))
	faults = append(faults, err)
	for _, entry := range entries {
		if number, err := s.text(path.Join(blockDir, name, entry, "partition")); strings.HasPrefix(entry, name) &&
			(number != "" || err != nil) {
			d.partitions = append(d.partitions, entry)
			faults = append(faults, err)
		}
	}
	slices.Sort(d.partitions)
	return d, errors.Join(faults...)
}

var controllerName = lazyregexp.New(`^nvme[0-9]{1,4}$`)

// nvme adds the controllers of a namespace. If the drive supports several controllers, the
// namespace hangs on the subsystem and not on the controller.
func (s system) nvme(d *disk, parent string) error {
	d.controllers = []string{parent}
	if strings.HasPrefix(parent, "nvme-subsys") {
		entries, err := s.Names("/sys/class/nvme-subsystem/" + parent)
		if err != nil {
			return err
		}
		d.controllers = slices.DeleteFunc(entries, func(e string) bool { return !controllerName.MatchString(e) })
		slices.Sort(d.controllers)
	}
	for _, c := range d.controllers {
		dir := path.Join("/sys/class/nvme", c)
		how, err1 := s.text(dir + "/transport")
		where, err2 := s.link(dir)
		vendor, err3 := s.text(dir + "/device/vendor")
		if err := errors.Join(err1, err2, err3); err != nil {
			return err
		}
		d.transport, d.pciVendor = how, strings.TrimPrefix(vendor, "0x")
		if how == "pcie" && !strings.HasPrefix(where, "/devices/pci") {
			d.transport = "pcie, and on no PCI bus"
		}
		if d.transport != "pcie" {
			break
		}
	}
	return nil
}

// transports map parts of a disk's path to its transport. Remote transports come first: a USB
// bridge has an ATA disk behind it.
var transports = []struct {
	part *lazyregexp.Regexp
	name string
}{
	{lazyregexp.New(`/usb[0-9]+/`), "usb"},
	{lazyregexp.New(`/session[0-9]+/`), "iscsi"},
	{lazyregexp.New(`/rport-[^/]+/`), "fibre channel"},
	{lazyregexp.New(`/nvme-fabrics/`), "nvme over fabrics"},
	{lazyregexp.New(`/virtio[0-9]+/`), "virtio"},
	{lazyregexp.New(`/(fw|sbp)[0-9]+[./]`), "firewire"},
	{lazyregexp.New(`^/devices/virtual/|^/devices/pseudo`), "virtual"},
	{lazyregexp.New(`^/devices/.*/ata[0-9]+/`), "sata"},
	{lazyregexp.New(`^/devices/.*/end_device-[^/]+/`), "sas"},
	{lazyregexp.New(`^/devices/.*/mmc_host/mmc[0-9]+/`), "mmc"},
}

// transport returns the transport of a disk's path; "unknown" if the path does not tell.
func transport(where string) string {
	for _, t := range transports {
		if t.part.MatchString(where) {
			return t.name
		}
	}
	return "unknown"
}

func local(transport string) bool {
	return slices.Contains([]string{"pcie", "sata", "sas", "mmc"}, transport)
}

// unitSerial reads the serial number page of a SCSI disk: a head of four bytes, with the length in
// the last two.
func unitSerial(page []byte) string {
	const head = 4
	if len(page) < head || page[1] != 0x80 {
		return ""
	}
	length := int(page[2])<<8 | int(page[3])
	return strings.TrimSpace(strings.Trim(string(page[head:min(head+length, len(page))]), "\x00"))
}

// label names the disk in messages.
func (d *disk) label() string {
	return taskcatalog.Clean("disk "+d.name+" ("+cmp.Or(d.serial, d.wwn, "no serial")+")", 200)
}
