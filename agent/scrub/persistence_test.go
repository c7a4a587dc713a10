package scrub

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/hostler/hostler/agent/gpu"
	"github.com/hostler/hostler/taskcatalog"
)

// persists reads the persistence mode of a GPU.
func (l *lab) persists(uuid string) bool {
	l.t.Helper()
	state, err := l.Helper.State(l.t.Context(), gpu.Device{Vendor: "nvidia", UUID: uuid})
	if err != nil || state.Settings.Persistence == nil {
		l.t.Fatalf("%+v, %v", state.Settings, err)
	}
	return *state.Settings.Persistence
}

func TestPersistenceModeThatWasSwitchedOnByHandIsOffForTheResetAlone(t *testing.T) {
	t.Parallel()
	l := newLab(t, "nvidia", "persistence on")
	l.withReset()
	res := l.good()
	g := l.want(res, 1, taskcatalog.VerdictClean, "")
	if g.Assurance.Reset != taskcatalog.ResetUnproven || len(res.Stopped) > 0 {
		t.Errorf("%+v, stopped %+v", g.Assurance, res.Stopped)
	}
	if !l.persists(l.uuid(0)) || !l.persists(l.uuid(1)) || len(l.ledger.off) > 0 {
		t.Errorf("the mode was not switched on again, and the ledger has %q", l.ledger.off)
	}
}

// A tenant's persistence mode is not switched on again: the baseline had none.
func TestPersistenceModeOfATenantIsNotSwitchedOnAgain(t *testing.T) {
	t.Parallel()
	l := newLab(t, "nvidia")
	l.withReset()
	on := true
	if _, err := l.Helper.Apply(t.Context(), gpu.Device{Vendor: "nvidia", UUID: l.uuid(1)}, gpu.Settings{Persistence: &on}); err != nil {
		t.Fatal(err)
	}
	if g := l.want(l.good(), 1, taskcatalog.VerdictClean, ""); g.Assurance.Reset == taskcatalog.ResetRefused || l.persists(l.uuid(1)) {
		t.Errorf("%+v, persistence %v", g.Assurance, l.persists(l.uuid(1)))
	}
}

func TestPersistenceModeThatDoesNotGoOffIsNamedAsTheReason(t *testing.T) {
	t.Parallel()
	l := newLab(t, "nvidia", "persistence on")
	l.withReset()
	l.faults("persistence on", "fault.1 refuses persistence")
	g := l.want(l.good(), 1, taskcatalog.VerdictInconclusive, taskcatalog.CodeGPUHolderPresent)
	if g.Assurance.Reset != taskcatalog.ResetRefused || !strings.Contains(g.Message, "persistence mode is on and cannot be turned off") {
		t.Errorf("%+v: %s", g.Assurance, g.Message)
	}
}

// An agent that is killed between off and on finds in its ledger the GPUs to switch on.
func TestPersistenceModeIsOnAgainAfterACrash(t *testing.T) {
	t.Parallel()
	l := newLab(t, "nvidia", "persistence on")
	l.withReset()
	if err := l.survey(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := l.persistenceOff(t.Context(), l.units); err != nil {
		t.Fatal(err)
	}
	// Here the agent was killed: only the ledger is left of the scrub.
	if slices.Sort(l.ledger.off); l.persists(l.uuid(0)) || !slices.Equal(l.ledger.off, slices.Sorted(slices.Values([]string{l.uuid(0), l.uuid(1)}))) {
		t.Fatalf("the ledger has %q", l.ledger.off)
	}
	if left := PutBack(t.Context(), l.ledger, l.systemd, nil); len(left) != 2 || left[0].PutBack || len(l.ledger.off) != 2 {
		t.Errorf("without a helper: %+v", left)
	}
	l.ledger.off = append(l.ledger.off, "GPU-00000000-0000-0000-0000-000000000000") // a GPU that was removed from the machine
	back := PutBack(t.Context(), l.ledger, l.systemd, l.Helper)
	if len(back) != 3 || slices.ContainsFunc(back, func(i taskcatalog.GPUInterrupted) bool { return !i.PutBack }) || len(l.ledger.off) > 0 || !l.persists(l.uuid(0)) || !l.persists(l.uuid(1)) {
		t.Errorf("%+v, and the ledger has %q", back, l.ledger.off)
	}
}

// full is a ledger that cannot be written.
type full struct{ *memory }

func (full) PutPersistent(string) error { return errors.New("no space left on device") }

func TestPersistenceModeStaysOnWhereTheLedgerCannotNoteIt(t *testing.T) {
	t.Parallel()
	l := newLab(t, "nvidia", "persistence on")
	l.withReset()
	l.Stopped = full{l.ledger}
	if err := l.survey(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := l.persistenceOff(t.Context(), l.units); err == nil || !l.persists(l.uuid(0)) {
		t.Errorf("%v", err)
	}
}
