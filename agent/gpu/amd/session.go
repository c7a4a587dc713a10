package amd

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/hostler/hostler/agent/gpu"
	"github.com/hostler/hostler/taskcatalog"
	"github.com/hostler/hostler/taskcatalog/lazyregexp"
)

const smiLibrary = "libamd_smi.so"

var uuidForm = lazyregexp.New(`^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$`)

// session is AMD SMI, initialized.
type session struct {
	smi
	layout  layout
	devices []device
	// silent are the errors of listed GPUs that do not answer. The other GPUs are not affected.
	silent []error
}

// device is a GPU: a socket of AMD SMI.
type device struct {
	uuid       string
	pci        string // 0000:3b:00.0
	partitions []processor
}

const (
	maxHandles   = 512
	maxProcesses = 1 << 16
)

// openSession opens the library, initializes it and lists the GPUs by their PCI addresses. version
// is set if the driver is present.
func openSession() (s *session, version string, err error) {
	handle, err := openLibrary(smiLibrary, "27", "26", "25", "24")
	if err != nil {
		return nil, "", err
	}
	s = &session{}
	if err := bind(handle, &s.smi); err != nil {
		return nil, "", err
	}
	if err := s.initialize(initGPUs).err("initialize " + smiLibrary); err != nil {
		return nil, "", err
	}
	buf := make([]byte, structBytes)
	if err = s.smi.version(&buf[0]).err("read the version of " + smiLibrary); err == nil {
		version, s.layout, err = layoutOf(buf)
	}
	if err == nil {
		err = s.list()
	}
	if err != nil {
		s.shutDown()
		return nil, version, err
	}
	return s, version, nil
}

func (s *session) list() error {
	var n uint32
	if err := s.sockets(&n, nil).err("list GPUs"); err != nil || n == 0 {
		return err
	}
	if err := bounded(n, maxHandles, "GPUs"); err != nil {
		return err
	}
	sockets := make([]uintptr, n)
	if err := s.sockets(&n, &sockets[0]).err("list GPUs"); err != nil {
		return err
	}
	for _, socket := range sockets[:min(int(n), len(sockets))] {
		if err := s.addSocket(socket); err != nil {
			return err
		}
	}
	slices.SortFunc(s.devices, func(a, b device) int { return cmp.Compare(a.pci, b.pci) })
	s.distinguish()
	return nil
}

// distinguish appends the PCI address to the names of GPUs with the same uuid. The library derives
// the uuid from the chip's serial number, and some chips have none.
func (s *session) distinguish() {
	seen := map[string]int{}
	for _, d := range s.devices {
		seen[d.uuid]++
	}
	for i, d := range s.devices {
		if seen[d.uuid] > 1 {
			s.devices[i].uuid = d.uuid + "@" + d.pci
		}
	}
}

// bounded refuses an implausible count: a part of a list is no list.
func bounded(n, limit uint32, of string) error {
	if n <= limit {
		return nil
	}
	return taskcatalog.Errorf(gpu.CodeDriverFailed, "cannot use AMD SMI: it reports %d %s, which is implausible", n, of)
}

// addSocket adds the GPU of a socket. It fails for a fault of the library, not for a fault of a
// single GPU.
func (s *session) addSocket(socket uintptr) error {
	var n uint32
	if err := s.processors(socket, &n, nil).err("list the partitions of a GPU"); err != nil || n == 0 {
		return err
	}
	if err := bounded(n, maxHandles, "partitions of a GPU"); err != nil {
		return err
	}
	all := make([]processor, n)
	if err := s.processors(socket, &n, &all[0]).err("list the partitions of a GPU"); err != nil {
		return err
	}
	d, witness, err := s.identify(all[:min(int(n), len(all))])
	if err != nil {
		s.silent = append(s.silent, err)
		return nil
	}
	if len(d.partitions) == 0 {
		return nil
	}
	s.devices = append(s.devices, d)
	return s.layout.check(witness)
}

// identify reads the GPU of a socket, and the structures for the layout check. A socket of a CPU or
// a network card has no GPU.
func (s *session) identify(all []processor) (d device, w witness, err error) {
	for _, p := range all {
		var kind uint32
		if err := s.kind(p, &kind).err("read the kind of a processor"); err != nil {
			return d, w, err
		}
		if kind == kindGPU {
			d.partitions = append(d.partitions, p)
		}
	}
	if len(d.partitions) == 0 {
		return d, w, nil
	}
	var bdf uint64
	if err := s.bdf(d.whole(), &bdf).err("read the PCI address of a GPU"); err != nil {
		return d, w, err
	}
	// amdsmi_bdf_t: three bits of function, five of device, eight of bus, the domain.
	d.pci = fmt.Sprintf("%04x:%02x:%02x.%x", bdf>>16&0xffff, bdf>>8&0xff, bdf>>3&0x1f, bdf&7)
	uuid, length := make([]byte, structBytes), uint32(uuidBytes)
	if err := s.uuid(d.whole(), &length, &uuid[0]).err("read the uuid of GPU " + d.pci); err != nil {
		return d, w, err
	}
	d.uuid = text(uuid, 0, uuidBytes)
	if !uuidForm.MatchString(d.uuid) {
		return d, w, taskcatalog.Errorf(gpu.CodeDriverFailed, "cannot use GPU %s: AMD SMI gives it the uuid %q", d.pci, d.uuid)
	}
	w.driver, w.asic = make([]byte, structBytes), make([]byte, structBytes)
	if err := s.driver(d.whole(), &w.driver[0]).err("read the driver of GPU " + d.pci); err != nil {
		return d, w, err
	}
	return d, w, s.asic(d.whole(), &w.asic[0]).err("read what GPU " + d.pci + " is")
}

// whole is the handle for queries about the whole GPU.
func (d device) whole() processor { return d.partitions[0] }

// instance names partition i, or the GPU if it has no partitions.
func (d device) instance(i int) string {
	if len(d.partitions) == 1 {
		return d.uuid
	}
	return d.uuid + "/" + strconv.Itoa(i)
}

// find returns the GPU of a uuid and, if the uuid names a partition, its index; -1 for the whole
// GPU.
func (s *session) find(uuid string) (device, int, error) {
	base, part, partitioned := strings.Cut(uuid, "/")
	i := slices.IndexFunc(s.devices, func(d device) bool { return d.uuid == base })
	if i < 0 && len(s.silent) > 0 {
		return device{}, 0, taskcatalog.Errorf(gpu.CodeDeviceLost, "cannot find GPU %s: AMD SMI lists %d GPUs that do not answer: %v", uuid,
			len(s.silent), s.silent[0])
	}
	if i < 0 {
		return device{}, 0, taskcatalog.Errorf(gpu.CodeDeviceMissing, "cannot find GPU %s: AMD SMI does not list it", uuid)
	}
	if !partitioned {
		return s.devices[i], -1, nil
	}
	n, err := strconv.Atoi(part)
	if err != nil || n < 0 || n >= len(s.devices[i].partitions) || s.devices[i].instance(n) != uuid {
		return device{}, 0, taskcatalog.Errorf(gpu.CodeDeviceMissing, "cannot find %s: the GPU has no such partition", uuid)
	}
	return s.devices[i], n, nil
}
