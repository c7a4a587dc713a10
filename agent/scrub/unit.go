package scrub

import (
	"fmt"

	"github.com/hostler/hostler/agent/gpu"
	"github.com/hostler/hostler/taskcatalog"
)

// unit is what is scrubbed at a time: a GPU, or an instance of one.
type unit struct {
	device gpu.Device
	facts  taskcatalog.GPUFacts
	want   *taskcatalog.BaselineGPU // nil: the task does not expect it
	size   uint64                   // of its memory, by the survey and the baseline; 0: unknown
	out    taskcatalog.GPUScrubbed

	before gpu.State
	// looks are all readings of the GPU's health, in their order: some counters
	// are cleared by reading them. Before number restart came a proven reset.
	looks    []gpu.Health
	restart  int
	refused  string // why the reset was
	busy     bool   // the reset was refused because somebody is at the GPU
	persists string // why its persistence mode did not go off for the reset

	// divided says that its GPU is in another MIG or partition mode than the baseline
	// has it in, which the reset will change. residue is what was found in the memory
	// before it did.
	divided bool
	residue uint64

	scrub *gpu.ScrubResult
	probe *gpu.ProbeResult
	done  bool // no more work on it
	hung  bool // asking it may hang again
	stuck bool // its helper outlived SIGKILL, and may have every GPU of the vendor open
}

// whole is the GPU that the unit is, or is a part of.
func (u *unit) whole() gpu.Device { return gpu.Device{Vendor: u.device.Vendor, UUID: u.facts.UUID} }

// memory is what a helper measured, held to the largest size that is known of the
// unit, and to the smallest reserve: a driver can be told to show less than there is,
// and to keep more.
func (u *unit) memory(m gpu.MemoryInfo) gpu.MemoryInfo {
	m.Total = max(m.Total, u.size)
	if m.Reserved == nil && u.out.Parent == "" {
		m.Reserved = u.facts.ReservedBytes
	}
	m.Reserved = u.reserve(m.Reserved)
	return m
}

// reserve is what of a driver's word on its reserve is believed: no more than the
// baseline has, and nothing where that has none.
func (u *unit) reserve(said *uint64) *uint64 {
	if said == nil || u.want == nil || u.want.ReservedBytes == nil {
		return nil
	}
	believed := min(*said, *u.want.ReservedBytes)
	return &believed
}

// worse lowers the unit's verdict; the first code stands.
func (u *unit) worse(v taskcatalog.Verdict, code taskcatalog.Code, format string, args ...any) {
	if u.out.Code == "" {
		u.out.Code, u.out.Message = code, taskcatalog.Clean(fmt.Sprintf(format, args...), taskcatalog.MaxText)
	}
	if u.out.Verdict != taskcatalog.VerdictNotClean {
		u.out.Verdict = v
	}
}

// fail is worse, and the end of work on the unit.
func (u *unit) fail(v taskcatalog.Verdict, code taskcatalog.Code, format string, args ...any) {
	u.done = true
	u.worse(v, code, format, args...)
}

// failed judges an error of the helper.
func (u *unit) failed(what string, err error) {
	verdict, code, message := gpu.JudgeFailure(err)
	u.hung, u.stuck = code == gpu.CodeHelperHung || code == gpu.CodeHelperStuck, u.stuck || code == gpu.CodeHelperStuck
	u.fail(verdict, code, "%s: %s", what, message)
}
