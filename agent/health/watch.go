package health

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/hostler/hostler/agent/facts"
	"github.com/hostler/hostler/agent/gpu"
	"github.com/hostler/hostler/agent/machine"
	"github.com/hostler/hostler/agent/scrub"
	profiles "github.com/hostler/hostler/resolver-profiles"
	"github.com/hostler/hostler/taskcatalog"
)

// LookTime limits the look at the GPUs of a vendor. A driver that nobody keeps loaded takes a while to
// bring eight GPUs up.
const LookTime = 45 * time.Second

// stuckPause is how long no child is started for a vendor after one that the driver did not let go: each
// further one would be stuck beside it.
const stuckPause = 30 * time.Minute

// ErrHeld says that there was no look, because a task has the GPUs for itself.
var ErrHeld = errors.New("a task has the GPUs for itself")

// Watch looks at the GPUs of the machine.
type Watch struct {
	Machine *machine.Machine
	BootID  string
	File    string // of the state
	Rules   func() []profiles.HealthRule
	// Ask looks at the GPUs of a vendor: gpu.Helper.Look.
	Ask func(ctx context.Context, vendor string) (gpu.Looks, error)
	// Lines reads the kernel's log: machine.KernelLogSince.
	Lines func(place uint64, keep func(string) bool) (machine.KernelSince, error)
	// Bus lists the PCI addresses of the GPUs, by vendor: facts.GPUsOnBus.
	Bus func(*machine.Machine) (map[string][]string, error)
	Now func() time.Time
	Log *zap.Logger

	mu    sync.Mutex
	stuck map[string]time.Time
}

// New returns a Watch of this machine.
func New(
	m *machine.Machine, h *gpu.Helper, bootID, file string, rules func() []profiles.HealthRule, now func() time.Time, log *zap.Logger,
) *Watch {
	return &Watch{
		Machine: m, BootID: bootID, File: file, Rules: rules, Ask: h.Look, Lines: m.KernelLogSince, Bus: facts.GPUsOnBus,
		Now: now, Log: log,
	}
}

// Hold keeps looks away from the GPUs until release is called, and waits for the end of one that is under
// way. A reset is refused while a look has the GPUs open.
func (w *Watch) Hold() (release func()) {
	w.mu.Lock()
	return w.mu.Unlock
}

// Look looks once and returns what is in force then. ErrHeld: a task has the GPUs for itself.
func (w *Watch) Look(ctx context.Context) (taskcatalog.HealthReport, error) {
	if !w.mu.TryLock() {
		return taskcatalog.HealthReport{}, ErrHeld
	}
	defer w.mu.Unlock()
	s, before := w.read()
	l := seen{bootID: w.BootID, now: w.Now(), rules: w.Rules(), looks: map[string]gpu.Looks{}, failed: map[string]error{}}
	place := s.Place
	if s.BootID != w.BootID {
		place = 0
	}
	w.readLog(&l, place)
	var busErr error
	if l.bus, busErr = w.Bus(w.Machine); busErr != nil {
		l.bus = s.bus()
	}
	for _, vendor := range slices.Sorted(maps.Keys(l.bus)) {
		if busErr != nil {
			l.failed[vendor] = busErr
			continue
		}
		l.looks[vendor], l.failed[vendor] = w.ask(ctx, vendor)
	}
	if err := context.Cause(ctx); err != nil {
		return taskcatalog.HealthReport{}, err // the agent ends: this is no lost look
	}
	r := judge(s, l)
	return r, w.save(s, before)
}

// Reset forgets what a proven reset of GPUs has ended. What the kernel logged of other GPUs stays.
func (w *Watch) Reset(vendor string, uuids []string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.ResetHeld(vendor, uuids)
}

// ResetHeld is Reset for a caller that has the GPUs for itself, by Hold.
func (w *Watch) ResetHeld(vendor string, uuids []string) error {
	s, before := w.read()
	if s.BootID != w.BootID {
		return nil // the next look begins anew
	}
	l := seen{now: w.Now()}
	w.readLog(&l, s.Place)
	if l.noLog != nil {
		return l.noLog // the faults stay, which is the safe side
	}
	j := &judgement{s: s, l: l, reasons: map[string]bool{}}
	all := true
	for key, m := range s.GPUs {
		its, address, _ := strings.Cut(key, " ")
		j.remember(its, address, append(slices.Clone(s.Carry), l.lines...))
		if its == vendor && m.UUID != "" && slices.Contains(uuids, m.UUID) {
			m.renew()
			m.Base, m.Reasons = map[string]int64{}, nil // from the next look on
		} else {
			all = false
		}
	}
	s.Place, s.Carry = l.next, nil
	if all {
		s.Lost = time.Time{}
	} else if l.lost > 0 && s.Lost.IsZero() {
		s.Lost = l.now
	}
	return w.save(s, before)
}

func (w *Watch) readLog(l *seen, place uint64) {
	log, err := w.Lines(place, scrub.OfGPUDriver)
	l.lines, l.next, l.lost, l.noLog = log.Lines, log.Next, log.Lost, err
	if err != nil { // what was read is read again
		l.lines, l.lost = nil, 0
	}
}

// ask looks at the GPUs of a vendor, unless an earlier child is still stuck in the driver.
func (w *Watch) ask(ctx context.Context, vendor string) (gpu.Looks, error) {
	if !slices.Contains(gpu.Vendors, vendor) {
		return gpu.Looks{Problem: gpu.CodeUnsupported}, nil
	}
	if at, was := w.stuck[vendor]; was && w.Now().Sub(at) < stuckPause {
		return gpu.Looks{}, taskcatalog.Errorf(gpu.CodeHelperStuck, "the driver does not let an earlier look go (reboot the machine)")
	}
	ctx, cancel := context.WithTimeout(ctx, LookTime)
	defer cancel()
	looks, err := w.Ask(ctx, vendor)
	if taskcatalog.CodeOf(err, "") == gpu.CodeHelperStuck {
		if w.stuck == nil {
			w.stuck = map[string]time.Time{}
		}
		w.stuck[vendor] = w.Now()
	}
	return looks, err
}

// bus is the bus as it was at the last look.
func (s *state) bus() map[string][]string {
	all := map[string][]string{}
	for _, key := range slices.Sorted(maps.Keys(s.GPUs)) {
		vendor, address, _ := strings.Cut(key, " ")
		all[vendor] = append(all[vendor], address)
	}
	return all
}

func (w *Watch) read() (*state, []byte) {
	s, raw, err := readState(w.File)
	if err != nil {
		w.Log.Error("cannot read what is kept of the GPUs' health; it begins anew", zap.Error(err))
	}
	return s, raw
}

func (w *Watch) save(s *state, before []byte) error {
	raw, err := json.Marshal(s)
	if err != nil || bytes.Equal(raw, before) {
		return err
	}
	return writeState(w.File, raw)
}

// Once looks some times in a row, for who has no look before and after: so a look that fails, and a GPU that
// does not answer, are told at once. Rules that ask for more looks say nothing.
func (w *Watch) Once(ctx context.Context) (r taskcatalog.HealthReport, err error) {
	for range lostLooks {
		if r, err = w.Look(ctx); err != nil {
			return r, err
		}
	}
	return r, nil
}
