package erase

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// The machine may have booted from a partition that is not mounted.

const (
	efiVariables = "/sys/firmware/efi/efivars/"
	efiGlobal    = "-8be4df61-93ca-11d2-aa0d-00e098032b8c"
)

// booted reports whether the firmware booted from a partition of the disk. On a machine booted by
// EFI, booted returns an error if the booted entry cannot be determined; an entry removed since the
// boot counts as no.
func (s system) booted(d *disk) (bool, error) {
	byEFI, err := s.Has("/sys/firmware/efi")
	if err != nil || !byEFI {
		return false, err
	}
	current, err := s.variable("BootCurrent")
	if errors.Is(err, fs.ErrNotExist) {
		return false, fmt.Errorf("the machine was booted by EFI, and its boot entry cannot be read (mount efivarfs at %s)",
			path.Clean(efiVariables))
	}
	if err != nil || len(current) != 6 {
		return false, errors.Join(errors.New("cannot read which entry the firmware booted"), err)
	}
	entry, err := s.variable(fmt.Sprintf("Boot%04X", binary.LittleEndian.Uint16(current[4:])))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil // the entry was removed since
	}
	if err != nil {
		return false, err
	}
	from, ok := parseLoadOption(entry)
	if !ok {
		return false, nil // from the network, or from a whole disk
	}
	block, err := s.text(path.Join(blockDir, d.name, "queue/logical_block_size"))
	if err != nil {
		return false, err
	}
	bytes, err := strconv.ParseUint(block, 10, 32)
	if err != nil || bytes == 0 {
		bytes = 512
	}
	for _, part := range d.partitions {
		number, err1 := s.text(path.Join(blockDir, d.name, part, "partition"))
		start, err2 := s.text(path.Join(blockDir, d.name, part, "start"))
		size, err3 := s.text(path.Join(blockDir, d.name, part, "size"))
		if err := errors.Join(err1, err2, err3); err != nil {
			return false, err
		}
		// In sysfs a sector is 512 bytes; in the boot entry it is the disk's block.
		if number == fmt.Sprint(from.number) && start == fmt.Sprint(from.start*(bytes/512)) && size == fmt.Sprint(from.size*(bytes/512)) {
			return true, nil
		}
	}
	return false, nil
}

// variable reads an EFI variable as shown by the kernel. A process with root may have mounted
// something else over the variables, so the mounts are checked.
func (s system) variable(name string) ([]byte, error) {
	file := efiVariables + name + efiGlobal
	st, err := s.Lstat(file)
	if err != nil {
		return nil, err
	}
	mounts, err := s.Mounts()
	if err != nil {
		return nil, err
	}
	device := fmt.Sprintf("%d:%d", unix.Major(st.Dev), unix.Minor(st.Dev))
	shown := false
	for _, m := range mounts {
		shown = shown || m.Type == "efivarfs" && m.Device == device
		if strings.HasPrefix(m.Point, efiVariables) {
			return nil, errors.New("a mount hides an EFI variable at " + m.Point + " (unmount it)")
		}
	}
	if !shown {
		return nil, errors.New("what lies at " + path.Clean(efiVariables) + " is not the kernel's (unmount it, and mount efivarfs)")
	}
	return s.ReadFile(file, 64<<10)
}

// partition is the location of a boot entry's loader.
type partition struct {
	number      uint32
	start, size uint64 // in the disk's blocks
}

// parseLoadOption finds the partition in a boot entry's variable: attributes of the variable and of
// the entry, the length of the device path, a zero-terminated name in UTF-16, the path.
func parseLoadOption(raw []byte) (partition, bool) {
	const head = 4 + 4 + 2
	if len(raw) < head {
		return partition{}, false
	}
	length := int(binary.LittleEndian.Uint16(raw[8:]))
	rest := raw[head:]
	for {
		if len(rest) < 2 {
			return partition{}, false
		}
		end := rest[0] == 0 && rest[1] == 0
		if rest = rest[2:]; end {
			break
		}
	}
	rest = rest[:min(length, len(rest))]
	for len(rest) >= 4 {
		size := int(binary.LittleEndian.Uint16(rest[2:]))
		if size < 4 || size > len(rest) {
			break
		}
		const media, hardDrive = 4, 1
		if rest[0] == media && rest[1] == hardDrive && size >= 42 {
			return partition{
				number: binary.LittleEndian.Uint32(rest[4:]), start: binary.LittleEndian.Uint64(rest[8:]),
				size: binary.LittleEndian.Uint64(rest[16:]),
			}, true
		}
		rest = rest[size:]
	}
	return partition{}, false
}
