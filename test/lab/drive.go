package lab

import (
	"bytes"
	"io"
	"os"

	"github.com/hostler/hostler/test/maassim"
)

// Drive is an NVMe disk of a Metal, backed by a file on this machine. The file shows the disk's
// content independently of any system's report.
type Drive struct {
	Serial, File string
	Size         int64
}

// NewDrive makes an empty drive of size bytes.
func NewDrive(file, serial string, size int64) (*Drive, error) {
	d := &Drive{Serial: serial, File: file, Size: size}
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		return nil, err
	}
	return d, os.Truncate(file, size)
}

// Count counts a text on the drive.
func (d *Drive) Count(text string) (int, error) {
	raw, err := os.ReadFile(d.File)
	return bytes.Count(raw, []byte(text)), err
}

func (d *Drive) args() []string {
	return []string{
		"-drive", "if=none,format=raw,cache=writeback,id=" + d.Serial + ",file=" + d.File, "-device",
		"nvme,serial=" + d.Serial + ",drive=" + d.Serial,
	}
}

// disk is the drive as MAAS's commissioning finds it.
func (d *Drive) disk(name string) maassim.Disk {
	return maassim.Disk{Name: name, Model: "QEMU NVMe Ctrl", Serial: d.Serial, IDPath: "/dev/disk/by-id/nvme-" + d.Serial, Size: d.Size}
}

// ends is the number of bytes that MAAS's quick erase wipes at each end.
const ends = 2 << 20

// erase performs MAAS's erase of the given kind.
func (d *Drive) erase(how string) error {
	if how != "quick" {
		if err := os.Truncate(d.File, 0); err != nil {
			return err
		}
		return os.Truncate(d.File, d.Size)
	}
	f, err := os.OpenFile(d.File, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	zeros := make([]byte, min(ends, d.Size))
	for _, at := range []int64{0, d.Size - int64(len(zeros))} {
		if _, err := io.NewOffsetWriter(f, at).Write(zeros); err != nil {
			_ = f.Close()
			return err
		}
	}
	return f.Close()
}
