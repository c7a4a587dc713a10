package store

import (
	"context"
	"database/sql"
	"errors"
	"time"
)

// leadSilence is how long the leader's connection may be idle before its process counts as gone. A
// leader runs a statement every two seconds.
const leadSilence = time.Minute

// LeadHolder is the connection that holds the leader's lock.
type LeadHolder struct {
	PID    int64  // of the database server's process
	From   string // the address of the client; empty: a socket on the server's machine
	Silent time.Duration
}

// Orphaned reports whether a dead process holds the lock. No broker leads then: nothing is swept,
// sealed or begun until the connection is ended.
func (h LeadHolder) Orphaned() bool { return h.PID != 0 && h.Silent > leadSilence }

// LeadHolder returns the holder of the leader's lock. PID 0 means no holder; SQLite always returns
// PID 0, because the process itself leads.
func (db *DB) LeadHolder(ctx context.Context) (LeadHolder, error) { return db.engine.leadHolder(ctx) }

func (e *sqliteEngine) leadHolder(context.Context) (LeadHolder, error) { return LeadHolder{}, nil }

func (e *postgresEngine) leadHolder(ctx context.Context) (h LeadHolder, err error) {
	var seconds float64
	err = e.pool.QueryRowContext(ctx,
		`SELECT a.pid, COALESCE(host(a.client_addr), ''), CASE WHEN a.state = 'active' THEN 0 ELSE COALESCE(EXTRACT(EPOCH FROM clock_timestamp() - a.state_change), 0) END
		FROM pg_locks l JOIN pg_stat_activity a ON a.pid = l.pid
		WHERE l.locktype = 'advisory' AND l.granted AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
			AND l.objsubid = 1 AND l.mode = 'ExclusiveLock' AND (l.classid::bigint << 32) | l.objid::bigint = $1`, int64(leadLock)).
		Scan(&h.PID, &h.From, &seconds)
	if errors.Is(err, sql.ErrNoRows) {
		return LeadHolder{}, nil
	}
	h.Silent = time.Duration(seconds * float64(time.Second))
	return h, err
}
