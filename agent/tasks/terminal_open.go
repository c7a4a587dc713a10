package tasks

import (
	"context"
	"fmt"

	"go.uber.org/zap"

	"github.com/hostler/hostler/agent/host"
	"github.com/hostler/hostler/agent/terminal/unit"
	"github.com/hostler/hostler/taskcatalog"
)

// codeNoTerminals is the code of a node that cannot hold a session.
const codeNoTerminals taskcatalog.Code = "terminal_unavailable"

// terminalOpen starts a session's process and sends it to its relay. The task is done once the
// process has taken the order handed over by the task.
func terminalOpen(ctx context.Context, r *host.Run) (any, taskcatalog.Report, error) {
	var report taskcatalog.Report
	p, h := r.Params.(*taskcatalog.TerminalOpenParams), r.Host
	if h.Terminals == nil {
		return nil, report, errNoTerminals()
	}
	allowed := func() error { return mayOpen(h, p) }
	if err := allowed(); err != nil {
		return nil, report, err
	}
	account, _, err := h.Accounts.ByAllocation(p.AllocationID) // an unknown allocation grants nothing
	if err != nil {
		return nil, report, err
	}
	r.Step("session", 1, 1)
	res, err := h.Terminals.Open(ctx, unit.Order{
		TaskID: r.Task.TaskID, Params: p, Sudo: account.Sudo, Allowed: allowed,
		Mint: func(ctx context.Context) ([]byte, error) {
			return r.Mint(ctx, taskcatalog.CredentialTerminalSession)
		},
	})
	if err != nil {
		return nil, report, err
	}
	h.Log.Info("the terminal session is handed over", zap.String("session", p.SessionID), zap.String("task", r.Task.TaskID),
		zap.String("user", p.Username), zap.Bool("resumed", res.Resumed))
	return res, report, nil
}

func errNoTerminals() error {
	return taskcatalog.Errorf(codeNoTerminals, "cannot hold a terminal session: this agent does not run under systemd")
}

// mayOpen returns why a session is refused: the node lets nobody in, or the user is not the user of
// the allocation.
func mayOpen(h *host.Host, p *taskcatalog.TerminalOpenParams) error {
	if h.Marks.Drained() {
		return taskcatalog.Errorf(taskcatalog.CodeNodeDraining,
			"cannot open terminal session %s: the node is drained (hostler node resume)", p.SessionID)
	}
	if p.AllocationID == "" {
		return nil
	}
	account, known, err := h.Accounts.ByAllocation(p.AllocationID)
	switch {
	case err != nil:
		return err
	case !known:
		return taskcatalog.Errorf("allocation_unknown",
			"cannot open terminal session %s: allocation %s has no user on this node (provision it first)", p.SessionID, p.AllocationID)
	case account.Username != p.Username:
		return taskcatalog.Errorf("allocation_mismatch", "cannot open terminal session %s: the user of allocation %s is %s", p.SessionID,
			p.AllocationID, account.Username)
	}
	return nil
}

// terminalOpened proves, after a crash, that the session's process has taken the order of this
// task: then the whole task was done.
func terminalOpened(h *host.Host, t *taskcatalog.Task) (any, taskcatalog.Report, bool) {
	var report taskcatalog.Report
	id, err := terminalOf(t)
	if err != nil || h.Terminals == nil {
		return nil, report, false
	}
	ctx, cancel := context.WithTimeout(context.Background(), lookTime)
	defer cancel()
	active, taken, resumed, err := h.Terminals.Look(ctx, id, t.TaskID)
	if err != nil || active != "active" || !taken {
		return nil, report, false
	}
	return &taskcatalog.TerminalOpenResult{Unit: unit.Name(id), Resumed: resumed}, report, true
}

// probeTerminal reports the state of a session.
func probeTerminal(ctx context.Context, h *host.Host, t *taskcatalog.Task) string {
	id, err := terminalOf(t)
	if err != nil {
		return err.Error()
	}
	if h.Terminals == nil {
		return errNoTerminals().Error()
	}
	active, taken, _, err := h.Terminals.Look(ctx, id, t.TaskID)
	switch {
	case err != nil:
		return err.Error()
	case active == "":
		return fmt.Sprintf("terminal session %s has no unit", id)
	}
	return fmt.Sprintf("the unit of terminal session %s is %s; its process received this task's handover: %v", id, active, taken)
}
