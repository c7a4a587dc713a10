package store

import (
	"context"
	"time"

	"github.com/hostler/hostler/broker/store/sqlkit"
)

// StoppedRun is a run that waits for a person.
type StoppedRun struct {
	ID, Kind, Site, Subject, Stage, Class, NextAction string
	UpdatedAt                                         time.Time
}

// StoppedRuns lists up to limit runs at sites (nil: all) that do not continue by themselves, the
// longest waiting first.
func (db *DB) StoppedRuns(ctx context.Context, sites []string, limit int) ([]StoppedRun, error) {
	w := sqlkit.Where{Terms: []string{openRuns, "status IN ('failed_retryable', 'failed_manual_intervention')"}}
	sqlkit.In(&w, "site", sites)
	return sqlkit.Collect(ctx, db.reader(), func(row sqlkit.Row) (r StoppedRun, err error) {
		err = row.Scan(&r.ID, &r.Kind, &r.Site, &r.Subject, &r.Stage, &r.Class, &r.NextAction, sqlkit.ScanMicros(&r.UpdatedAt))
		return r, err
	}, `SELECT id, kind, site, subject, stage, failure_class, next_action, updated_at FROM chain_runs`+w.String()+` ORDER BY updated_at, id`+w.Limit(limit), w.Args...)
}

// OpenToken is an unused enrol token.
type OpenToken struct {
	NodeID, Hostname, Site string
	ExpiresAt              time.Time
}

// TokensExpiring lists up to limit unused enrol tokens of nodes at sites (nil: all) that expire
// before a time, including expired tokens: a node with an expired token needs a new token to enrol.
func (db *DB) TokensExpiring(ctx context.Context, sites []string, before time.Time, limit int) ([]OpenToken, error) {
	w := sqlkit.Where{Terms: []string{"k.used_at = 0", "k.void_at = 0", "n.status = 'bootstrap_issued'"}}
	w.Add("k.expires_at < ?", sqlkit.Micros(before))
	sqlkit.In(&w, "n.site", sites)
	return sqlkit.Collect(ctx, db.reader(), func(row sqlkit.Row) (o OpenToken, err error) {
		err = row.Scan(&o.NodeID, &o.Hostname, &o.Site, sqlkit.ScanMicros(&o.ExpiresAt))
		return o, err
	}, `SELECT n.id, n.hostname, n.site, k.expires_at FROM enroll_tokens k JOIN nodes n ON n.id = k.node_id`+w.String()+` ORDER BY k.expires_at, n.id`+w.Limit(limit), w.Args...)
}
