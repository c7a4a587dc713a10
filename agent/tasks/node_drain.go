package tasks

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hostler/hostler/agent/host"
	"github.com/hostler/hostler/agent/users"
	"github.com/hostler/hostler/taskcatalog"
)

// drain marks the node first, so that nobody new is let in. It then ends all terminal sessions, of
// whatever user, and the sessions and processes of the allocations' users. Accounts and files stay
// for the tasks that follow.
func drain(ctx context.Context, r *host.Run) (any, taskcatalog.Report, error) {
	p, h := r.Params.(*taskcatalog.DrainParams), r.Host
	var report taskcatalog.Report
	var res taskcatalog.DrainResult
	if err := h.Marks.SetDrained(!p.Resume); err != nil {
		return nil, report, err
	}
	res.Drained = !p.Resume
	if p.Resume {
		return &res, report, nil
	}
	accounts, err := h.Accounts.List()
	if err != nil {
		return &res, report, err
	}
	r.Step("terminals", 0, len(accounts))
	// A terminal session that does not end is reported after all accounts have been handled.
	ended, stuckTerminals := h.EndTerminals(ctx, "")
	res.SessionsEnded += ended
	grace := time.Duration(p.GraceSeconds) * time.Second
	if grace == 0 {
		grace = users.DefaultGrace
	}
	for i, a := range accounts {
		r.Step("sessions of "+a.Username, i+1, len(accounts))
		open, err := h.Systemd.Sessions(ctx, a.UID)
		if err != nil {
			return &res, report, err
		}
		if err := h.Systemd.EndSessions(ctx, a.UID); err != nil {
			return &res, report, err
		}
		res.SessionsEnded += open
		ids, unsure := h.Machine.UIDsOf(a.Username, a.UID)
		stopped, left, err := h.Machine.StopUser(ctx, ids, grace)
		err = errors.Join(err, unsure)
		res.ProcessesStopped += stopped
		res.ProcessesLeft = append(res.ProcessesLeft, users.Stuck(left)...)
		if err != nil {
			return &res, report, err
		}
	}
	if n := len(res.ProcessesLeft); n > 0 {
		for _, p := range res.ProcessesLeft {
			report.Find(taskcatalog.Finding{
				Check: users.CheckProcesses, Subject: fmt.Sprintf("%d %s", p.PID, p.Name), UID: &p.UID,
				Detail: "outlived SIGKILL, state " + p.State, NextAction: "reimage",
			})
		}
		return &res, report, taskcatalog.Errorf("processes_left",
			"cannot drain the node completely: %d processes outlived SIGKILL (reimage the node)", n)
	}
	return &res, report, stuckTerminals
}

// probeDrain reports after a crash whether the mark is set.
func probeDrain(_ context.Context, h *host.Host, _ *taskcatalog.Task) string {
	if h.Marks.Drained() {
		return "the node is marked as drained"
	}
	return "the node is not marked as drained"
}
