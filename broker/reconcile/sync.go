package reconcile

import (
	"time"

	"github.com/hostler/hostler/broker/maas"
)

// syncs remembers since when each machine's last_sync has been unchanged. A nil syncs remembers
// nothing, and no machine is late.
type syncs struct {
	since map[string]synced // by system_id
}

type synced struct {
	last time.Time // as MAAS wrote it
	at   time.Time // when this value was first seen
}

// late reports whether a machine has not reported its hardware for one and a half intervals of
// observation.
func (s *syncs) late(m maas.Machine, at time.Time) bool {
	interval := time.Duration(m.Interval()) * time.Second
	if s == nil {
		return false
	}
	had, known := s.since[m.SystemID]
	if interval == 0 || m.Status != maas.Deployed {
		delete(s.since, m.SystemID)
		return false
	}
	if !known || !had.last.Equal(m.LastSync.Time) {
		if s.since == nil {
			s.since = map[string]synced{}
		}
		s.since[m.SystemID] = synced{m.LastSync.Time, at}
		return false
	}
	return at.Sub(had.at) > interval*3/2
}

// forget drops machines that belong to no node any more.
func (s *syncs) forget(bound map[string]bool) {
	if s == nil {
		return
	}
	for id := range s.since {
		if !bound[id] {
			delete(s.since, id)
		}
	}
}

// reset forgets everything: while MAAS could not be read, no change could be seen.
func (s *syncs) reset() { s.since = nil }
