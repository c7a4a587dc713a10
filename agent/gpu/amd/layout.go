package amd

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"strings"

	"github.com/hostler/hostler/agent/gpu"
	"github.com/hostler/hostler/taskcatalog"
)

// structBytes exceeds the size of any structure passed as a buffer, in any version: an unknown
// newer library writes into the buffer, not past it.
const structBytes = 16 << 10

// layout has the offsets and sizes, in bytes, of a version's structures.
type layout struct {
	text         int // of the strings of driver, board and process structures
	asicSerial   int
	asicGfx      int // target_graphics_version
	serialText   int // of the two serial numbers
	processBytes int
	processPID   int
	processVRAM  int
	memoryModes  map[string]uint32
}

// The ABI as published in AMD's amdsmi.h, per major version. Up to 24.7 the year 24 stood in the
// version's place.
var (
	layout24 = layout{
		text: 64, asicSerial: 340, asicGfx: 384, serialText: 32, processBytes: 224, processPID: 32, processVRAM: 128,
		memoryModes: map[string]uint32{"NPS1": 1, "NPS2": 2, "NPS4": 3, "NPS8": 4},
	}
	layout25 = layout{
		text: 256, asicSerial: 532, asicGfx: 800, serialText: 256, processBytes: 704, processPID: 256, processVRAM: 352,
		memoryModes: map[string]uint32{"NPS1": 1, "NPS2": 2},
	}
	layout26 = layout{
		text: 256, asicSerial: 532, asicGfx: 800, serialText: 256, processBytes: 704, processPID: 256, processVRAM: 352,
		memoryModes: map[string]uint32{"NPS1": 1, "NPS2": 2, "NPS4": 4, "NPS8": 8},
	}
)

// Offsets that are the same in all versions.
const (
	boardSerial = 256
	// amdsmi_gpu_metrics_t, which grows only at its end: ticks of 10 ns, and samples.
	metricsHotspot      = 6 // degrees Celsius, 16 bits
	metricsMemoryHeat   = 8
	metricsPCIeWidth    = 74
	metricsFirmwareTime = 96
	metricsPower        = 120 // watts, 16 bits
	metricsPCIeReplays  = 168
	metricsSamples      = 424
)

// computeModes are the modes of 24.7 and later.
var computeModes = map[string]uint32{"SPX": 1, "DPX": 2, "TPX": 3, "QPX": 4, "CPX": 5}

// layoutOf parses the version structure: three numbers, or four if the first is a year.
func layoutOf(version []byte) (string, layout, error) {
	part := func(i int) uint32 { return binary.LittleEndian.Uint32(version[4*i:]) }
	name := fmt.Sprintf("%d.%d.%d", part(0), part(1), part(2))
	switch {
	case part(0) == 24 && part(1) >= 7:
		return name, layout24, nil
	case part(0) == 25:
		return name, layout25, nil
	case part(0) == 26, part(0) == 27:
		return name, layout26, nil
	}
	return name, layout{}, taskcatalog.Errorf(gpu.CodeLibraryMismatched,
		"cannot use AMD SMI %s: the agent knows versions 24.7 to 27 (install ROCm 6.3 or newer, or update the agent)", name)
}

// witness is two structures of a GPU that hold texts known beforehand.
type witness struct{ driver, asic []byte }

// check verifies the layout: the driver's name, behind two strings, must be amdgpu. If the library
// could not read the driver's name, the GPU's serial number must be at its offset.
func (l layout) check(w witness) error {
	if text(w.driver, 2*l.text, l.text) == driverName {
		return nil
	}
	serial := text(w.asic, l.asicSerial, l.serialText)
	if !bytes.Contains(w.driver, []byte(driverName)) && serial != "" && strings.Trim(serial, "0123456789abcdefABCDEFx") == "" {
		return nil
	}
	return taskcatalog.Errorf(gpu.CodeLibraryMismatched, "cannot use AMD SMI: its structures are not those of its version")
}

const driverName = "amdgpu"

// text is the C string at an offset.
func text(buf []byte, offset, size int) string {
	field := buf[offset : offset+size]
	if end := bytes.IndexByte(field, 0); end >= 0 {
		field = field[:end]
	}
	return taskcatalog.Clean(string(field), size)
}

func word(buf []byte, offset int) uint64   { return binary.LittleEndian.Uint64(buf[offset:]) }
func number(buf []byte, offset int) uint32 { return binary.LittleEndian.Uint32(buf[offset:]) }
