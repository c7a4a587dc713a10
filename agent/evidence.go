package agent

import (
	"fmt"

	"go.uber.org/zap"

	"github.com/hostler/hostler/pki"
	"github.com/hostler/hostler/taskcatalog"
	"github.com/hostler/hostler/taskcatalog/wire"
)

// maxResult limits a result with its evidence, in bytes, so that both fit into a request body.
const maxResult = wire.MaxBody - 4096

// compose makes a run's result, with evidence signed by the node's key. A task that never started
// needs no evidence.
func (a *Agent) compose(r *run, ret handlerResult, outcome taskcatalog.Outcome) wire.ResultRequest {
	out := wire.ResultRequest{Outcome: outcome}
	if ret.err != nil {
		out.Code = taskcatalog.CodeOf(ret.err, taskcatalog.CodeHandlerFailed)
		out.Message = taskcatalog.Clean(ret.err.Error(), taskcatalog.MaxText)
	}
	if ret.result != nil {
		raw, err := taskcatalog.Encode(ret.result)
		if err == nil {
			_, err = r.typ.DecodeResult(raw)
		}
		if err != nil {
			return a.unsendableResult(r, fmt.Errorf("the task's result does not match the catalog's schema: %w", err))
		}
		out.Result = raw
		if d, ok := ret.result.(*taskcatalog.DiagnosticsResult); ok {
			out.Archive = d.Archive
		}
	}
	if r.started.IsZero() {
		return out
	}
	ev := taskcatalog.Evidence{
		TaskID: r.task.TaskID, TaskDigest: r.digest, NodeID: r.task.NodeID, NodeEpoch: r.task.NodeEpoch,
		BootID: a.bootID, Nonce: r.task.Nonce, StartedAt: r.started.UTC(), FinishedAt: a.Now().UTC(),
		AgentVersion: a.Version, Outcome: out.Outcome, Code: out.Code, Report: ret.report,
	}
	if out.Result != nil {
		ev.ResultDigest = pki.Digest(out.Result)
	}
	// Entries that do not fit are counted instead of listed, dispositions first.
	for {
		envelope, err := pki.SignEvidence(ev, a.state.Member().Key)
		if err == nil {
			out.Evidence = string(envelope)
			if size(out) <= maxResult {
				return out
			}
		}
		if !shorten(&ev.Report) {
			if err == nil {
				err = taskcatalog.Errorf(taskcatalog.CodeTooLarge, "the task's result is larger than %d bytes", maxResult)
			}
			if ret.result == nil {
				a.logTask(r.task).Error("cannot sign evidence", zap.Error(err))
				out.Evidence = ""
				return out
			}
			return a.unsendableResult(r, err)
		}
	}
}

// unsendableResult is the result of a run whose own result cannot be sent.
func (a *Agent) unsendableResult(r *run, why error) wire.ResultRequest {
	a.logTask(r.task).Error("the task's result cannot be sent", zap.Error(why))
	return a.compose(r, handlerResult{err: taskcatalog.Errorf(taskcatalog.CodeHandlerFailed, "%s ran, and %v", r.typ.ID(), why)},
		taskcatalog.OutcomeFailed)
}

func size(r wire.ResultRequest) int {
	raw, err := taskcatalog.Encode(r)
	if err != nil {
		return maxResult + 1
	}
	return len(raw)
}

// shorten halves the longer of a report's two lists and counts the omitted entries. It returns
// false if both lists are empty.
func shorten(r *taskcatalog.Report) bool {
	switch d, f := len(r.Dispositions), len(r.Findings); {
	case d > 0 && d >= f:
		r.DispositionsOmitted += d - d/2
		r.Dispositions = r.Dispositions[:d/2]
	case f > 0:
		r.FindingsOmitted += f - f/2
		r.Findings = r.Findings[:f/2]
	default:
		return false
	}
	return true
}
