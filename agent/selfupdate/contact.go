package selfupdate

import (
	"time"

	"github.com/hostler/hostler/taskcatalog"
)

// mark is the file contact: the agent's word that its broker has answered it.
type mark struct {
	Trial      string    `json:"trial"`
	Invocation string    `json:"invocation"` // systemd's id of this start of the agent
	Version    string    `json:"version"`
	At         time.Time `json:"at"`
}

// MarkContact notes, for the watcher, that the broker has answered this start of the
// agent as it should. Without a trial nothing is written.
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

// contact reads the mark. One that cannot be read is none.
func (s *Store) contact() (m mark, ok bool) {
	raw, err := readBounded(s.state, contactFile, 4096)
	if err != nil {
		return mark{}, false
	}
	// The version on trial may be newer than this watcher, and say more.
	return m, decodeLoose(raw, &m) == nil
}
