package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/chain"
	"github.com/hostler/hostler/broker/store/sqlkit"
)

// MAASState is the reconciler's knowledge of a node's machine in MAAS, and of the last drift
// between node and machine.
type MAASState struct {
	NodeID, SiteID, SystemID string
	Status, Power            string // in MAAS's terms
	IPs                      []string
	Host                     string    // the node's address
	Marked                   bool      // the machine was seen with the node's mark
	ReconciledAt             time.Time // when this record last changed

	Drift          bool // a drift is open
	Rule, Severity string
	Details        json.RawMessage
	FirstSeen      time.Time
	ActedAt        time.Time // the last time; zero: never
	Acts           int64     // number of actions
	Work           string    // the last started task or run
	QuarantinedAt  time.Time // when a drift last kept the node from use, whatever happened since; zero: never
	ResolvedAt     time.Time
	ResolvedBy     string // an operator, or system
	Resolution     string
}

const stateColumns = `s.node_id, s.site_id, s.maas_system_id, s.last_maas_status, s.last_maas_power_state, s.last_maas_ips, s.host, s.marked, s.last_reconciled_at,
	s.drift_detected, s.drift_rule, s.drift_severity, s.drift_details, s.drift_first_seen, s.acted_at, s.acts, s.work, s.quarantined_at, s.drift_resolved_at, s.resolved_by, s.resolution`

func (s *MAASState) into() []any {
	return []any{
		&s.NodeID, &s.SiteID, &s.SystemID, &s.Status, &s.Power, sqlkit.ScanJSON(&s.IPs), &s.Host, &s.Marked,
		sqlkit.ScanMicros(&s.ReconciledAt),
		&s.Drift, &s.Rule, &s.Severity, sqlkit.ScanRawJSON(&s.Details), sqlkit.ScanMicros(&s.FirstSeen), sqlkit.ScanMicros(&s.ActedAt),
		&s.Acts, &s.Work, sqlkit.ScanMicros(&s.QuarantinedAt), sqlkit.ScanMicros(&s.ResolvedAt), &s.ResolvedBy, &s.Resolution,
	}
}

func maasState(ctx context.Context, r sqlkit.Runner, nodeID string) (s MAASState, had bool, err error) {
	err = r.QueryRowContext(ctx, `SELECT `+stateColumns+` FROM node_maas_state s WHERE s.node_id = $1`, nodeID).Scan(s.into()...)
	if errors.Is(err, sql.ErrNoRows) {
		return s, false, nil
	}
	return s, err == nil, err
}

// MAASState reads the state of a node's machine; false: none yet.
func (db *DB) MAASState(ctx context.Context, nodeID string) (MAASState, bool, error) {
	return maasState(ctx, db.reader(), nodeID)
}

// putState writes the whole record.
func (t *tx) putState(ctx context.Context, s MAASState) error {
	if s.IPs == nil {
		s.IPs = []string{}
	}
	_, err := t.ExecContext(ctx,
		`INSERT INTO node_maas_state (node_id, site_id, maas_system_id, last_maas_status, last_maas_power_state, last_maas_ips, host, marked, last_reconciled_at,
			drift_detected, drift_rule, drift_severity, drift_details, drift_first_seen, acted_at, acts, work, quarantined_at, drift_resolved_at, resolved_by, resolution)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21)
		ON CONFLICT (node_id) DO UPDATE SET site_id = excluded.site_id, maas_system_id = excluded.maas_system_id, last_maas_status = excluded.last_maas_status,
			last_maas_power_state = excluded.last_maas_power_state, last_maas_ips = excluded.last_maas_ips, host = excluded.host, marked = excluded.marked,
			last_reconciled_at = excluded.last_reconciled_at, drift_detected = excluded.drift_detected, drift_rule = excluded.drift_rule,
			drift_severity = excluded.drift_severity, drift_details = excluded.drift_details, drift_first_seen = excluded.drift_first_seen, acted_at = excluded.acted_at,
			acts = excluded.acts, work = excluded.work, quarantined_at = excluded.quarantined_at, drift_resolved_at = excluded.drift_resolved_at, resolved_by = excluded.resolved_by, resolution = excluded.resolution`,
		s.NodeID, s.SiteID, s.SystemID, s.Status, s.Power, sqlkit.JSON(s.IPs), s.Host, s.Marked, sqlkit.Micros(t.now),
		s.Drift, s.Rule, s.Severity, string(s.Details), sqlkit.Micros(s.FirstSeen), sqlkit.Micros(s.ActedAt), s.Acts, s.Work,
		sqlkit.Micros(s.QuarantinedAt), sqlkit.Micros(s.ResolvedAt), s.ResolvedBy, s.Resolution)
	return err
}

// SaveSeen stores MAAS's data about machines: status, power, addresses and mark, and the nodes' own
// address. Recorded drift stays unchanged.
func (db *DB) SaveSeen(ctx context.Context, seen []MAASState) error {
	for part := range slices.Chunk(seen, seenAtOnce) {
		err := db.write(ctx, func(ctx context.Context, t *tx) error {
			for _, s := range part {
				had, known, err := maasState(ctx, t, s.NodeID)
				if err != nil {
					return err
				}
				if known {
					had.SiteID, had.SystemID, had.Status, had.Power, had.IPs, had.Host, had.Marked = s.SiteID, s.SystemID, s.Status,
						s.Power, s.IPs, s.Host, s.Marked
					s = had
				}
				if err := t.putState(ctx, s); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// seenAtOnce bounds the writes of a transaction, since other transactions wait.
const seenAtOnce = 200

// Drift is a found drift, with the action to take in the same transaction.
type Drift struct {
	Node  broker.Node // as judged: a node that has changed since is left alone
	Seen  MAASState   // MAAS's data about the machine
	Rule  string
	Level string // of the alert: critical, warn, info
	Text  string // of the alert

	Severity  string
	Details   json.RawMessage
	FirstSeen time.Time
	Again     bool // the counters continue from the last time that the drift was open
	// Quarantine keeps the node from use. Address is the node's new address, which ends the drift.
	// Neither: no action.
	Quarantine bool
	Address    string
}

// RecordDrift records a drift, announces the drift once, and takes the action. A node is left alone
// if it changed since it was judged, is in the hands of a run, owes a turnover, or is deleted. At a
// frozen site a node with an action due is left alone too. For a node left alone recorded is false,
// and nothing was written.
func (db *DB) RecordDrift(ctx context.Context, actor broker.Actor, d Drift) (recorded bool, err error) {
	err = db.write(ctx, func(ctx context.Context, t *tx) error {
		recorded = false
		acts := d.Quarantine || d.Address != ""
		if acts {
			if err := t.passFreezes(ctx); err != nil { // before the node's row is locked
				return err
			}
		}
		n, err := node(ctx, t, d.Node.ID, t.ForUpdate())
		if err != nil {
			return err
		}
		held, err := t.keptFromDrift(ctx, n, d.Node, acts)
		if err != nil || held {
			return err
		}
		s, _, err := maasState(ctx, t, n.ID)
		if err != nil {
			return err
		}
		if s.Drift && s.Rule != d.Rule {
			if err := t.endDrift(ctx, actor, n, &s, "replaced by drift "+d.Rule); err != nil {
				return err
			}
		}
		fresh := !s.Drift
		had := s
		s.NodeID, s.SiteID, s.SystemID, s.Status, s.Power, s.IPs, s.Marked = n.ID, d.Seen.SiteID, d.Seen.SystemID, d.Seen.Status,
			d.Seen.Power, d.Seen.IPs, d.Seen.Marked
		s.Rule, s.Severity, s.Details = d.Rule, d.Severity, d.Details
		if fresh {
			s.Drift, s.FirstSeen = true, d.FirstSeen
			if !d.Again {
				s.ActedAt, s.Acts, s.Work = time.Time{}, 0, ""
			}
			s.ResolvedAt, s.ResolvedBy, s.Resolution = time.Time{}, "", ""
			if err := t.tellDrift(ctx, actor, n, s, DriftDetectedEvent, d.Level, d.Text); err != nil {
				return err
			}
		}
		if d.Quarantine {
			if n, err = t.transition(ctx, actor, n.ID, Change{
				From: d.Node.Status, To: broker.Quarantined, By: broker.OwnerReconciler,
				Reason: d.Rule + ": " + d.Text,
			}); err != nil {
				return err
			}
			s.QuarantinedAt = t.now
		}
		if acts {
			s.ActedAt, s.Acts = t.now, s.Acts+1
		}
		if d.Address != "" {
			s.Host = d.Address
			if err := t.endDrift(ctx, actor, n, &s, "the node's address changed from "+had.Host+" to "+d.Address); err != nil {
				return err
			}
		}
		recorded = true
		return t.putState(ctx, s)
	})
	return recorded, err
}

// keptFromDrift reports whether a node must not be touched just now. acts: something else than the drift's record
// is to change; the transaction has passed the freezes.
func (t *tx) keptFromDrift(ctx context.Context, n, judged broker.Node, acts bool) (bool, error) {
	if n.Status != judged.Status || n.Epoch != judged.Epoch || n.MAASSystemID != judged.MAASSystemID || n.Site != judged.Site ||
		n.TurnoverOwed {
		return true, nil
	}
	var runs int
	if err := t.QueryRowContext(ctx, `SELECT COUNT(*) FROM chain_locks WHERE name = $1`, "node/"+n.ID).Scan(&runs); err != nil || runs > 0 {
		return true, err
	}
	if !acts {
		return false, nil
	}
	var frozen bool
	err := t.QueryRowContext(ctx,
		`SELECT EXISTS (SELECT 1 FROM chain_holds WHERE until_at = 0 AND kind IN ('freeze', 'restored') AND site IN ('', $1))`,
		n.Site).Scan(&frozen)
	return frozen, err
}

// tellDrift writes event and audit row.
func (t *tx) tellDrift(ctx context.Context, actor broker.Actor, n broker.Node, s MAASState, kind, level, text string) error {
	data := map[string]any{
		"node_id": n.ID, "hostname": n.Hostname, "site": n.Site, "rule": s.Rule, "severity": s.Severity, "text": text,
		"maas_system_id": s.SystemID, "maas_status": s.Status, "node_status": n.Status, "by": actor.Name,
	}
	if level != "" {
		data["alert"] = level
	}
	if err := t.send(ctx, told{
		Site: n.Site, CorrelationID: correlationOf(ctx),
		Message: chain.Message{Type: kind, Subject: "node/" + n.ID, Data: data},
	}); err != nil {
		return err
	}
	e := entry(actor, kind, n.ID)
	e.Code, e.Reason, e.After = s.Rule, text, small("rule", s.Rule, "severity", s.Severity, "maas_status", s.Status,
		"node_status", n.Status)
	return t.audit(ctx, e)
}

// endDrift closes the drift in s; the caller writes s afterwards.
func (t *tx) endDrift(ctx context.Context, actor broker.Actor, n broker.Node, s *MAASState, why string) error {
	s.Drift, s.ResolvedAt, s.ResolvedBy, s.Resolution = false, t.now, actor.Name, why
	return t.tellDrift(ctx, actor, n, *s, DriftResolvedEvent, "", why)
}

// NoteDriftWork records that a task or run was started for an open drift.
func (db *DB) NoteDriftWork(ctx context.Context, nodeID, rule, work string) error {
	return db.write(ctx, func(ctx context.Context, t *tx) error {
		_, err := t.ExecContext(ctx, `UPDATE node_maas_state SET acted_at = $1, acts = acts + 1, work = $2, last_reconciled_at = $1
			WHERE node_id = $3 AND drift_rule = $4 AND drift_detected`, sqlkit.Micros(t.now), work, nodeID, rule)
		return err
	})
}

// HealDrift closes a drift that no longer exists. A missing drift is no error.
func (db *DB) HealDrift(ctx context.Context, actor broker.Actor, nodeID, rule, why string) error {
	return db.write(ctx, func(ctx context.Context, t *tx) error {
		n, err := node(ctx, t, nodeID, t.ForUpdate())
		if err != nil {
			return err
		}
		s, _, err := maasState(ctx, t, nodeID)
		if err != nil || !s.Drift || s.Rule != rule {
			return err
		}
		if err := t.endDrift(ctx, actor, n, &s, why); err != nil {
			return err
		}
		return t.putState(ctx, s)
	})
}

// ForgetResolution deletes the resolution of a drift that has gone, so that the drift counts anew
// when it comes back.
func (db *DB) ForgetResolution(ctx context.Context, nodeID string) error {
	return db.write(ctx, func(ctx context.Context, t *tx) error {
		_, err := t.ExecContext(ctx, `UPDATE node_maas_state SET drift_rule = '' WHERE node_id = $1 AND NOT drift_detected`, nodeID)
		return err
	})
}

// ResolveDrift closes a node's open drift on a person's decision. Codes: node_not_found,
// drift_not_found.
func (db *DB) ResolveDrift(ctx context.Context, actor broker.Actor, nodeID, reason string) (s MAASState, err error) {
	err = db.write(ctx, func(ctx context.Context, t *tx) error {
		n, err := node(ctx, t, nodeID, t.ForUpdate())
		if err != nil {
			return err
		}
		if s, _, err = maasState(ctx, t, nodeID); err != nil {
			return err
		}
		if !s.Drift {
			return broker.Errorf(broker.NotFound, "drift_not_found", "node %s has no open drift (see hostler drift list)", nodeID)
		}
		if s.Rule == RulePreviousSystem {
			if err := t.known(ctx, n.ID, s); err != nil {
				return err
			}
		}
		if err := t.endDrift(ctx, actor, n, &s, reason); err != nil {
			return err
		}
		s.ReconciledAt = t.now
		return t.putState(ctx, s)
	})
	return s, err
}
