package hosttest

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"

	"github.com/hostler/hostler/agent/host"
	"github.com/hostler/hostler/taskcatalog/hwsync"
)

// Systemd has no sessions and no units; it records the requests.
type Systemd struct {
	mu    sync.Mutex // guards Asked; a test that reads it while an agent works uses HasAsked
	Asked []string
	// OnStart returns the result of starting or restarting a unit; nil: the unit runs.
	OnStart func(unit string) error
	// OnReboot returns the result of asking for a restart of the machine.
	OnReboot func() error
	Runs     map[string]host.UnitRun
	On       map[string]bool
	Enabled  map[string]bool
	// Obeys: what is asked of a unit shows in On and Enabled.
	Obeys bool
	Main  map[string]int // main processes
	// files are the files of each unit: first the defining file, then additions. Without an entry a
	// unit is the file below /usr/lib.
	UnitFiles map[string][]string
}

// Ask records a request.
func (s *Systemd) Ask(what string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.Asked = append(s.Asked, what)
	return nil
}

// HasAsked reports whether a request was made.
func (s *Systemd) HasAsked(what string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Contains(s.Asked, what)
}

// obey asks, and shows the new state of the unit if it obeys.
func (s *Systemd) obey(what, unit string, states *map[string]bool, is bool) error {
	if s.Obeys {
		if *states == nil {
			*states = map[string]bool{}
		}
		(*states)[unit] = is
	}
	return s.Ask(what + " " + unit)
}

func (s *Systemd) Stop(_ context.Context, unit string) error {
	return s.obey("stop", unit, &s.On, false)
}

func (s *Systemd) Start(_ context.Context, unit string) error {
	if s.OnStart != nil {
		return errors.Join(s.Ask("start "+unit), s.OnStart(unit))
	}
	return s.obey("start", unit, &s.On, true)
}

func (s *Systemd) Restart(_ context.Context, unit string) error {
	if s.OnStart != nil {
		return errors.Join(s.Ask("restart "+unit), s.OnStart(unit))
	}
	return s.obey("restart", unit, &s.On, true)
}

func (s *Systemd) Reboot(context.Context) error {
	if s.OnReboot != nil {
		return errors.Join(s.Ask("reboot"), s.OnReboot())
	}
	return s.Ask("reboot")
}

func (s *Systemd) State(_ context.Context, unit string) (host.UnitState, error) {
	state := host.UnitState{Active: "inactive", Enabled: "disabled"}
	if s.On[unit] {
		state.Active = "active"
	}
	if s.Enabled[unit] {
		state.Enabled = "enabled"
	}
	return state, nil
}

func (s *Systemd) Active(_ context.Context, unit string) (bool, error) { return s.On[unit], nil }

func (s *Systemd) MainPID(_ context.Context, unit string) (int, error) { return s.Main[unit], nil }

func (s *Systemd) Enable(_ context.Context, unit string) error {
	return s.obey("enable", unit, &s.Enabled, true)
}

func (s *Systemd) LastRun(_ context.Context, unit string) (host.UnitRun, error) {
	return s.Runs[unit], nil
}

func (s *Systemd) Files(_ context.Context, unit string) (string, []string, error) {
	if of := s.UnitFiles[unit]; len(of) > 0 {
		return of[0], of[1:], nil
	}
	return hwsync.Units + "/" + unit, nil, nil
}

func (s *Systemd) Reload(context.Context) error { return s.Ask("reload") }

func (s *Systemd) Disable(_ context.Context, unit string) error {
	return s.obey("disable", unit, &s.Enabled, false)
}

func (s *Systemd) Sessions(context.Context, uint32) (int, error) { return 0, nil }

func (s *Systemd) EndSessions(context.Context, uint32) error { return s.Ask("end sessions") }

func (s *Systemd) LingerOff(context.Context, uint32) error { return s.Ask("linger off") }

func (s *Systemd) Run(_ context.Context, unit string, argv []string) error {
	return s.Ask(unit + ": " + strings.Join(argv, " "))
}

func (s *Systemd) Finish(_ context.Context, of host.Service) (int, error) {
	return 0, s.Ask(of.Unit + ": " + strings.Join(of.Argv, " "))
}
