package adminapi

import (
	"context"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/pki"
	"github.com/hostler/hostler/taskcatalog"
)

// showEvidence returns the node's signed evidence about a task. The evidence was verified on
// arrival and is verified again here: the node's signature counts, not the broker's row.
func (a *API) showEvidence(ctx context.Context, in *TaskInput) (*api.Evidence, error) {
	t, _, err := a.task(ctx, in.Task)
	if err != nil {
		return nil, err
	}
	if len(t.Evidence) == 0 {
		return nil, broker.Errorf(broker.NotFound, "evidence_not_found", "task %s has no evidence: the task is %s", t.ID, t.Status)
	}
	certs, err := a.c.DB.Certificates(ctx, t.NodeID)
	if err != nil {
		return nil, err
	}
	for _, c := range certs {
		if c.Epoch != t.NodeEpoch {
			continue
		}
		key, err := a.c.DB.CertKey(ctx, c.Serial)
		if err != nil {
			return nil, err
		}
		ev, err := pki.VerifyEvidence(t.Evidence, key)
		if err == nil && ev.TaskID == t.ID && ev.Nonce == t.Nonce && ev.TaskDigest == t.EnvelopeDigest {
			return &api.Evidence{TaskID: t.ID, Envelope: t.Evidence, Evidence: *ev}, nil
		}
	}
	a.audit(ctx, broker.AuditEntry{
		Actor: "system", Action: "evidence.refused", Subject: "task/" + t.ID, Code: string(taskcatalog.CodeBadSignature),
		Reason: "the stored evidence does not verify any more",
	})
	return nil, broker.Errorf(broker.Refused, "evidence_untrusted",
		"cannot show the evidence of task %s: no key that was certified for its node signed it (the database may have been changed)", t.ID)
}
