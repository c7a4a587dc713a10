package scrub

import (
	"fmt"

	"github.com/hostler/hostler/agent/gpu"
	"github.com/hostler/hostler/taskcatalog"
)

// unit is a GPU, or an instance of a GPU, scrubbed as a whole.
type unit struct {
	device gpu.Device
	facts  taskcatalog.GPUFacts
	want   *taskcatalog.BaselineGPU // nil: the task does not expect the GPU
	size   uint64                   // memory in bytes, by the survey and the baseline; 0: unknown
	out    taskcatalog.GPUScrubbed

	before gpu.State
	// readings are all readings of the GPU's health, in order: some counters are cleared by reading
	// them. A proven reset came just before reading number restart.
	readings []gpu.Health
	restart  int
	refused  string // why the reset was refused
	busy     bool   // the reset was refused because the GPU is in use
	persists string // why persistence mode did not go off for the reset

	// divided: the GPU's MIG or partition mode differs from its baseline, and the reset will change
	// it. residue is the residue found in the memory before the change.
	divided bool
	residue uint64

	scrub *gpu.ScrubResult
	probe *gpu.ProbeResult
	done  bool // no more work on the unit
	hung  bool // asking the GPU may hang again
	stuck bool // its helper outlived SIGKILL, and may have every GPU of the vendor open
}

// whole returns the GPU that the unit is, or is a part of.
func (u *unit) whole() gpu.Device { return gpu.Device{Vendor: u.device.Vendor, UUID: u.facts.UUID} }

// memory corrects a helper's measurement to the largest known size of the unit, and to the smallest
// reserve: a driver can be made to show less memory, and to reserve more.
func (u *unit) memory(m gpu.MemoryInfo) gpu.MemoryInfo {
	m.Total = max(m.Total, u.size)
	if m.Reserved == nil && u.out.Parent == "" {
		m.Reserved = u.facts.ReservedBytes
	}
	m.Reserved = u.reserve(m.Reserved)
	return m
}

// reserve limits a driver's reported reserve to the baseline's reserve; nil if the baseline has
// none.
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

// fail is worse, and ends the work on the unit.
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
