package tasks

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"time"

	"github.com/hostler/hostler/agent/host"
	"github.com/hostler/hostler/agent/machine"
	"github.com/hostler/hostler/taskcatalog"
	"github.com/hostler/hostler/taskcatalog/hwsync"
)

// Files and units that MAAS installs on a machine deployed with hardware sync.
const (
	hwSyncCredentials = hwsync.Folder + "/" + hwsync.Credentials
	hwSyncService     = hwsync.Service
	hwSyncTimer       = hwsync.Timer
)

// Results for a file.
const (
	written = "written"
	kept    = "kept"
)

// hwSyncReseed writes the machine's credentials for MAAS, ensures that service and timer are
// installed, and starts one sync to prove that the credentials work. The agent itself never talks
// to MAAS: only MAAS's own scripts do, and they never report OK, TESTING or FAILED.
func hwSyncReseed(ctx context.Context, r *host.Run) (any, taskcatalog.Report, error) {
	p, h := r.Params.(*taskcatalog.HWSyncReseedParams), r.Host
	var report taskcatalog.Report
	res := &taskcatalog.HWSyncReseedResult{}
	begun := h.Now()
	r.Step("credentials", 1, 4)
	secret, err := r.Mint(ctx, taskcatalog.CredentialMAASMachineToken)
	if err != nil {
		return nil, report, err
	}
	defer clear(secret)
	files, err := renderHWSync(secret, p.IntervalMinutes)
	if err != nil {
		return nil, report, err
	}
	defer files.Clear()
	r.Step("service and timer", 2, 4)
	// A file that overrides the units would receive the credentials next.
	if err := refuseOverrides(h.Machine); err != nil {
		return nil, report, err
	}
	if res.Service, err = install(h.Machine, path.Join(hwsync.Units, hwSyncService), files.Service, p.Reinstall,
		func(unit []byte) bool { return isMAASsService(unit, files.Rack) }); err != nil {
		return res, report, err
	}
	if res.Timer, err = install(h.Machine, path.Join(hwsync.Units, hwSyncTimer), files.Timer, p.Reinstall, isMAASsTimer); err != nil {
		return res, report, err
	}
	// Reload even if nothing was written: systemd may not have read files that somebody put beside
	// the units, but would read them on the next occasion.
	if err := h.Systemd.Reload(ctx); err != nil {
		return res, report, err
	}
	if err := readAsInstalled(ctx, h); err != nil {
		return res, report, err
	}
	if err := h.Machine.MakeDir(path.Dir(hwSyncCredentials), 0o755, 0, 0); err != nil {
		return res, report, err
	}
	if res.Credentials, err = replace(h.Machine, hwSyncCredentials, files.Credentials, 0o700); err != nil {
		return res, report, err
	}
	if err := errors.Join(h.Systemd.Enable(ctx, hwSyncTimer), h.Systemd.Start(ctx, hwSyncTimer)); err != nil {
		return res, report, err
	}
	r.Step("sync", 3, 4)
	started := h.Systemd.Start(ctx, hwSyncService)
	r.Step("proof", 4, 4)
	if res.TimerActive, err = h.Systemd.Active(ctx, hwSyncTimer); err != nil {
		return res, report, err
	}
	run, err := h.Systemd.LastRun(ctx, hwSyncService)
	if err != nil {
		return res, report, errors.Join(started, err)
	}
	res.SyncStartedAt, res.SyncFinishedAt, res.ExitStatus = run.StartedAt, run.FinishedAt, run.ExitStatus
	return res, report, judgeSync(res, run, begun, started)
}

// judgeSync accepts a sync as proven only if the service succeeded in a run that started after the
// task began. The end of systemd's job proves nothing by itself: the job may have joined a run
// already under way.
func judgeSync(res *taskcatalog.HWSyncReseedResult, run host.UnitRun, begun time.Time, started error) error {
	switch {
	case run.StartedAt.IsZero(), run.StartedAt.Before(begun.Truncate(time.Second)):
		return taskcatalog.Errorf("hw_sync_unproven", "cannot prove a hardware sync: %s has not run since the task began (%s)",
			hwSyncService, cause(started))
	case run.Result != "success" || run.ExitStatus != 0 || run.FinishedAt.IsZero():
		return taskcatalog.Errorf("hw_sync_failed",
			"hardware sync failed: %s ended with %s, status %d (journalctl -u %s on the node; MAAS's rack must be reachable on its port 5248)", hwSyncService, run.Result, run.ExitStatus, hwSyncService)
	case !res.TimerActive:
		return taskcatalog.Errorf("hw_sync_timer_inactive",
			"hardware sync ran once, and %s is not active (systemctl status %s on the node)", hwSyncTimer, hwSyncTimer)
	}
	return started
}

func cause(err error) string {
	if err == nil {
		return "systemd reported no fault"
	}
	return err.Error()
}

// replace writes a whole file, unless content, owner and mode are already as wanted.
func replace(m *machine.Machine, name string, content []byte, mode uint32) (string, error) {
	st, err := m.Lstat(name)
	if err == nil && st.Uid == 0 && st.Mode&0o7777 == mode {
		if old, err := m.ReadStrict(name, 64<<10); err == nil && bytes.Equal(old, content) {
			return kept, nil
		}
	} else if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	if err := m.WriteFile(name, content, mode, 0, 0); err != nil {
		return "", fmt.Errorf("cannot write %s: %w", name, err)
	}
	return written, nil
}

// install writes a unit if it is missing. An existing unit of MAAS stays, unless anew is true or
// good reports false.
func install(m *machine.Machine, name string, content []byte, anew bool, good func([]byte) bool) (string, error) {
	st, err := m.Lstat(name)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	if err == nil && !anew && st.Uid == 0 && st.Mode&0o022 == 0 {
		if have, err := m.ReadStrict(name, 64<<10); err == nil && good(have) {
			return kept, nil
		}
	}
	return replace(m, name, content, 0o644)
}

// refuseOverrides refuses a machine on which another file overrides the units or adds to them,
// before anything is written. Code: hw_sync_overridden.
func refuseOverrides(m *machine.Machine) error {
	for _, dir := range []string{"/etc/systemd/system", "/run/systemd/system", "/usr/local/lib/systemd/system", hwsync.Units} {
		for _, unit := range []string{hwSyncService, hwSyncTimer} {
			names := []string{path.Join(dir, unit+".d"), path.Join(dir, unit+".wants"), path.Join(dir, unit+".requires")}
			if dir != hwsync.Units {
				names = append(names, path.Join(dir, unit))
			}
			for _, name := range names {
				there, err := m.Has(name)
				if err != nil {
					return err
				}
				if there {
					return overridden(name)
				}
			}
		}
	}
	return nil
}

func overridden(name string) error {
	return taskcatalog.Errorf("hw_sync_overridden",
		"cannot seed hardware sync: %s changes what MAAS installs (reimage the node, or remove it)", taskcatalog.Clean(name, 200))
}

// readAsInstalled refuses a machine on which systemd loads the units from another file than the
// installed file, or with additions. systemd itself is asked, since only systemd knows all the
// places: service.d for every service, system.control, generated units. Code: hw_sync_overridden.
func readAsInstalled(ctx context.Context, h *host.Host) error {
	for _, unit := range []string{hwSyncService, hwSyncTimer} {
		file, additions, err := h.Systemd.Files(ctx, unit)
		if err != nil {
			return err
		}
		if len(additions) > 0 {
			return overridden(additions[0])
		}
		installed, err := h.Machine.IsInstalled(file, path.Join(hwsync.Units, unit))
		if err != nil {
			return err
		}
		if !installed {
			return overridden(cmp.Or(file, "a unit without a file"))
		}
	}
	return nil
}

// probeHWSync reports after a crash whether the credentials exist and the timer is active.
func probeHWSync(ctx context.Context, h *host.Host, _ *taskcatalog.Task) string {
	there, err := h.Machine.Has(hwSyncCredentials)
	active, timerErr := h.Systemd.Active(ctx, hwSyncTimer)
	if err := errors.Join(err, timerErr); err != nil {
		return "cannot read the state of hardware sync: " + err.Error()
	}
	return fmt.Sprintf("the credentials are there: %t; the timer is active: %t", there, active)
}
