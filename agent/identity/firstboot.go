package identity

import (
	"errors"
	"io/fs"
)

// firstBootFile holds the token hash of the enrolment whose first boot has not ended yet.
const firstBootFile = "first-boot"

// FirstBootDue reports whether the first boot of the enrolment in force has not ended yet. For an
// enrolment by an older agent without this record it is false.
func (s *State) FirstBootDue() bool {
	m := s.Member()
	return m != nil && s.firstBootOf(m.TokenHash)
}

func (s *State) firstBootOf(tokenHash string) bool {
	raw, err := s.readFile(firstBootFile, 4096)
	return err == nil && string(raw) == tokenHash
}

// EndFirstBoot records that m's first boot has ended. This happens once per enrolment. If it
// returns no error, the record is durable.
func (s *State) EndFirstBoot(m *Member) error {
	s.change.Lock()
	defer s.change.Unlock()
	if !s.firstBootOf(m.TokenHash) {
		return nil // of another enrolment by now
	}
	if err := s.dir.Remove(firstBootFile); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return stateError("cannot record that the first boot has ended: %v", err)
	}
	return s.syncDir()
}
