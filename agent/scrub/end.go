package scrub

import (
	"context"
	"path"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hostler/hostler/agent/machine"
	"github.com/hostler/hostler/taskcatalog"
)

const (
	defaultGrace = 10 * time.Second
	killTime     = 10 * time.Second
)

// endable returns the holders that the scrub may end.
func endable(holders []*holder) []*holder {
	var all []*holder
	for _, h := range holders {
		if !h.exempt && !h.own && !h.process.Kernel && h.out.Outcome != "unseen" {
			all = append(all, h)
		}
	}
	return all
}

// end asks the holders to exit, and then kills them. Services are stopped instead: systemd would
// restart a killed service at once.
func (s *Scrub) end(ctx context.Context, holders []*holder) error {
	left := endable(holders)
	var services []string
	for _, h := range left {
		unit, err := ServiceOf(ctx, s.Machine, s.Systemd, h.process.PID)
		if err != nil {
			return err
		}
		if unit != "" {
			services = append(services, unit)
		}
	}
	if err := s.stopOthers(ctx, services); err != nil {
		return err
	}
	grace := time.Duration(s.policy.HolderGraceSeconds) * time.Second
	if grace == 0 {
		grace = defaultGrace
	}
	for _, way := range []struct {
		signal  unix.Signal
		outcome string
		limit   time.Duration
	}{{unix.SIGTERM, "terminated", grace}, {unix.SIGKILL, "killed", killTime}} {
		for _, h := range left {
			if err := s.Machine.Signal(h.process, way.signal); err != nil {
				return err
			}
		}
		for begun := s.Now(); len(left) > 0; {
			left = slices.DeleteFunc(left, func(h *holder) bool {
				now, alive := s.Machine.Alive(h.process)
				if h.out.State = now.State; !alive {
					h.out.Outcome, h.out.State = way.outcome, ""
				}
				return !alive
			})
			if len(left) == 0 || s.Now().Sub(begun) >= way.limit {
				break
			}
			if err := s.pause(ctx); err != nil {
				return err
			}
		}
	}
	for _, h := range left {
		h.out.Outcome = "stuck"
	}
	return nil
}

// stopOthers stops services that held a GPU. An unnamed service may be the tenant's, so it is not
// started again but reported: by this scrub or, after a crash, by the report of the interrupted
// task. All services are in the ledger before the first is stopped.
func (s *Scrub) stopOthers(ctx context.Context, names []string) error {
	slices.Sort(names)
	names = slices.Compact(names)
	named, err := s.Stopped.StoppedUnits() // named, and running again meanwhile
	if err != nil {
		return err
	}
	for _, name := range names {
		if slices.Contains(named, name) {
			continue
		}
		if err := s.Stopped.PutUnnamed(name); err != nil {
			return err
		}
	}
	for _, name := range names {
		if err := s.Systemd.Stop(ctx, name); err != nil {
			return err
		}
	}
	return nil
}

// unnamed returns the services that stay stopped.
func (s *Scrub) unnamed() []taskcatalog.GPUInterrupted {
	names, err := s.Stopped.UnnamedUnits()
	if err != nil {
		return []taskcatalog.GPUInterrupted{{Message: taskcatalog.Clean("cannot read which services stay stopped: "+err.Error(),
			taskcatalog.MaxText)}}
	}
	var all []taskcatalog.GPUInterrupted
	for _, name := range names {
		all = append(all, taskcatalog.GPUInterrupted{
			Unit:    name,
			Message: "the service may be a tenant's: its files may be a tenant's, or it used a GPU and stop_services does not name it (find out whose service it is; then start it and add it to the site's stop_services, or reimage the node)",
		})
	}
	return all
}

// MainPIDs finds the main process of a service.
type MainPIDs interface {
	// MainPID is 0 if the service does not run.
	MainPID(ctx context.Context, unit string) (int, error)
}

// ServiceOf returns the system service whose main process is pid; "" if there is none. Membership
// in a service's cgroup proves nothing, because root may move a process. A transient service does
// not count: it vanishes when stopped, and consists only of its processes.
func ServiceOf(ctx context.Context, m *machine.Machine, systemd MainPIDs, pid int) (string, error) {
	cgroup, err := m.Cgroup(pid)
	unit := path.Base(cgroup)
	if err != nil || !strings.HasPrefix(cgroup, "/system.slice/") || !strings.HasSuffix(unit, ".service") {
		return "", nil
	}
	if transient, err := m.Has("/run/systemd/transient/" + unit); err != nil || transient {
		return "", err
	}
	main, err := systemd.MainPID(ctx, unit)
	if err != nil || main != pid {
		return "", err
	}
	return unit, nil
}
