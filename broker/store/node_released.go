package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/store/sqlkit"
)

// DenyReleased is the deny reason of a node's certificates after its machine was given back to
// MAAS.
const DenyReleased = "machine_released"

// DenyKnown is the deny reason of released certificates that a person has acknowledged: a request
// with such a certificate is refused, without an alert.
const DenyKnown = "machine_released_known"

// RulePreviousSystem is the drift of a node whose former system is heard again.
const RulePreviousSystem = "previous_os_alive"

// shownEvery is the minimum interval between two records that a former system is alive.
const shownEvery = time.Minute

// CutOff withdraws a node's means to act, because its machine is about to be given back: its
// certificates are denied, its open token becomes void, and its open tasks fail with node_released.
// A repeated call changes nothing more.
func (db *DB) CutOff(ctx context.Context, actor broker.Actor, u Turnover) error {
	return db.write(ctx, func(ctx context.Context, t *tx) error {
		n, err := node(ctx, t, u.NodeID, t.ForUpdate())
		if err != nil {
			return err
		}
		had, err := sqlkit.Changed(t.ExecContext(ctx, `INSERT INTO releases (node_id, run_id, cut_at) VALUES ($1, $2, $3)
			ON CONFLICT (node_id) DO UPDATE SET run_id = excluded.run_id, cut_at = excluded.cut_at, wiped_at = 0, shown_at = 0, serial = '', remote = ''
			WHERE releases.run_id <> excluded.run_id OR releases.wiped_at > 0`, n.ID, u.RunID, sqlkit.Micros(t.now)))
		if err != nil || had == 0 {
			return err
		}
		if err := t.denyWhere(ctx, DenyReleased, `node_id = $3`, n.ID); err != nil {
			return err
		}
		if err := t.shutRestored(ctx, n.ID); err != nil {
			return err
		}
		if _, err := t.ExecContext(ctx, `UPDATE enroll_tokens SET void_at = $1 WHERE node_id = $2 AND consumed_at = 0 AND void_at = 0`,
			sqlkit.Micros(t.now), n.ID); err != nil {
			return err
		}
		if err := t.failOpen(ctx, actor, n.ID, n.Epoch+1, "node_released"); err != nil {
			return err
		}
		e := entry(actor, "node.cut_off", n.ID)
		e.Reason, e.CorrelationID, e.Before = u.Reason, u.RunID, small("epoch", n.Epoch)
		return t.audit(ctx, e)
	})
}

// Wiped records that MAAS has a node's machine back: the machine's users are gone. A system that
// shows an earlier certificate from then on should no longer exist.
func (db *DB) Wiped(ctx context.Context, actor broker.Actor, u Turnover) error {
	return db.write(ctx, func(ctx context.Context, t *tx) error {
		n, err := node(ctx, t, u.NodeID, t.ForUpdate())
		if err != nil {
			return err
		}
		first, err := sqlkit.Changed(t.ExecContext(ctx,
			`UPDATE releases SET wiped_at = $1 WHERE node_id = $2 AND run_id = $3 AND wiped_at = 0`, sqlkit.Micros(t.now), n.ID, u.RunID))
		if err != nil || first == 0 {
			return err
		}
		if _, err := t.ExecContext(ctx, `UPDATE allocations SET ended_at = $1 WHERE node_id = $2 AND ended_at = 0`, sqlkit.Micros(t.now),
			n.ID); err != nil {
			return err
		}
		if err := t.forgetImage(ctx, n.ID); err != nil {
			return err
		}
		t.hint(HintNode, n.ID)
		e := entry(actor, "node.wiped", n.ID)
		e.Reason, e.CorrelationID = u.Reason, u.RunID
		return t.audit(ctx, e)
	})
}

// Release is the last return of a node's machine, and the last contact of its former system since.
type Release struct {
	RunID          string
	WipedAt        time.Time
	ShownAt        time.Time // zero: never
	Serial, Remote string
}

// LastRelease reads the last release; false: the machine was never given back.
func (db *DB) LastRelease(ctx context.Context, nodeID string) (Release, bool, error) {
	return lastRelease(ctx, db.reader(), nodeID)
}

func lastRelease(ctx context.Context, r sqlkit.Runner, nodeID string) (rel Release, had bool, err error) {
	err = r.QueryRowContext(ctx, `SELECT run_id, wiped_at, shown_at, serial, remote FROM releases WHERE node_id = $1`, nodeID).
		Scan(&rel.RunID, sqlkit.ScanMicros(&rel.WipedAt), sqlkit.ScanMicros(&rel.ShownAt), &rel.Serial, &rel.Remote)
	if errors.Is(err, sql.ErrNoRows) {
		return rel, false, nil
	}
	return rel, err == nil, err
}

// PreviousSystem handles a request with a certificate from before a node's machine was given back.
// Before MAAS had the machine, the system was still running. Afterwards the system should no longer
// exist: a drift is announced once, is recorded at most once a minute, and keeps the node from use.
// A run that has the node stops because of the drift.
func (db *DB) PreviousSystem(ctx context.Context, nodeID, serial, remote string) error {
	rel, had, err := db.LastRelease(ctx, nodeID)
	if err != nil || !had || rel.WipedAt.IsZero() || db.Now().Sub(rel.ShownAt) < shownEvery {
		return err
	}
	return db.write(ctx, func(ctx context.Context, t *tx) error {
		n, err := node(ctx, t, nodeID, t.ForUpdate())
		if err != nil {
			return err
		}
		rel, had, err := lastRelease(ctx, t, nodeID)
		if err != nil || !had || rel.WipedAt.IsZero() || t.now.Sub(rel.ShownAt) < shownEvery {
			return err
		}
		if _, err := t.ExecContext(ctx, `UPDATE releases SET shown_at = $1, serial = $2, remote = $3 WHERE node_id = $4`,
			sqlkit.Micros(t.now), serial, remote, nodeID); err != nil {
			return err
		}
		return t.recordPreviousSystem(ctx, n, rel, serial, remote)
	})
}

// known records a person's acknowledgement of the keys with which a node's former system was heard:
// later requests with these keys raise no alert. Otherwise anybody with a copy of a key could hold
// the machine for as long as the certificate would have lasted. Other keys of the former system
// still raise an alert.
func (t *tx) known(ctx context.Context, nodeID string, s MAASState) error {
	var d struct {
		Serial string `json:"serial"`
	}
	if len(s.Details) > 0 {
		if err := json.Unmarshal(s.Details, &d); err != nil {
			return err
		}
	}
	rel, _, err := lastRelease(ctx, t, nodeID)
	if err != nil {
		return err
	}
	serials, err := sqlkit.Collect(ctx, t, scanText, `UPDATE certificates SET deny_reason = $1 WHERE node_id = $2 AND deny_reason = $3
		AND key_digest IN (SELECT key_digest FROM certificates WHERE node_id = $2 AND serial IN ($4, $5)) RETURNING serial`, DenyKnown, nodeID, DenyReleased, d.Serial, rel.Serial)
	for _, serial := range serials {
		t.hint(HintDeny, serial)
	}
	return err
}

// recordPreviousSystem records the drift, and quarantines a node that tenants could be on.
func (t *tx) recordPreviousSystem(ctx context.Context, n broker.Node, rel Release, serial, remote string) error {
	system := broker.Actor{Name: "system"}
	text := fmt.Sprintf("the previous OS is still running: certificate %s, issued before the machine was returned to MAAS (run %s), was presented from %s", serial, rel.RunID, remote)
	s, _, err := maasState(ctx, t, n.ID)
	if err != nil {
		return err
	}
	if !s.Drift || s.Rule != RulePreviousSystem {
		if s.Drift {
			if err := t.endDrift(ctx, system, n, &s, "replaced by drift "+RulePreviousSystem); err != nil {
				return err
			}
		}
		s.NodeID, s.SystemID, s.Drift, s.Rule, s.Severity, s.FirstSeen = n.ID, n.MAASSystemID, true, RulePreviousSystem, "critical", t.now
		s.Details, _ = json.Marshal(map[string]string{"serial": serial, "remote": remote, "run_id": rel.RunID})
		s.ActedAt, s.Acts, s.Work, s.ResolvedAt, s.ResolvedBy, s.Resolution = time.Time{}, 0, "", time.Time{}, "", ""
		if err := t.tellDrift(ctx, system, n, s, DriftDetectedEvent, "critical", text); err != nil {
			return err
		}
	}
	if n.Status == broker.Active || n.Status == broker.Offline {
		if _, err := t.transition(ctx, system, n.ID, Change{
			From: n.Status, To: broker.Quarantined, By: broker.OwnerReconciler,
			OweTurnover: true, Reason: RulePreviousSystem + ": " + text,
		}); err != nil {
			return err
		}
		s.ActedAt, s.Acts = t.now, s.Acts+1
	}
	return t.putState(ctx, s)
}
