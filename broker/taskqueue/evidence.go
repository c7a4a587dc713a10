package taskqueue

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/pki"
	"github.com/hostler/hostler/taskcatalog"
	"github.com/hostler/hostler/taskcatalog/wire"
)

// checkEvidence checks a result's evidence and returns its verdict. A successful task needs
// evidence; a task with another outcome may have none. Codes: those of pki.VerifyEvidence, and
// evidence_missing, evidence_wrong_task, evidence_wrong_digest, evidence_wrong_nonce,
// evidence_wrong_node, evidence_wrong_epoch, evidence_wrong_outcome, evidence_wrong_result,
// evidence_bounds, evidence_checks, evidence_verdict.
func checkEvidence(k broker.Task, p Peer, r wire.ResultRequest) (taskcatalog.Verdict, error) {
	if r.Evidence == "" {
		if r.Outcome == taskcatalog.OutcomeSucceeded {
			return "", untrustedEvidence(k, "evidence_missing", "the task succeeded without evidence")
		}
		return "", nil
	}
	ev, err := pki.VerifyEvidence([]byte(r.Evidence), p.Key)
	if err != nil {
		return "", untrustedEvidence(k, string(taskcatalog.CodeOf(err, taskcatalog.CodeMalformed)), err.Error())
	}
	switch {
	case ev.TaskID != k.ID:
		return "", untrustedEvidence(k, "evidence_wrong_task", "the evidence is about another task")
	case ev.NodeID != k.NodeID:
		return "", untrustedEvidence(k, "evidence_wrong_node", "the evidence is about another node")
	case ev.NodeEpoch != k.NodeEpoch:
		return "", untrustedEvidence(k, "evidence_wrong_epoch", "the evidence is about another epoch")
	case ev.Nonce != k.Nonce:
		return "", untrustedEvidence(k, "evidence_wrong_nonce", "the evidence does not carry the task's nonce")
	case ev.TaskDigest != k.EnvelopeDigest:
		return "", untrustedEvidence(k, "evidence_wrong_digest", "the evidence is about another envelope")
	case ev.Outcome != r.Outcome || ev.Code != r.Code:
		return "", untrustedEvidence(k, "evidence_wrong_outcome", "the evidence has another outcome than the result")
	case len(r.Result) > 0 && string(r.Result) != "null" && ev.ResultDigest != pki.Digest(r.Result):
		return "", untrustedEvidence(k, "evidence_wrong_result", "the evidence is about another result")
	}
	if err := bounded(k, ev.Report); err != nil {
		return "", err
	}
	return verdictOf(k, r, ev.Report)
}

// bounded refuses a report above the limits of number and length: all text comes from the node,
// and is kept and shown.
func bounded(k broker.Task, r taskcatalog.Report) error {
	if len(r.Findings) > taskcatalog.MaxFindings || len(r.Dispositions) > taskcatalog.MaxDispositions || r.FindingsOmitted < 0 ||
		r.DispositionsOmitted < 0 {
		return untrustedEvidence(k, "evidence_bounds", "the evidence lists more entries than the limit")
	}
	tooLong := func(texts ...string) bool {
		return slices.ContainsFunc(texts, func(s string) bool { return len(s) > taskcatalog.MaxText })
	}
	for _, f := range r.Findings {
		if tooLong(f.Check, f.Subject, f.Detail, f.NextAction) {
			return untrustedEvidence(k, "evidence_bounds", "a finding is longer than the limit")
		}
	}
	for _, d := range r.Dispositions {
		if tooLong(d.Check, d.Path, d.Action, d.Reason) {
			return untrustedEvidence(k, "evidence_bounds", "a disposition is longer than the limit")
		}
	}
	for _, c := range r.Checks {
		if tooLong(c.Name, c.Reason) {
			return untrustedEvidence(k, "evidence_bounds", "a check is longer than the limit")
		}
	}
	return nil
}

func untrustedEvidence(k broker.Task, code, why string) *broker.Error {
	return broker.Errorf(broker.Refused, code, "cannot accept the evidence of task %s: %s", k.ID, taskcatalog.Clean(why, 300))
}

// checkIdentity refuses evidence by a key from before the node's identity was changed. The
// certificate of such a key is denied, but another broker may learn of the denial up to two
// seconds later; this check applies at once. A verifier of a clean certificate applies the same
// rule.
func (q *Queue) checkIdentity(ctx context.Context, k broker.Task, p Peer) error {
	n, err := q.c.DB.Node(ctx, p.NodeID)
	if err != nil {
		return err
	}
	if p.Certified.Before(n.IdentitySince.Truncate(time.Second)) {
		return untrustedEvidence(k, "evidence_key_too_old",
			fmt.Sprintf("its key was certified at %s, before the node's identity was changed at %s",
				p.Certified.UTC().Format(time.RFC3339), n.IdentitySince.Format(time.RFC3339)))
	}
	return nil
}

// rotated refuses a result of a rotation that the broker does not know: the node must show the
// certificate issued for this task, and sign with its key.
func (q *Queue) rotated(ctx context.Context, k broker.Task, p Peer, said *taskcatalog.RotateIdentityResult) error {
	r, ok, err := q.c.DB.Rotation(ctx, k.ID)
	if err != nil {
		return err
	}
	key, err := pki.PublicKeyDigest(p.Key)
	if err != nil {
		return err
	}
	if !ok || r.UsedAt.IsZero() || r.KeyDigest != key || said.Serial != r.Serial || "sha256:"+said.KeySHA256 != r.KeyDigest {
		return untrustedEvidence(k, "rotation_not_made", "the evidence is not signed by the key that was certified for this task")
	}
	return nil
}
