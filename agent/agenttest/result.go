package agenttest

import (
	"net/http"
	"slices"

	"github.com/hostler/hostler/pki"
	"github.com/hostler/hostler/taskcatalog"
	"github.com/hostler/hostler/taskcatalog/wire"
)

// result records the first result and answers a repeat with it.
func (b *Broker) result(r *http.Request, peer *pki.Peer) (any, *wire.Problem) {
	var req wire.ResultRequest
	if err := wire.Decode(r.Body, &req); err != nil {
		b.t.Errorf("a result that cannot be read: %v", err)
		return nil, problem(http.StatusBadRequest, "malformed", err.Error())
	}
	b.Lock()
	defer b.Unlock()
	if req.Attempt == 0 {
		if req.Outcome != taskcatalog.OutcomeRefused {
			b.t.Errorf("task %s, which was not delivered, ended %s", r.PathValue("task"), req.Outcome)
		}
		b.Early = append(b.Early, req)
		return nil, problem(http.StatusConflict, "attempt_unknown", "it was not delivered yet")
	}
	q := b.find(peer.NodeID, r.PathValue("task"))
	if q == nil {
		return nil, problem(http.StatusNotFound, "task_not_found", "no such task")
	}
	q.Results++
	if q.Result != nil {
		return wire.ResultReply{TaskID: q.ID, Outcome: q.Result.Outcome, Code: q.Result.Code, Repeat: true}, nil
	}
	ev := b.judge(q, req, peer)
	q.Result, q.Evidence = &req, ev
	b.ended(q)
	close(q.Ended)
	b.changed()
	return wire.ResultReply{TaskID: q.ID, Outcome: req.Outcome, Code: req.Code}, nil
}

// judge fails the test if a result breaks the contract.
func (b *Broker) judge(q *Task, req wire.ResultRequest, peer *pki.Peer) *taskcatalog.Evidence {
	if !req.Outcome.Valid() || (req.Outcome == taskcatalog.OutcomeSucceeded) != (req.Code == "") {
		b.t.Errorf("task %s ended as %q with code %q", q.ID, req.Outcome, req.Code)
	}
	if req.Evidence == "" {
		if req.Outcome == taskcatalog.OutcomeSucceeded || req.Outcome == taskcatalog.OutcomeInterrupted {
			b.t.Errorf("task %s %s without evidence", q.ID, req.Outcome)
		}
		return nil
	}
	ev, err := pki.VerifyEvidence([]byte(req.Evidence), peer.Cert.PublicKey)
	if err != nil {
		b.t.Errorf("evidence of task %s: %v", q.ID, err)
		return nil
	}
	if ev.TaskID != q.ID || ev.TaskDigest != pki.Digest([]byte(q.Envelope)) || ev.NodeID != peer.NodeID || ev.NodeEpoch != peer.Epoch ||
		ev.Nonce != q.Payload.Nonce || ev.Outcome != req.Outcome || ev.Code != req.Code || ev.BootID == "" ||
		ev.FinishedAt.Before(ev.StartedAt) {
		b.t.Errorf("evidence of task %s is about something else: %+v", q.ID, ev)
	}
	rows := taskcatalog.LookedAt()
	for _, c := range ev.Report.Checks {
		if !slices.Contains(rows, c.Name) && q.Payload.Type != "node.gpu_scrub" {
			b.t.Errorf("evidence of task %s has twice, or without a row in the table of checks, the check %s", q.ID, c.Name)
		}
		rows = slices.DeleteFunc(rows, func(name string) bool { return name == c.Name })
	}
	if req.Result != nil {
		if ev.ResultDigest != pki.Digest(req.Result) {
			b.t.Errorf("evidence of task %s is about another result", q.ID)
		}
		typ, err := taskcatalog.Lookup(q.Payload.Type, q.Payload.Version)
		if err == nil {
			_, err = typ.DecodeResult(req.Result)
		}
		if err != nil {
			b.t.Errorf("result of task %s: %v", q.ID, err)
		}
	}
	return ev
}
