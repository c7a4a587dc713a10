package identity

import (
	"errors"
	"io/fs"
)

// firstBootFile holds the hash of the token whose enrolment still has the end of a
// first boot before it.
const firstBootFile = "first-boot"

// FirstBootDue reports whether the enrolment in force still has the end of its first
// boot before it. Of an enrolment that an agent made which did not know of this, it
// has none.
func (s *State) FirstBootDue() bool {
	m := s.Member()
	return m != nil && s.firstBootOf(m.TokenHash)
}

func (s *State) firstBootOf(tokenHash string) bool {
	raw, err := s.readFile(firstBootFile, 4096)
	return err == nil && string(raw) == tokenHash
}

// EndFirstBoot notes that m's first boot has ended: it ends once for each enrolment.
// When it returns without an error that survives a loss of power.
func (s *State) EndFirstBoot(m *Member) error {
	s.change.Lock()
	defer s.change.Unlock()
	if !s.firstBootOf(m.TokenHash) {
		return nil // another enrolment's, by now
	}
	if err := s.dir.Remove(firstBootFile); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return stateError("cannot note that the first boot has ended: %v", err)
	}
	return s.syncDir()
}
