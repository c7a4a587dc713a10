package tasks

import (
	"context"
	"time"

	"go.uber.org/zap"

	"github.com/hostler/hostler/agent/host"
	"github.com/hostler/hostler/taskcatalog"
)

// lookTime bounds how long a session's process may take to report its state.
const lookTime = 10 * time.Second

// terminalClose ends a session and every process of the session. A missing session counts as
// closed.
func terminalClose(ctx context.Context, r *host.Run) (any, taskcatalog.Report, error) {
	var report taskcatalog.Report
	p, h := r.Params.(*taskcatalog.TerminalCloseParams), r.Host
	if h.Terminals == nil { // no session was ever opened
		return &taskcatalog.TerminalCloseResult{}, report, nil
	}
	r.Step("session", 1, 1)
	existed, err := h.Terminals.Close(ctx, p.SessionID)
	if err != nil {
		return nil, report, err
	}
	h.Log.Info("the terminal session is closed", zap.String("session", p.SessionID), zap.String("task", r.Task.TaskID),
		zap.String("code", string(p.Code)), zap.Bool("existed", existed))
	return &taskcatalog.TerminalCloseResult{Existed: existed}, report, nil
}

// terminalOf returns the session id of a task.
func terminalOf(t *taskcatalog.Task) (string, error) {
	row, err := taskcatalog.Lookup(t.Type, t.Version)
	if err != nil {
		return "", err
	}
	params, err := row.DecodeParams(t.Params)
	if err != nil {
		return "", err
	}
	switch p := params.(type) {
	case *taskcatalog.TerminalOpenParams:
		return p.SessionID, nil
	case *taskcatalog.TerminalCloseParams:
		return p.SessionID, nil
	}
	return "", taskcatalog.Errorf(taskcatalog.CodeBadParams, "%s does not belong to a terminal session", t.Type)
}
