package store

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/store/sqlkit"
	"github.com/hostler/hostler/taskcatalog"
)

// madeBy reads the undeleted node that a run made; false: no such node.
func madeBy(ctx context.Context, r sqlkit.Runner, runID, lock string) (broker.Node, bool, error) {
	n, err := scanNode(r.QueryRowContext(ctx, `SELECT `+nodeColumns+
		` FROM nodes WHERE made_by_run = $1 AND made_by_run <> '' AND status <> 'deleted'`+lock, runID))
	if errors.Is(err, sql.ErrNoRows) {
		return n, false, nil
	}
	return n, err == nil, err
}

// OnboardNode finds or creates the node of a run, enrolling and without a token, and binds the node
// to n's machine. n.MadeByRun names the run; n.ID is used only for a new node. Code:
// hostname_taken.
func (db *DB) OnboardNode(ctx context.Context, actor broker.Actor, n NewNode) (made broker.Node, err error) {
	err = db.write(ctx, func(ctx context.Context, t *tx) error {
		var had bool
		if made, had, err = madeBy(ctx, t, n.MadeByRun, t.ForUpdate()); err != nil {
			return err
		}
		if had {
			if err := t.expectDisks(ctx, actor, made, n.Disks); err != nil || made.MAASSystemID == n.MAASSystemID {
				return err
			}
			return t.bind(ctx, actor, &made, n.MAASSystemID)
		}
		if made, err = t.createNode(ctx, actor, n); err != nil {
			return err
		}
		if err := t.expectDisks(ctx, actor, made, n.Disks); err != nil {
			return err
		}
		made, err = t.transition(ctx, actor, made.ID, Change{
			From: broker.BootstrapIssued, To: broker.Enrolling, By: broker.OwnerOnboarding,
			Reason: "onboarding run " + n.MadeByRun,
		})
		return err
	})
	return made, err
}

func (t *tx) bind(ctx context.Context, actor broker.Actor, n *broker.Node, systemID string) error {
	e := entry(actor, "node.bind", n.ID)
	e.Before, e.After = small("maas_system_id", n.MAASSystemID), small("maas_system_id", systemID)
	n.MAASSystemID, n.UpdatedAt = systemID, t.now
	if _, err := t.ExecContext(ctx, `UPDATE nodes SET maas_system_id = $1, updated_at = $2 WHERE id = $3`, systemID, sqlkit.Micros(t.now),
		n.ID); err != nil {
		return err
	}
	return t.audit(ctx, e)
}

// MadeByRun returns the run that made a node; empty: a person made the node. Code: node_not_found.
func (db *DB) MadeByRun(ctx context.Context, nodeID string) (runID string, err error) {
	err = db.reader().QueryRowContext(ctx, `SELECT made_by_run FROM nodes WHERE id = $1`, nodeID).Scan(&runID)
	if errors.Is(err, sql.ErrNoRows) {
		return "", nodeNotFound(nodeID)
	}
	return runID, err
}

// BoundNode returns the undeleted node of a machine in a site's MAAS, unless this run made the
// node; empty: no such node.
func (db *DB) BoundNode(ctx context.Context, site, systemID, runID string) (id string, err error) {
	err = db.reader().QueryRowContext(ctx,
		`SELECT id FROM nodes WHERE site = $1 AND maas_system_id = $2 AND maas_system_id <> '' AND status <> 'deleted' AND made_by_run <> $3 ORDER BY id LIMIT 1`,
		site, systemID, runID).Scan(&id)
	if errors.Is(err, sql.ErrNoRows) {
		return "", nil
	}
	return id, err
}

// BoundBeside is BoundNode for a run over an existing node: it returns another node.
func (db *DB) BoundBeside(ctx context.Context, site, systemID, nodeID string) (id string, err error) {
	err = db.reader().QueryRowContext(ctx,
		`SELECT id FROM nodes WHERE site = $1 AND maas_system_id = $2 AND maas_system_id <> '' AND status <> 'deleted' AND id <> $3 ORDER BY id LIMIT 1`,
		site, systemID, nodeID).Scan(&id)
	if errors.Is(err, sql.ErrNoRows) {
		return "", nil
	}
	return id, err
}

// Hardware judges a node's machine by the facts that its agent reported (known: the agent has
// reported) and by its parts. unlike: why the machine is not the expected machine. lacks: what must
// be reported before that can be decided. Both empty: the machine is the expected machine.
type Hardware func(n broker.Node, f taskcatalog.Facts, known bool, parts []broker.Device) (unlike, lacks string)

// Activate makes an enrolled node active that a run has kept waiting, if nothing is missing;
// otherwise lacks says what is missing. Codes: node_not_found, hardware_mismatch.
func (db *DB) Activate(
	ctx context.Context, actor broker.Actor, nodeID, reason string, judge Hardware,
) (active bool, lacks string, err error) {
	err = db.write(ctx, func(ctx context.Context, t *tx) error {
		active, lacks = false, ""
		n, err := node(ctx, t, nodeID, t.ForUpdate())
		switch {
		case err != nil:
			return err
		case n.Status == broker.Active:
			active = true
			return nil
		case n.Epoch == 0:
			lacks = "its agent has not enrolled"
			return nil
		case n.Status == broker.Enrolling && n.BaselineDigest == "":
			lacks = "it has no baseline"
			return nil
		}
		unlike, lack, err := t.judge(ctx, n, judge)
		switch {
		case err != nil:
			return err
		case unlike != "":
			return broker.Errorf(broker.Refused, "hardware_mismatch", "node %s: %s", n.ID, unlike)
		case lack != "":
			lacks = lack
			return nil
		case n.Status == broker.Quarantined:
			lacks = "a person must let it in again (hostler node activate " + n.ID + ")"
			return nil
		}
		_, err = t.transition(ctx, actor, nodeID, Change{To: broker.Active, By: broker.OwnerOnboarding, Reason: reason})
		if r, ok := errors.AsType[*refusal](err); ok {
			lacks = r.Error() // repeated on every try, so not audited
			return nil
		}
		active = err == nil
		return err
	})
	return active, lacks, err
}

func (t *tx) judge(ctx context.Context, n broker.Node, judge Hardware) (unlike, lacks string, err error) {
	if judge == nil {
		return "", "", nil
	}
	f, known, err := facts(ctx, t, n.ID)
	if err != nil {
		return "", "", err
	}
	parts, err := devices(ctx, t, n.ID)
	if err != nil {
		return "", "", err
	}
	unlike, lacks = judge(n, f, known, parts)
	return unlike, lacks, nil
}

// RemoveOnboarded deletes the node that a run made, and voids its token, if the node never enrolled
// and nobody has changed its status. kept names a node that stays. A missing node is no error.
func (db *DB) RemoveOnboarded(ctx context.Context, actor broker.Actor, runID, reason string) (kept string, err error) {
	err = db.write(ctx, func(ctx context.Context, t *tx) error {
		kept = ""
		n, had, err := madeBy(ctx, t, runID, t.ForUpdate())
		if err != nil || !had {
			return err
		}
		if n.Epoch > 0 || n.Status != broker.Enrolling {
			kept = n.ID
			return nil
		}
		_, err = t.transition(ctx, actor, n.ID, Change{To: broker.Deleted, By: broker.OwnerUndo, Reason: reason})
		return err
	})
	return kept, err
}

// RenewOnboarded makes the node of a run enrol anew, as its machine starts from scratch: a node
// that the broker's own checks quarantined before it was ever let in becomes enrolling again. A
// node that a person keeps out, or that was in use, stays: why gives the reason. A missing node is
// no error.
func (db *DB) RenewOnboarded(ctx context.Context, actor broker.Actor, runID, reason string) (why string, err error) {
	err = db.write(ctx, func(ctx context.Context, t *tx) error {
		why = ""
		n, had, err := madeBy(ctx, t, runID, t.ForUpdate())
		if err != nil || !had || n.Status != broker.Quarantined {
			return err
		}
		var own bool
		err = t.QueryRowContext(ctx, `SELECT kept_out_by = $1 AND devices_taken_at = 0 FROM nodes WHERE id = $2`,
			string(broker.OwnerOnboarding), n.ID).Scan(&own)
		switch {
		case err != nil:
			return err
		case !own || n.TurnoverOwed:
			why = "node " + n.ID + " is quarantined (" + n.StatusReason + "), " +
				"and a person must let it in again (hostler node activate " + n.ID + ")"
			return nil
		}
		_, err = t.transition(ctx, actor, n.ID, Change{To: broker.Enrolling, By: broker.OwnerUndo, Reason: reason})
		return err
	})
	return why, err
}

// Tokens describes a node's enrol tokens: the number ever issued, and the token that its machine
// may still use.
type Tokens struct {
	Issued    int
	OpenHash  string // empty: none
	ExpiresAt time.Time
}

// EnrollTokens reads a node's tokens. A used token is not open, even if its answer may have to be
// repeated.
func (db *DB) EnrollTokens(ctx context.Context, nodeID string) (out Tokens, err error) {
	all, err := sqlkit.Collect(ctx, db.reader(), scanToken, `SELECT `+tokenColumns+` FROM enroll_tokens WHERE node_id = $1`, nodeID)
	out.Issued = len(all)
	for _, k := range all {
		if k.UsedAt.IsZero() && k.VoidAt.IsZero() && k.ConsumedAt.IsZero() && db.Now().Before(k.ExpiresAt) {
			out.OpenHash, out.ExpiresAt = k.Hash, k.ExpiresAt
		}
	}
	return out, err
}

// Fits reports whether an enrolled node has everything that a node for tenants needs, and changes
// nothing; otherwise lacks says what is missing. Codes: node_not_found, hardware_mismatch.
func (db *DB) Fits(ctx context.Context, nodeID string, judge Hardware) (fits bool, lacks string, err error) {
	err = db.write(ctx, func(ctx context.Context, t *tx) error {
		n, err := node(ctx, t, nodeID, "")
		if err != nil {
			return err
		}
		if n.BaselineDigest == "" {
			lacks = "it has no baseline (take one: hostler node baseline retake " + n.ID + ")"
			return nil
		}
		unlike := ""
		if unlike, lacks, err = t.judge(ctx, n, judge); err == nil && unlike != "" {
			err = broker.Errorf(broker.Refused, "hardware_mismatch", "node %s: %s", n.ID, unlike)
		}
		fits = err == nil && lacks == ""
		return err
	})
	return fits, lacks, err
}
