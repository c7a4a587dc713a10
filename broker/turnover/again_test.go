package turnover_test

import (
	"testing"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/chain"
	"github.com/hostler/hostler/broker/turnover/turnovertest"
	"github.com/hostler/hostler/taskcatalog"
)

// faulty makes one GPU of a node unclean, with a fault for a person.
func faulty(m *turnovertest.Machine) {
	m.Faulty = map[string]taskcatalog.Code{m.Parts.GPUs[0].UUID: taskcatalog.CodeGPUHardwareFault}
}

// A reimage that is rerun from its first stage finds its deployed system, and does not cut off
// the agent.
func TestARerunDoesNotCutOffWhatItHasDeployed(t *testing.T) {
	s := newSite(t)
	s.place.Policy.AcceptMAASErase = true
	s.book.Change(s.id, faulty)
	r := s.turnOver(reimage)
	s.failed(r, "scrub_gpu", "gpu_hw_fault", "")
	s.book.Change(s.id, func(m *turnovertest.Machine) { m.Faulty = nil })
	if r = s.order(r.ID, chain.Rerun); r.Status != chain.FailedRetryable && r.Status != chain.Completed {
		t.Fatalf("%s at %s: %+v", r.Status, r.Stage, r.Failure)
	}
	if m := s.book.Machine(s.id); m.Denied() || s.region.Happened(s.serial, "release") != 1 || s.region.Happened(s.serial, "deploy") != 2 {
		t.Errorf("cut off %v, %d releases, %d deployments", m.Denied(), s.region.Happened(s.serial, "release"), s.region.Happened(s.serial, "deploy"))
	}
	s.is(broker.Active, false)
}

// An undone deployment may already have an agent: the agent is cut off before MAAS has the
// machine, and becomes a former system.
func TestARestartCutsOffWhatItHasDeployed(t *testing.T) {
	s := newSite(t)
	s.place.Policy.AcceptMAASErase = true
	s.book.Change(s.id, faulty)
	r := s.turnOver(reimage)
	s.failed(r, "scrub_gpu", "gpu_hw_fault", "")
	s.book.Change(s.id, func(m *turnovertest.Machine) { m.Faulty = nil })
	looks := 0
	s.lossy.Saved = func(c chain.Change, _ error) {
		if c.Record.Stage != "deploy_via_maas" || c.Record.Direction != chain.Undo || c.Record.Waiting == "" {
			return
		}
		looks++
		if m := s.book.Machine(s.id); !m.Denied() {
			t.Error("the machine is being released, and its agent is not cut off")
		}
	}
	r = s.order(r.ID, chain.RestartClean)
	if r.Status != chain.Completed || looks == 0 {
		t.Fatalf("%s at %s: %+v (%d looks)", r.Status, r.Stage, r.Failure, looks)
	}
	s.is(broker.Active, false)
}
