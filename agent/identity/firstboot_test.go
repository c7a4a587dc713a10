package identity

import (
	"errors"
	"strings"
	"testing"
)

// A crash or a full disk at any step of an enrolment must not make a member whose first boot never
// ends, and a recorded end must not be undone.
func TestAFirstBootEndsOnceForEachEnrolment(t *testing.T) {
	dir, o := t.TempDir(), newOffice(t)
	s := openState(t, dir)
	due := func(want bool, when string) {
		t.Helper()
		_ = s.Close()
		s = openState(t, dir)
		if s.FirstBootDue() != want {
			t.Errorf("%s it is due: %v, want %v", when, !want, want)
		}
	}
	due(false, "before any enrolment")
	for _, step := range []string{firstBootFile, identityFile} {
		s.fail = func(at string) error {
			if strings.HasSuffix(at, " "+step) {
				return errors.New("no space left")
			}
			return nil
		}
		if m, err := enroll(s, o); err == nil {
			t.Fatalf("without %s it is %+v", step, m)
		}
		due(false, "without "+step)
	}
	m, err := enroll(s, o)
	if err != nil {
		t.Fatal(err)
	}
	due(true, "enrolled")
	other := *m
	other.TokenHash = "another enrolment's"
	if err := s.EndFirstBoot(&other); err != nil {
		t.Error(err)
	}
	due(true, "after the end of another's")
	for range 2 {
		if err := s.EndFirstBoot(m); err != nil {
			t.Error(err)
		}
		due(false, "ended")
	}
	if _, err := enroll(s, o); err != nil {
		t.Fatal(err)
	}
	due(false, "asked for once more with the same token")
}
