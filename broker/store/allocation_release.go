package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/store/sqlkit"
)

// proof is a certificate of a release.
type proof struct {
	id     string
	epoch  int64
	issued time.Time
}

// cleanSince refuses a release unless each node of the allocation has one of its certificates, which
// meets the policy and ended the tenant's time on the node. Code: certificate_falls_short.
func (t *tx) cleanSince(ctx context.Context, a broker.Allocation) error {
	proofs := map[string][]proof{}
	for _, id := range a.CertificateIDs {
		p := proof{id: id}
		var nodeID string
		var meets bool
		err := t.QueryRowContext(ctx, `SELECT node_id, node_epoch, meets_policy, issued_at FROM clean_certificates WHERE id = $1`, id).
			Scan(&nodeID, &p.epoch, &meets, sqlkit.ScanMicros(&p.issued))
		if err != nil && !errors.Is(err, sql.ErrNoRows) {
			return err
		}
		if err != nil || !slices.Contains(a.NodeIDs, nodeID) {
			return fallsShort(a, "there is no certificate %q of one of its nodes", id)
		}
		if meets {
			proofs[nodeID] = append(proofs[nodeID], p)
		}
	}
	for _, nodeID := range a.NodeIDs { // by id: the order of the locks
		n, err := node(ctx, t, nodeID, t.ForUpdate())
		if err != nil {
			return err
		}
		if err := t.cleanNode(ctx, a, n, proofs[nodeID]); err != nil {
			return err
		}
	}
	return nil
}

// cleanNode refuses a release because of one of its nodes. The node's row is locked, so nobody is
// let in meanwhile. Where the tenant had a user, the certificate is the one on which the node was
// handed out afterwards; its enrolment was compared then. Only where the tenant never had a user, time
// and enrolment of the certificate count. A node that has left the fleet is handed to nobody again:
// for it, any certificate from the release or later counts. Code: certificate_falls_short.
func (t *tx) cleanNode(ctx context.Context, a broker.Allocation, n broker.Node, proofs []proof) error {
	if n.Status == broker.Deleted && slices.ContainsFunc(proofs, func(p proof) bool {
		return p.epoch == n.Epoch && p.issued.After(a.ReleasingAt)
	}) {
		return nil
	}
	if n.TurnoverOwed {
		return fallsShort(a, "node %s owes a turnover", n.ID)
	}
	since, err := occupants(ctx, t, n.ID, `certified_by = ''`)
	if err != nil {
		return err
	}
	if len(since) > 0 {
		return fallsShort(a, "node %s was not turned over since allocation %s", n.ID, since[0].Describe())
	}
	var certifiedBy string
	err = t.QueryRowContext(ctx, `SELECT certified_by FROM allocations WHERE node_id = $1 AND allocation_id = $2 AND`+occupantWas,
		n.ID, a.ID).Scan(&certifiedBy)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return err
	}
	never := err != nil
	if !slices.ContainsFunc(proofs, func(p proof) bool {
		return p.id == certifiedBy || never && p.epoch == n.Epoch && p.issued.After(a.ReleasingAt)
	}) {
		return fallsShort(a, "node %s has no certificate that meets the policy and ended the tenant's time on it", n.ID)
	}
	return nil
}

func fallsShort(a broker.Allocation, format string, args ...any) error {
	return broker.Errorf(broker.Refused, "certificate_falls_short", "cannot release allocation %s: %s (turn the node over)", a.ID,
		fmt.Sprintf(format, args...))
}
