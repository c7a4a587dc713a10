package selfupdate

import (
	"time"

	"github.com/hostler/hostler/taskcatalog"
)

// mark is the content of the file contact: the agent's record of an answer from its broker.
type mark struct {
	Trial      string    `json:"trial"`
	Invocation string    `json:"invocation"` // systemd's id of this start of the agent
	Version    string    `json:"version"`
	At         time.Time `json:"at"`
}

// MarkContact records for the watcher that the broker has answered this start of the agent. Without
// a trial nothing is written.
func (s *Store) MarkContact(invocation, version string) error {
	st, err := s.Load()
	if err != nil || st.Trial == nil {
		return err
	}
	if m, ok := s.contact(); ok && m.Trial == st.Trial.ID && m.Invocation == invocation {
		return nil
	}
	raw, err := taskcatalog.Encode(mark{Trial: st.Trial.ID, Invocation: invocation, Version: version, At: s.now().UTC()})
	if err != nil {
		return err
	}
	return s.write(s.state, contactFile, raw, 0o600)
}

// contact reads the mark. An unreadable mark counts as missing.
func (s *Store) contact() (m mark, ok bool) {
	raw, err := readBounded(s.state, contactFile, 4096)
	if err != nil {
		return mark{}, false
	}
	// The version on trial may be newer than this watcher, and write more fields.
	return m, decodeLoose(raw, &m) == nil
}

// starting is the content of the file process: systemd's id of an agent's start, and the instance
// under which this start polls the broker.
type starting struct {
	Invocation string `json:"invocation"`
	Instance   string `json:"instance"`
}

// Began records for the watcher under which instance this start of the agent polls the broker.
// Without a trial nothing is written.
func (s *Store) Began(invocation, instance string) error {
	st, err := s.Load()
	if err != nil || st.Trial == nil {
		return err
	}
	raw, err := taskcatalog.Encode(starting{Invocation: invocation, Instance: instance})
	if err != nil {
		return err
	}
	return s.write(s.state, processFile, raw, 0o600)
}

// instance returns the instance of a start of the agent; empty: the start has not recorded it.
func (s *Store) instance(invocation string) string {
	var p starting
	raw, err := readBounded(s.state, processFile, 4096)
	if err != nil || decodeLoose(raw, &p) != nil || p.Invocation != invocation {
		return ""
	}
	return p.Instance
}
