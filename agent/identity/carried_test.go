package identity

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/hostler/hostler/taskcatalog/wire"
)

func TestWhatAnAnswerCarriedIsLeftToTheNextProcess(t *testing.T) {
	dir, o := t.TempDir(), newOffice(t)
	c := wire.CarriedTask{TaskID: "t-1", Envelope: `{"payload":"\u00e9\n"}`}
	o.change = func(r *wire.EnrollReply) { r.ResolverConfig = &c }
	s := openState(t, dir)
	if _, err := enroll(s, o); err != nil {
		t.Fatal(err)
	}
	_ = s.Close()
	s = openState(t, dir)
	if got := s.Carried(); got == nil || *got != c {
		t.Fatalf("it finds %+v", got)
	}
	if info, err := os.Stat(filepath.Join(dir, carriedFile)); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	s.DropCarried()
	if got := s.Carried(); got != nil {
		t.Errorf("dropped, it finds %+v", got)
	}
}

// A membership does not depend on the task carried by its answer.
func TestACarriedTaskThatCannotBeKeptCostsNothing(t *testing.T) {
	small := &wire.CarriedTask{TaskID: "t-1", Envelope: "{}"}
	for name, test := range map[string]struct {
		carried *wire.CarriedTask
		prepare func(s *State)
		after   func(dir string) error
	}{
		"none, after one of an earlier enrolment": {prepare: func(s *State) { s.keepCarried(small) }},
		"one that is too large":                   {carried: &wire.CarriedTask{TaskID: "t-1", Envelope: strings.Repeat("x", maxCarried)}, prepare: func(s *State) { s.keepCarried(small) }},
		"a disk that takes no more": {carried: small, prepare: func(s *State) {
			s.fail = func(step string) error {
				if strings.Contains(step, carriedFile) {
					return syscall.ENOSPC
				}
				return nil
			}
		}},
		"one that was cut off": {carried: small, after: func(dir string) error { return os.Truncate(filepath.Join(dir, carriedFile), 10) }},
	} {
		t.Run(name, func(t *testing.T) {
			dir, o := t.TempDir(), newOffice(t)
			o.change = func(r *wire.EnrollReply) { r.ResolverConfig = test.carried }
			s := openState(t, dir)
			if test.prepare != nil {
				test.prepare(s)
			}
			if m, err := enroll(s, o); err != nil || m == nil {
				t.Fatal(err)
			}
			if test.after != nil {
				if err := test.after(dir); err != nil {
					t.Fatal(err)
				}
			}
			if got := s.Carried(); got != nil {
				t.Errorf("it finds a task of %d bytes", len(got.Envelope))
			}
		})
	}
}

// A refused answer leaves nothing for the agent.
func TestAnAnswerThatIsRefusedCarriesNothing(t *testing.T) {
	o := newOffice(t)
	o.change = func(r *wire.EnrollReply) {
		r.TrustBundle = "{}"
		r.ResolverConfig = &wire.CarriedTask{TaskID: "t-1", Envelope: "{}"}
	}
	s := openState(t, t.TempDir())
	if _, err := enroll(s, o); err == nil || s.Carried() != nil {
		t.Errorf("%v, it finds %+v", err, s.Carried())
	}
}
