package identity

import (
	"github.com/hostler/hostler/pki"
	"github.com/hostler/hostler/taskcatalog"
	"github.com/hostler/hostler/taskcatalog/wire"
)

const (
	carriedFile = "carried.json" // the task carried by the enrolment's answer
	maxCarried  = 2 * pki.MaxEnvelope
)

// keepCarried stores the task carried by an answer, for the agent. The task is optional, because
// the broker delivers it as well: if the write fails, the task is dropped.
func (s *State) keepCarried(c *wire.CarriedTask) {
	if c == nil {
		return
	}
	if raw, err := taskcatalog.Encode(c); err == nil && len(raw) <= maxCarried {
		_ = s.writeFile(carriedFile, raw)
	}
}

// Carried is the task carried by the enrolment's answer, or nil. Nothing in it was verified.
func (s *State) Carried() *wire.CarriedTask {
	raw, err := s.readFile(carriedFile, maxCarried)
	if err != nil {
		return nil
	}
	c := new(wire.CarriedTask)
	if taskcatalog.DecodeStrict(raw, c) != nil {
		return nil
	}
	return c
}

// DropCarried forgets the carried task: it was taken or refused.
func (s *State) DropCarried() { _ = s.dir.Remove(carriedFile) }
