package store

import (
	"context"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/store/sqlkit"
)

// oldTerminal is the condition for deleting a session: closed long ago, known as over by its node,
// and without blocks of a recording. A session whose recording had an end and was not dropped by
// its site's policy stays, with or without blocks: a person must be able to see that the blocks are
// gone.
func (h History) oldTerminal(s string) string {
	return ruled("s", s, `{s}.status = 'closed' AND {s}.node_told AND ({s}.dropped_at > 0 OR {s}.recorded_at = 0)`,
		`NOT EXISTS (SELECT 1 FROM recording_blocks b WHERE b.session_id = {s}.id)`)
}

// DropTerminals is DropTasks for terminal sessions, with their tickets.
func (db *DB) DropTerminals(ctx context.Context, h History, after HistoryPage, limit int) (next *HistoryPage, err error) {
	return db.dropOld(ctx, dropped{
		table: "terminal_sessions", ended: "closed_at", rule: h.oldTerminal("o"), action: "terminal.dropped",
		with: []string{`DELETE FROM terminal_tickets WHERE session_id = $1`, `DELETE FROM terminal_sessions WHERE id = $1`},
	}, h.Before, after, limit)
}

// DropHolds deletes holds lifted before a time, unless an unended run existed during the hold: the
// clocks of that run's stages stood still meanwhile. It deletes at most limit holds, audited, and
// returns their number.
func (db *DB) DropHolds(ctx context.Context, before time.Time, limit int) (dropped int64, err error) {
	err = db.write(ctx, func(ctx context.Context, t *tx) error {
		dropped, err = sqlkit.Changed(t.ExecContext(ctx,
			`DELETE FROM chain_holds WHERE id IN (SELECT h.id FROM chain_holds h WHERE h.until_at > 0 AND h.until_at < $1
			AND NOT EXISTS (SELECT 1 FROM chain_runs r WHERE r.`+openRuns+
				` AND h.site IN ('', r.site) AND r.requested_at < h.until_at) ORDER BY h.id LIMIT $2)`, sqlkit.Micros(before), limit))
		if err != nil || dropped == 0 {
			return err
		}
		return t.audit(ctx, broker.AuditEntry{
			Actor: "system", Action: "hold.dropped", Subject: "chain_holds",
			After: small("chain_holds", dropped, "lifted_before", before.UTC().Format(time.RFC3339)),
		})
	})
	return dropped, err
}
