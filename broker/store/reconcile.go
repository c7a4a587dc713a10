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

// ReconcilePolicy returns a site's policy, or nil if none is set.
func (db *DB) ReconcilePolicy(ctx context.Context, site string) (json.RawMessage, error) {
	return reconcilePolicy(ctx, db.reader(), site)
}

func reconcilePolicy(ctx context.Context, r sqlkit.Runner, site string) (policy json.RawMessage, err error) {
	err = r.QueryRowContext(ctx, `SELECT policy FROM reconcile_policies WHERE site = $1`, site).Scan(sqlkit.ScanRawJSON(&policy))
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	return policy, err
}

// ChangeReconcilePolicy replaces a site's policy by the result of change; nil means no policy.
func (db *DB) ChangeReconcilePolicy(
	ctx context.Context, actor broker.Actor, site, reason string, change func(json.RawMessage) (json.RawMessage, error),
) (after json.RawMessage, err error) {
	err = db.write(ctx, func(ctx context.Context, t *tx) error {
		// The row makes concurrent changes wait; a site without a policy gets an empty row.
		if _, err := t.ExecContext(ctx,
			`INSERT INTO reconcile_policies (site, policy, updated_at) VALUES ($1, '', $2) ON CONFLICT (site) DO NOTHING`, site,
			sqlkit.Micros(t.now)); err != nil {
			return err
		}
		var before json.RawMessage
		if err := t.QueryRowContext(ctx, `SELECT policy FROM reconcile_policies WHERE site = $1`+t.ForUpdate(),
			site).Scan(sqlkit.ScanRawJSON(&before)); err != nil {
			return err
		}
		if after, err = change(before); err != nil {
			return err
		}
		if _, err := t.ExecContext(ctx, `UPDATE reconcile_policies SET policy = $1, updated_at = $2 WHERE site = $3`, string(after),
			sqlkit.Micros(t.now), site); err != nil {
			return err
		}
		return t.audit(ctx, broker.AuditEntry{
			Actor: actor.Name, Action: "policy.reconcile", Subject: "site/" + site, Reason: reason,
			Before: before, After: after,
		})
	})
	return after, err
}

// ReconcileLook is the last look at a site.
type ReconcileLook struct {
	Site                            string
	RequestedAt, LookedAt, Complete time.Time // zero: never

	Machines  int64 // in MAAS
	Unmanaged int64 // of them, machines without a node
	Nodes     int64 // bound to a machine
	Skipped   int64 // of them, in the hands of a run or owing a turnover
	Unknown   int64 // of them, not possible to judge

	Trouble string // why the look is incomplete; empty: it is complete
	Failed  int64  // incomplete looks in a row
	Stops   []ReconcileStop

	KeyAt      time.Time // when MAAS last accepted or refused the site's key; zero: never
	KeyRefused bool      // MAAS refused the key at KeyAt
}

// ReconcileStop is why nothing, or nothing of a kind, is done at a site.
type ReconcileStop struct {
	Code  string    `json:"code"`
	Text  string    `json:"text"`
	Since time.Time `json:"since"`
}

// kept is the JSON column of a look.
type kept struct {
	Machines  int64           `json:"machines"`
	Unmanaged int64           `json:"unmanaged"`
	Nodes     int64           `json:"nodes"`
	Skipped   int64           `json:"skipped"`
	Unknown   int64           `json:"unknown"`
	Trouble   string          `json:"trouble,omitempty"`
	Failed    int64           `json:"failed,omitempty"`
	Stops     []ReconcileStop `json:"stops,omitempty"`
	KeyAt     time.Time       `json:"key_at,omitzero"`
	Refused   bool            `json:"key_refused,omitempty"`
}

func scanLook(row sqlkit.Row) (l ReconcileLook, err error) {
	var k kept
	err = row.Scan(&l.Site, sqlkit.ScanMicros(&l.RequestedAt), sqlkit.ScanMicros(&l.LookedAt), sqlkit.ScanMicros(&l.Complete),
		sqlkit.ScanJSON(&k))
	l.Machines, l.Unmanaged, l.Nodes, l.Skipped, l.Unknown, l.Trouble, l.Failed, l.Stops = k.Machines, k.Unmanaged, k.Nodes, k.Skipped,
		k.Unknown, k.Trouble, k.Failed, k.Stops
	l.KeyAt, l.KeyRefused = k.KeyAt, k.Refused
	return l, err
}

const lookColumns = `site, requested_at, looked_at, complete_at, look`

// ReconcileLooks returns the last looks at sites (nil: all).
func (db *DB) ReconcileLooks(ctx context.Context, sites []string) ([]ReconcileLook, error) {
	var w sqlkit.Where
	sqlkit.In(&w, "site", sites)
	return sqlkit.Collect(ctx, db.reader(), scanLook, `SELECT `+lookColumns+` FROM reconcile_looks`+w.String()+` ORDER BY site`, w.Args...)
}

// RequestLook requests a look at a site, and returns the time of the request.
func (db *DB) RequestLook(ctx context.Context, actor broker.Actor, site string) (asked time.Time, err error) {
	err = db.write(ctx, func(ctx context.Context, t *tx) error {
		asked = t.now
		if _, err := t.ExecContext(ctx, `INSERT INTO reconcile_looks (site, requested_at) VALUES ($1, $2)
			ON CONFLICT (site) DO UPDATE SET requested_at = excluded.requested_at`, site, sqlkit.Micros(t.now)); err != nil {
			return err
		}
		return t.audit(ctx, broker.AuditEntry{Actor: actor.Name, Action: "site.reconcile", Subject: "site/" + site})
	})
	return asked, err
}

// SaveLook stores a look. A stop is announced once, and again when the stop is over.
func (db *DB) SaveLook(ctx context.Context, actor broker.Actor, l ReconcileLook) error {
	return db.write(ctx, func(ctx context.Context, t *tx) error {
		before, err := sqlkit.Collect(ctx, t, scanLook, `SELECT `+lookColumns+` FROM reconcile_looks WHERE site = $1`+t.ForUpdate(), l.Site)
		if err != nil {
			return err
		}
		var stood []ReconcileStop
		if len(before) > 0 {
			stood = before[0].Stops
		}
		same := func(a ReconcileStop) func(ReconcileStop) bool {
			return func(b ReconcileStop) bool { return a.Code == b.Code }
		}
		for i, s := range l.Stops {
			if at := slices.IndexFunc(stood, same(s)); at >= 0 {
				l.Stops[i].Since = stood[at].Since
				continue
			}
			if err := t.tellStop(ctx, actor, l.Site, ReconcileStoppedEvent, s); err != nil {
				return err
			}
		}
		for _, s := range stood {
			if !slices.ContainsFunc(l.Stops, same(s)) {
				if err := t.tellStop(ctx, actor, l.Site, ReconcileResumedEvent, s); err != nil {
					return err
				}
			}
		}
		k := kept{l.Machines, l.Unmanaged, l.Nodes, l.Skipped, l.Unknown, l.Trouble, l.Failed, l.Stops, l.KeyAt, l.KeyRefused}
		_, err = t.ExecContext(ctx, `INSERT INTO reconcile_looks (site, looked_at, complete_at, look) VALUES ($1, $2, $3, $4)
			ON CONFLICT (site) DO UPDATE SET looked_at = excluded.looked_at, complete_at = excluded.complete_at, look = excluded.look`,
			l.Site, sqlkit.Micros(l.LookedAt), sqlkit.Micros(l.Complete), sqlkit.JSON(k))
		return err
	})
}

func (t *tx) tellStop(ctx context.Context, actor broker.Actor, site, kind string, s ReconcileStop) error {
	err := t.send(ctx,
		told{Site: site, Message: chain.Message{
			Type: kind, Subject: "site/" + site,
			Data: map[string]any{"site": site, "code": s.Code, "text": s.Text, "since": s.Since},
		}})
	if err != nil {
		return err
	}
	return t.audit(ctx, broker.AuditEntry{Actor: actor.Name, Action: kind, Subject: "site/" + site, Code: s.Code, Reason: s.Text})
}
