package store

import (
	"context"
	"database/sql"
	"errors"
	"slices"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/chain"
	"github.com/hostler/hostler/broker/store/sqlkit"
)

// Turnover names a run that turns a node over, and its reason.
type Turnover struct {
	NodeID, RunID, Reason string
	// From is the status that the node must still have when a turnover begins; empty: any status
	// from which a turnover may begin.
	From broker.NodeStatus
	// Lifts names the obstacles that a person has told the run to ignore when it lets the node in.
	Lifts Lifts
}

// Lifts is a set of obstacles to a node's use for which a person takes responsibility.
type Lifts struct {
	Person    bool      // a person has quarantined the node meanwhile
	Conflicts time.Time // identity conflicts up to this time
}

// beforeRelease are the statuses of an allocation whose tenant has the nodes, or is to get them.
var beforeRelease = []broker.AllocationStatus{broker.AllocationRequested, broker.AllocationProvisioning, broker.AllocationActive}

// BeginTurnover takes a node out of service and marks a turnover as owed, if no allocation is live
// on the node, or holds the node for its tenant, except those in ends. Each of these with a user
// ends for billing, announced once as allocation.force_released; the run must then remove its user. A repeated call changes nothing
// more. Codes, audited: allocation_live, node_moved, transition_refused.
func (db *DB) BeginTurnover(ctx context.Context, actor broker.Actor, u Turnover, ends ...string) (forced []broker.Occupant, err error) {
	err = db.write(ctx, func(ctx context.Context, t *tx) error {
		forced = nil
		n, err := node(ctx, t, u.NodeID, t.ForUpdate())
		if err != nil {
			return err
		}
		if u.From != "" && n.Status != u.From {
			return refuse(broker.Errorf(broker.Refused, "node_moved",
				"cannot turn over node %s: its status should still be %s, and is %s (%s)", n.ID, u.From, n.Status,
				n.StatusReason), entry(actor, "turnover.begin", n.ID))
		}
		live, err := t.taken(ctx, n, entry(actor, "turnover.begin", n.ID), ends)
		if err != nil {
			return err
		}
		for _, a := range live {
			if err := t.forceRelease(ctx, actor, n, u, a); err != nil {
				return err
			}
		}
		forced = live
		c := Change{To: broker.Draining, By: broker.OwnerTurnover, Reason: u.Reason, OweTurnover: true}
		if n.Status == broker.Retired {
			c.To = broker.Retired
		}
		_, err = t.transition(ctx, actor, n.ID, c)
		return err
	})
	return forced, err
}

// taken returns the live occupants of a node, if each of them belongs to an allocation in ends, and no
// other allocation holds the node for its tenant, who may have no user on it. Code, audited as e:
// allocation_live.
func (t *tx) taken(ctx context.Context, n broker.Node, e broker.AuditEntry, ends []string) ([]broker.Occupant, error) {
	live, err := occupants(ctx, t, n.ID, `ended_at = 0`)
	if err != nil {
		return nil, err
	}
	if err := broker.OccupantsLive(n, live, ends...); err != nil {
		return nil, refuse(broker.AsError(err), e)
	}
	claim, err := liveClaim(ctx, t, n.ID)
	if err != nil {
		return nil, err
	}
	if slices.Contains(beforeRelease, claim.Status) && !slices.Contains(ends, claim.ID) {
		return nil, refuse(broker.Errorf(broker.Refused, "allocation_live",
			"cannot turn over node %s: allocation %s holds the node, and is %s (release the allocation first)", n.ID, claim.ID,
			claim.Status), e)
	}
	return live, nil
}

// ForceRelease ends a node's live allocations for billing, as BeginTurnover does, and with the same
// refusals; the node stays unchanged. Code, audited: allocation_live.
func (db *DB) ForceRelease(ctx context.Context, actor broker.Actor, u Turnover, ends ...string) (forced []broker.Occupant, err error) {
	err = db.write(ctx, func(ctx context.Context, t *tx) error {
		n, err := node(ctx, t, u.NodeID, t.ForUpdate())
		if err != nil {
			return err
		}
		if forced, err = t.taken(ctx, n, entry(actor, "allocation.force_release", n.ID), ends); err != nil {
			return err
		}
		for _, a := range forced {
			if err := t.forceRelease(ctx, actor, n, u, a); err != nil {
				return err
			}
		}
		return nil
	})
	return forced, err
}

// forceRelease ends an allocation for its tenant. Its user still exists and the allocation stays
// live until the node reports otherwise. The release of a project's active allocation begins, with all
// its nodes: the project pays no more.
func (t *tx) forceRelease(ctx context.Context, actor broker.Actor, n broker.Node, u Turnover, a broker.Occupant) error {
	first, err := sqlkit.Changed(t.ExecContext(ctx,
		`UPDATE allocations SET forced_by = $1 WHERE node_id = $2 AND allocation_id = $3 AND forced_by = ''`, u.RunID, n.ID, a.ID))
	if err != nil || first == 0 {
		return err
	}
	e := entry(actor, "allocation.force_release", n.ID)
	e.Reason, e.After = u.Reason, small("allocation", a.ID, "tenant", a.Tenant, "run", u.RunID)
	if err := t.audit(ctx, e); err != nil {
		return err
	}
	if err := t.send(ctx, told{
		Site: n.Site, CorrelationID: u.RunID,
		Message: chain.Message{Type: ForceReleasedEvent, Subject: "allocation/" + a.ID, Data: map[string]any{
			"allocation_id": a.ID, "tenant": a.Tenant, "node_id": n.ID, "hostname": n.Hostname, "site": n.Site, "run_id": u.RunID,
			"reason": u.Reason, "by": actor.Name,
		}},
	}); err != nil {
		return err
	}
	claim, err := liveClaim(ctx, t, n.ID)
	if err != nil || claim.ID != a.ID {
		return err // a user by hand
	}
	claim, err = allocation(ctx, t, a.ID, t.ForUpdate())
	if err != nil || claim.Status != broker.AllocationActive {
		return err
	}
	_, err = t.transitionAllocation(ctx, actor, claim, AllocationChange{
		To: broker.AllocationReleasing, By: broker.AllocationAdmin, Reason: u.Reason, CorrelationID: u.RunID,
	})
	return err
}

// EndTurnover hands a node out again, on the certificate of its run, and clears the owed mark.
// Codes: certificate_missing, certificate_falls_short, certificate_stale, allocation_live,
// kept_out_by_conflict, kept_out_by_person, transition_refused, resolver_config_unconfirmed.
func (db *DB) EndTurnover(ctx context.Context, actor broker.Actor, u Turnover, certificateID string) error {
	return db.write(ctx, func(ctx context.Context, t *tx) error {
		n, err := node(ctx, t, u.NodeID, t.ForUpdate())
		if err != nil {
			return err
		}
		e := entry(actor, "turnover.end", n.ID)
		var epoch int64
		var meets bool
		var until time.Time
		err = t.QueryRowContext(ctx,
			`SELECT node_epoch, meets_policy, valid_until FROM clean_certificates WHERE id = $1 AND run_id = $2 AND node_id = $3`,
			certificateID, u.RunID, n.ID).Scan(&epoch, &meets, sqlkit.ScanMicros(&until))
		switch {
		case errors.Is(err, sql.ErrNoRows):
			return refuse(broker.Errorf(broker.Refused, "certificate_missing",
				"cannot hand out node %s: run %s has no certificate %q for this node", n.ID, u.RunID, certificateID), e)
		case err != nil:
			return err
		case !meets || epoch != n.Epoch:
			return refuse(broker.Errorf(broker.Refused, "certificate_falls_short",
				"cannot hand out node %s: certificate %s does not meet the policy, or is from an earlier enrolment", n.ID,
				certificateID), e)
		case handedOut(n):
			return nil // the answer was lost
		case !t.now.Before(until):
			return refuse(broker.Errorf(broker.Refused, "certificate_stale",
				"cannot hand out node %s: certificate %s was valid until %s (rerun the turnover to validate the node again)", n.ID,
				certificateID, until.Format(time.RFC3339)), e)
		}
		live, err := occupants(ctx, t, n.ID, `ended_at = 0`)
		if err != nil {
			return err
		}
		if err := broker.OccupantsLive(n, live); err != nil {
			return refuse(broker.AsError(err), e)
		}
		if err := t.keptOut(ctx, n, u.Lifts); err != nil {
			if r, ok := errors.AsType[*broker.Error](err); ok {
				return refuse(r, e)
			}
			return err
		}
		if _, err := t.transition(ctx, actor, n.ID, Change{
			To: broker.Active, By: broker.OwnerTurnover, Reason: u.Reason,
			ClearTurnover: true,
		}); err != nil {
			return err
		}
		if _, err := t.ExecContext(ctx, `UPDATE attestations SET certified_by = $1 WHERE node_id = $2 AND certified_by = ''
			AND issued_at <= (SELECT issued_at FROM clean_certificates WHERE id = $1)`, certificateID, n.ID); err != nil {
			return err
		}
		_, err = t.ExecContext(ctx, `UPDATE allocations SET certified_by = $1 WHERE node_id = $2 AND certified_by = ''`, certificateID,
			n.ID)
		return err
	})
}

// keptOut refuses to let in a node whose present identity has two holders, because either may have
// signed the evidence of the certificate, and a node that a person has quarantined, because the
// run's result does not answer the person's reason.
func (t *tx) keptOut(ctx context.Context, n broker.Node, lifts Lifts) error {
	seen, err := identityConflictAt(ctx, t, n.ID)
	switch {
	case err != nil:
		return err
	case seen.After(lifts.Conflicts):
		return broker.Errorf(broker.Refused, "kept_out_by_conflict",
			"cannot hand out node %s: at %s two holders used its identity, and either may have signed the evidence (find out who else has its key, and give the node a new key)", n.ID, seen.Format(time.RFC3339))
	case n.Status != broker.Quarantined || lifts.Person:
		return nil
	}
	var by string
	err = t.QueryRowContext(ctx, `SELECT kept_out_by FROM nodes WHERE id = $1`, n.ID).Scan(&by)
	if err != nil || !ofPeople(broker.Owner(by)) {
		return err
	}
	return broker.Errorf(broker.Refused, "kept_out_by_person",
		"cannot hand out node %s: a person has quarantined it: %s (to let it in regardless, adopt the run)", n.ID, n.StatusReason)
}

// handedOut reports whether a node whose turnover was begun is in service again. It may be silent or drained
// since.
func handedOut(n broker.Node) bool {
	return !n.TurnoverOwed && (n.Status == broker.Active || n.Status == broker.Offline || n.Status == broker.Draining)
}
