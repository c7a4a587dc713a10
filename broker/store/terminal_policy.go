package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/store/sqlkit"
)

// TerminalPolicy returns a site's policy, or nil if none is set.
func (db *DB) TerminalPolicy(ctx context.Context, site string) (policy json.RawMessage, err error) {
	return terminalPolicy(ctx, db.reader(), site)
}

func terminalPolicy(ctx context.Context, r sqlkit.Runner, site string) (policy json.RawMessage, err error) {
	err = r.QueryRowContext(ctx, `SELECT policy FROM terminal_policies WHERE site = $1`, site).Scan(sqlkit.ScanRawJSON(&policy))
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	return policy, err
}

// SetTerminalPolicy replaces a site's policy.
func (db *DB) SetTerminalPolicy(ctx context.Context, actor broker.Actor, site string, policy json.RawMessage, reason string) error {
	return db.write(ctx, func(ctx context.Context, t *tx) error {
		before, err := terminalPolicy(ctx, t, site)
		if err != nil {
			return err
		}
		if _, err := t.ExecContext(ctx, `INSERT INTO terminal_policies (site, policy, updated_at) VALUES ($1, $2, $3)
			ON CONFLICT (site) DO UPDATE SET policy = excluded.policy, updated_at = excluded.updated_at`, site, string(policy), sqlkit.Micros(t.now)); err != nil {
			return err
		}
		return t.audit(ctx, broker.AuditEntry{
			Actor: actor.Name, Action: "policy.terminal", Subject: "site/" + site, Reason: reason,
			Before: before, After: policy,
		})
	})
}

// TerminalRelay is a process that serves the relay at an address.
type TerminalRelay struct {
	Address  string
	Instance string // unique to the process
}

// BeatTerminalRelay records a relay's heartbeat. An address belongs to a single process at a time,
// until that process has been silent for the duration dead. Code: relay_address_taken.
func (db *DB) BeatTerminalRelay(ctx context.Context, r TerminalRelay, dead time.Duration) error {
	return db.write(ctx, func(ctx context.Context, t *tx) error {
		n, err := sqlkit.Changed(t.ExecContext(ctx, `INSERT INTO terminal_relays (address, instance, seen_at) VALUES ($1, $2, $3)
			ON CONFLICT (address) DO UPDATE SET instance = excluded.instance, seen_at = excluded.seen_at
			WHERE terminal_relays.instance IN ('', excluded.instance) OR terminal_relays.seen_at <= $4`, r.Address, r.Instance, sqlkit.Micros(t.now), sqlkit.Micros(t.now.Add(-dead))))
		if err == nil && n == 0 {
			err = broker.Errorf(broker.Unavailable, "relay_address_taken",
				"another broker uses the relay address %s (if that broker was just killed, retry in a few seconds; otherwise give each broker its own relay address)", r.Address)
		}
		return err
	})
}

// ForgetTerminalRelay records that a relay has released its sessions, and deletes relays not heard
// for a day.
func (db *DB) ForgetTerminalRelay(ctx context.Context, r TerminalRelay) error {
	return db.write(ctx, func(ctx context.Context, t *tx) error {
		_, err := t.ExecContext(ctx, `DELETE FROM terminal_relays WHERE address = $1 AND instance = $2 OR seen_at < $3`, r.Address,
			r.Instance, sqlkit.Micros(t.now.Add(-24*time.Hour)))
		return err
	})
}

// TerminalSites returns the sites with recordings.
func (db *DB) TerminalSites(ctx context.Context) ([]string, error) {
	return sqlkit.Collect(ctx, db.reader(), scanText,
		`SELECT DISTINCT site FROM terminal_sessions WHERE closed_at > 0 AND dropped_at = 0 ORDER BY site`)
}
