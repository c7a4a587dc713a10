package trust

import (
	"context"
	"slices"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/pki"
	"github.com/hostler/hostler/taskcatalog"
)

// SignTask signs a task with the newest task key that the task's node has confirmed, and returns
// the envelope and the key's id. Codes: node_left_behind if a rotation was finished without the
// node, key_mismatch if this replica lacks the key.
func (a *Authority) SignTask(
	ctx context.Context, task taskcatalog.Task, nodeTrustVersion int64,
) (envelope []byte, keyID string, err error) {
	candidates := live(a.current.Load().bundle, pki.UseTask, a.o.Now())
	slices.Reverse(candidates) // newest first
	switch {
	case nodeTrustVersion == 0:
		// The node has confirmed no bundle: every bundle that it may have names the oldest key.
		candidates = candidates[len(candidates)-1:]
	case nodeTrustVersion <= a.Version(): // above: this database is older than the node's bundle
		confirmed, err := a.bundleOf(ctx, nodeTrustVersion)
		if err != nil {
			return nil, "", err
		}
		candidates = slices.DeleteFunc(candidates, func(k pki.BundleKey) bool {
			_, ok := confirmed.Key(pki.UseTask, k.ID, a.o.Now())
			return !ok
		})
	}
	for _, c := range candidates {
		k, ok := a.ring.find(pki.UseTask, c.ID)
		if !ok {
			continue // only another replica has this key now
		}
		signer, err := a.ring.signer(k)
		if err != nil {
			return nil, "", err
		}
		payload, err := taskcatalog.Encode(task)
		if err != nil {
			return nil, "", err
		}
		envelope, err := pki.Sign(pki.PayloadTask, payload, signer)
		return envelope, signer.ID, err
	}
	if len(candidates) > 0 {
		return nil, "", broker.Errorf(broker.Unavailable, "key_mismatch",
			"cannot sign a task for node %s: this broker does not have task key %s (give every replica the same keys)", task.NodeID,
			candidates[0].ID)
	}
	return nil, "", broker.Errorf(broker.Refused, "node_left_behind",
		"cannot sign a task for node %s: the node confirmed trust bundle version %d, and no task key of that version is in use any more (enrol the node again)", task.NodeID, nodeTrustVersion)
}

// StatementSigner returns the newest statement key in force that this replica has. Code:
// key_mismatch.
func (a *Authority) StatementSigner(context.Context) (pki.Signer, error) {
	keys := live(a.current.Load().bundle, pki.UseStatement, a.o.Now())
	for _, c := range slices.Backward(keys) {
		if k, ok := a.ring.find(pki.UseStatement, c.ID); ok {
			return a.ring.signer(k)
		}
	}
	return pki.Signer{}, broker.Errorf(broker.Unavailable, "key_mismatch",
		"cannot sign a statement: this broker has no statement key of the trust bundle in force (give every replica the same keys)")
}
