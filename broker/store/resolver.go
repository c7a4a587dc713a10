package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/chain"
	"github.com/hostler/hostler/broker/store/sqlkit"
)

// ProfilesStoppedEvent announces that a set of resolver profiles goes to no further node.
const ProfilesStoppedEvent = "resolver.profiles.stopped"

// ResolverSet is a set of resolver profiles, with a version named by an operator.
type ResolverSet struct {
	Digest   string
	Version  string
	Profiles json.RawMessage // canonical JSON; empty in a list
	PushedBy string
	PushedAt time.Time
}

// ResolverWant assigns a set to the nodes of a selector.
type ResolverWant struct {
	ID         int64 // ascending
	Selector   string
	Digest     string
	Version    string
	WantedBy   string
	WantedAt   time.Time
	StoppedAt  time.Time // zero: not stopped
	StopReason string
}

// PushResolverSet stores a set. An identical set changes nothing. Code: resolver_version_taken, if
// the version has other content.
func (db *DB) PushResolverSet(ctx context.Context, actor broker.Actor, s ResolverSet) (had bool, err error) {
	err = db.write(ctx, func(ctx context.Context, t *tx) error {
		had = false
		old, err := resolverSet(ctx, t, s.Version)
		if err == nil {
			if old.Digest == s.Digest {
				had = true
				return nil
			}
			return broker.Errorf(broker.Refused, "resolver_version_taken",
				"cannot push resolver profiles as %s: that version has other content (choose another --version)", s.Version)
		} else if broker.AsError(err).Kind != broker.NotFound {
			return err
		}
		if old, err := resolverSet(ctx, t, s.Digest); err == nil {
			return broker.Errorf(broker.Refused, "resolver_version_taken",
				"cannot push resolver profiles as %s: the same content is already version %s", s.Version, old.Version)
		}
		if _, err := t.ExecContext(ctx,
			`INSERT INTO resolver_sets (digest, version, profiles, pushed_by, pushed_at) VALUES ($1, $2, $3, $4, $5)`,
			s.Digest, s.Version, string(s.Profiles), actor.Name, sqlkit.Micros(t.now)); err != nil {
			return err
		}
		return t.audit(ctx, broker.AuditEntry{
			Actor: actor.Name, Action: "resolver.push", Subject: "resolver/" + s.Version,
			After: small("digest", s.Digest),
		})
	})
	return had, err
}

const resolverSetColumns = `digest, version, profiles, pushed_by, pushed_at`

func scanResolverSet(row sqlkit.Row) (s ResolverSet, err error) {
	err = row.Scan(&s.Digest, &s.Version, sqlkit.ScanRawJSON(&s.Profiles), &s.PushedBy, sqlkit.ScanMicros(&s.PushedAt))
	return s, err
}

// resolverSet finds a set by version or digest.
func resolverSet(ctx context.Context, r sqlkit.Runner, ref string) (ResolverSet, error) {
	s, err := scanResolverSet(r.QueryRowContext(ctx, `SELECT `+resolverSetColumns+` FROM resolver_sets WHERE version = $1 OR digest = $1`,
		ref))
	if errors.Is(err, sql.ErrNoRows) {
		return s, broker.Errorf(broker.NotFound, "resolver_version_unknown",
			"there are no resolver profiles of version %q (see hostler resolver list)", ref)
	}
	return s, err
}

// ResolverSet finds a set by version or digest. Code: resolver_version_unknown.
func (db *DB) ResolverSet(ctx context.Context, ref string) (ResolverSet, error) {
	return resolverSet(ctx, db.reader(), ref)
}

// ResolverSets lists the sets, newest first, without their content.
func (db *DB) ResolverSets(ctx context.Context) ([]ResolverSet, error) {
	return sqlkit.Collect(ctx, db.reader(), scanResolverSet,
		`SELECT digest, version, '' AS profiles, pushed_by, pushed_at FROM resolver_sets ORDER BY pushed_at DESC, version`)
}

// WantResolver assigns a set to the nodes of a selector, including nodes that match later. The want
// replaces an earlier want of the same selector, and takes precedence over all earlier wants. nodes
// is the number of nodes that match now. Code: resolver_version_unknown.
func (db *DB) WantResolver(
	ctx context.Context, actor broker.Actor, selector broker.Selector, ref, reason string,
) (w ResolverWant, nodes int, err error) {
	err = db.write(ctx, func(ctx context.Context, t *tx) error {
		set, err := resolverSet(ctx, t, ref)
		if err != nil {
			return err
		}
		// A single row serializes wants of all operators.
		var id int64
		if err := t.QueryRowContext(ctx,
			`UPDATE resolver_clock SET last = CASE WHEN last < $1 THEN $1 ELSE last + 1 END WHERE id = 1 RETURNING last`,
			sqlkit.Micros(t.now)).Scan(&id); err != nil {
			return err
		}
		w = ResolverWant{
			ID: id, Selector: selector.String(), Digest: set.Digest, Version: set.Version, WantedBy: actor.Name,
			WantedAt: t.now,
		}
		if _, err := t.ExecContext(ctx, `INSERT INTO resolver_wants (selector, digest, wanted_by, wanted_at) VALUES ($1, $2, $3, $4)
			ON CONFLICT (selector) DO UPDATE SET digest = excluded.digest, wanted_by = excluded.wanted_by, wanted_at = excluded.wanted_at, stopped_at = 0, stop_reason = ''`,
			w.Selector, w.Digest, w.WantedBy, id); err != nil {
			return err
		}
		all, err := sqlkit.Collect(ctx, t, scanNode, `SELECT `+nodeColumns+` FROM nodes WHERE status <> 'deleted' ORDER BY id`+
			t.ForUpdate())
		if err != nil {
			return err
		}
		nodes = 0
		for _, n := range all {
			if !selector.Matches(n) {
				continue
			}
			nodes++
			if err := t.want(ctx, &n, set.Digest, id); err != nil {
				return err
			}
		}
		return t.audit(ctx, broker.AuditEntry{
			Actor: actor.Name, Action: "resolver.want", Subject: "resolver/" + set.Version, Reason: reason,
			After: small("selector", w.Selector, "digest", w.Digest, "nodes", nodes),
		})
	})
	return w, nodes, err
}

// StopResolverWant keeps a want from reaching further nodes. A want that was replaced or stopped
// meanwhile stays unchanged.
func (db *DB) StopResolverWant(ctx context.Context, actor broker.Actor, w ResolverWant, reason string) error {
	return db.write(ctx, func(ctx context.Context, t *tx) error {
		n, err := sqlkit.Changed(t.ExecContext(ctx,
			`UPDATE resolver_wants SET stopped_at = $1, stop_reason = $2 WHERE wanted_at = $3 AND stopped_at = 0`, sqlkit.Micros(t.now),
			reason, w.ID))
		if err != nil || n == 0 {
			return err
		}
		if err := t.send(ctx,
			told{Message: chain.Message{Type: ProfilesStoppedEvent, Subject: "resolver/" + w.Version, Data: map[string]any{
				"version": w.Version, "digest": w.Digest, "selector": w.Selector, "reason": reason,
			}}}); err != nil {
			return err
		}
		return t.audit(ctx, broker.AuditEntry{
			Actor: actor.Name, Action: "resolver.stop", Subject: "resolver/" + w.Version, Reason: reason,
			After: small("selector", w.Selector),
		})
	})
}

// ResolverWants lists the wants, highest precedence first.
func (db *DB) ResolverWants(ctx context.Context) ([]ResolverWant, error) {
	return resolverWants(ctx, db.reader())
}

func resolverWants(ctx context.Context, r sqlkit.Runner) ([]ResolverWant, error) {
	return sqlkit.Collect(ctx, r, func(row sqlkit.Row) (w ResolverWant, err error) {
		err = row.Scan(&w.ID, &w.Selector, &w.Digest, &w.Version, &w.WantedBy, sqlkit.ScanMicros(&w.StoppedAt), &w.StopReason)
		w.WantedAt = time.UnixMicro(w.ID).UTC()
		return w, err
	}, `SELECT wanted_at, selector, w.digest, version, wanted_by, stopped_at, stop_reason
		FROM resolver_wants w JOIN resolver_sets s ON s.digest = w.digest ORDER BY wanted_at DESC`)
}

// CountResolver counts the nodes with a want, and among them the nodes that confirmed the set.
func (db *DB) CountResolver(ctx context.Context, want int64) (nodes, confirmed int, err error) {
	err = db.reader().QueryRowContext(ctx, `SELECT COUNT(*), COUNT(CASE WHEN resolver_digest = resolver_wanted THEN 1 END)
		FROM nodes WHERE resolver_want = $1 AND status <> 'deleted'`, want).Scan(&nodes, &confirmed)
	return nodes, confirmed, err
}

// rewant recomputes the wanted set of a node after a change that may alter the matching selectors,
// such as new labels or a new report.
func (t *tx) rewant(ctx context.Context, n *broker.Node) error {
	wants, err := resolverWants(ctx, t)
	if err != nil {
		return err
	}
	for _, w := range wants {
		s, err := broker.ParseSelector(w.Selector)
		if err != nil {
			return err
		}
		if s.Matches(*n) {
			return t.want(ctx, n, w.Digest, w.ID)
		}
	}
	return t.want(ctx, n, "", 0)
}

func (t *tx) want(ctx context.Context, n *broker.Node, digest string, want int64) error {
	if n.ResolverWanted == digest && n.ResolverWant == want {
		return nil
	}
	n.ResolverWanted, n.ResolverWant = digest, want
	if _, err := t.ExecContext(ctx, `UPDATE nodes SET resolver_wanted = $1, resolver_want = $2, updated_at = $3 WHERE id = $4`, digest,
		want, sqlkit.Micros(t.now), n.ID); err != nil {
		return err
	}
	return t.letIn(ctx, *n, "") // the node may have waited for another set
}

// confirmResolver records the set in force on a node. The node itself reports the set, so the
// digest may be unknown to the broker.
func (t *tx) confirmResolver(ctx context.Context, n *broker.Node, digest string) error {
	if n.ResolverDigest == digest {
		return nil
	}
	e := entry(nodeActor(n.ID), "resolver.confirm", n.ID)
	e.Before, e.After = small("digest", n.ResolverDigest), small("digest", digest)
	if n.ResolverDigest != "" {
		n.ResolverBefore = n.ResolverDigest
	}
	n.ResolverDigest = digest
	if _, err := t.ExecContext(ctx, `UPDATE nodes SET resolver_digest = $1, resolver_before = $2, updated_at = $3 WHERE id = $4`,
		n.ResolverDigest, n.ResolverBefore, sqlkit.Micros(t.now), n.ID); err != nil {
		return err
	}
	return t.audit(ctx, e)
}

// letIn makes an enrolling node active once nothing is missing. A node in the hands of a run is let
// in by that run, when the machine is ready too.
func (t *tx) letIn(ctx context.Context, n broker.Node, correlationID string) error {
	if n.Status != broker.Enrolling || n.BaselineDigest == "" {
		return nil
	}
	var runs int
	if err := t.QueryRowContext(ctx, `SELECT COUNT(*) FROM chain_locks WHERE name = $1`, "node/"+n.ID).Scan(&runs); err != nil || runs > 0 {
		return err
	}
	_, err := t.transition(ctx, nodeActor(n.ID), n.ID,
		Change{
			From: broker.Enrolling, To: broker.Active, By: broker.OwnerOnboarding, Reason: "baseline taken",
			CorrelationID: correlationID,
		})
	var r *refusal
	if !errors.As(err, &r) {
		return err
	}
	// The node waits: the refusal becomes its status reason, and is not audited.
	_, err = t.ExecContext(ctx, `UPDATE nodes SET status_reason = $1, updated_at = $2 WHERE id = $3 AND status = 'enrolling'`, r.Error(),
		sqlkit.Micros(t.now), n.ID)
	return err
}

// ResolverTasks lists the tasks made for a want, by node, each node's latest task last.
func (db *DB) ResolverTasks(ctx context.Context, want int64) (map[string][]broker.Task, error) {
	from, to := resolverKeys(want)
	all, err := sqlkit.Collect(ctx, db.reader(), scanTask, `SELECT `+taskColumns+` FROM tasks
		WHERE type = 'node.resolver_config' AND idempotency_key >= $1 AND idempotency_key < $2 ORDER BY id`, from, to)
	if err != nil {
		return nil, err
	}
	byNode := map[string][]broker.Task{}
	for _, k := range all {
		byNode[k.NodeID] = append(byNode[k.NodeID], k)
	}
	return byNode, nil
}

// NodeResolverTasks lists a node's tasks made for a want, latest last.
func (db *DB) NodeResolverTasks(ctx context.Context, nodeID string, want int64) ([]broker.Task, error) {
	from, to := resolverKeys(want)
	return sqlkit.Collect(ctx, db.reader(), scanTask, `SELECT `+taskColumns+` FROM tasks
		WHERE node_id = $1 AND type = 'node.resolver_config' AND idempotency_key >= $2 AND idempotency_key < $3 ORDER BY id`, nodeID, from, to)
}

// resolverKeys is the range of the idempotency keys of a want's tasks.
func resolverKeys(want int64) (from, to string) {
	from = broker.ResolverKey(want, "")
	return from, from + "\x7f"
}
