package amd

import (
	"github.com/hostler/hostler/agent/gpu"
	"github.com/hostler/hostler/agent/machine"
)

// Vendor is ROCm's libraries in this process.
type Vendor struct {
	machine *machine.Machine
	opened  *session
}

var _ gpu.Vendor = (*Vendor)(nil)

// New returns a Vendor. m is the root of sysfs; nil: sysfs is not read.
func New(m *machine.Machine) *Vendor { return &Vendor{machine: m} }

// Name is the vendor's name in facts and tasks.
func (v *Vendor) Name() string { return "amd" }

// session is AMD SMI, opened at first use.
func (v *Vendor) session() (*session, error) {
	if v.opened != nil {
		return v.opened, nil
	}
	s, _, err := openSession()
	v.opened = s
	return s, err
}

// on finds a GPU, or a partition of a GPU.
func (v *Vendor) on(uuid string) (*session, device, int, error) {
	s, err := v.session()
	if err != nil {
		return nil, device{}, 0, err
	}
	d, part, err := s.find(uuid)
	return s, d, part, err
}

// Close shuts AMD SMI down.
func (v *Vendor) Close() error {
	if v.opened == nil {
		return nil
	}
	s := v.opened
	v.opened = nil
	return s.shutDown().err("shut " + smiLibrary + " down")
}
