package taskqueue

import (
	"context"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/store"
	"github.com/hostler/hostler/pki"
)

// SignedBy returns the node certificate whose key signed the evidence of a task, as DER: the newest one at
// the task's end with that key, because renewals keep the key. Nil: none is on record.
func SignedBy(ctx context.Context, db *store.DB, k broker.Task) ([]byte, error) {
	all, err := db.IssuedCerts(ctx, k.NodeID, k.NodeEpoch, k.EndedAt)
	if err != nil {
		return nil, err
	}
	for _, c := range all {
		certs, err := pki.ParseCerts([]byte(c.PEM))
		if err != nil || len(certs) == 0 {
			continue
		}
		if _, err := pki.VerifyEvidence(k.Evidence, certs[0].PublicKey); err == nil {
			return certs[0].Raw, nil
		}
	}
	return nil, nil
}
