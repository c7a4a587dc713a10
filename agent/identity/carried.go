package identity

import (
	"github.com/hostler/hostler/pki"
	"github.com/hostler/hostler/taskcatalog"
	"github.com/hostler/hostler/taskcatalog/wire"
)

const (
	carriedFile = "carried.json" // a task that the answer to the enrolment carried
	maxCarried  = 2 * pki.MaxEnvelope
)

// keepCarried leaves what an answer carried to the agent. Nothing depends on it,
// as the broker delivers the task too: what cannot be written is not kept.
func (s *State) keepCarried(c *wire.CarriedTask) {
	if c == nil {
		return
	}
	if raw, err := taskcatalog.Encode(c); err == nil && len(raw) <= maxCarried {
		_ = s.writeFile(carriedFile, raw)
	}
}

// Carried is the task that the answer to the enrolment carried, nil where there
// is none left. Nothing in it was verified.
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
