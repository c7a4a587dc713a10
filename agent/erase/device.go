package erase

import (
	"io"
	"os"

	"golang.org/x/sys/unix"

	"github.com/hostler/hostler/agent/machine"
)

// Device is a disk held open for this process alone.
type Device interface {
	io.ReaderAt
	io.WriterAt
	io.Closer
	Sync() error
	Size() (int64, error)    // as reported by the kernel now
	Number() (string, error) // major:minor of the open device
}

// Devices are the block and character devices of a machine.
type Devices interface {
	// Open opens a disk for this process alone; unix.EBUSY if the disk is in use.
	Open(name, number string) (Device, error)
	// Is fails unless the node of this name in /dev has this device number. whole: the node is a
	// block device, else it is the controller's character device.
	Is(name, number string, whole bool) error
}

// DevicesOf returns the devices of a machine.
func DevicesOf(m *machine.Machine) Devices { return devices{m} }

type devices struct{ m *machine.Machine }

func (d devices) Open(name, number string) (Device, error) {
	f, err := d.m.OpenBlock(name, number)
	if err != nil {
		return nil, err
	}
	return block{f}, nil
}

func (d devices) Is(name, number string, whole bool) error {
	if whole {
		return d.m.IsDevice(name, number, unix.S_IFBLK)
	}
	return d.m.IsDevice(name, number, unix.S_IFCHR)
}

type block struct{ *os.File }

func (b block) Size() (int64, error)    { return machine.BlockSize(b.File) }
func (b block) Number() (string, error) { return machine.Number(b.File) }
