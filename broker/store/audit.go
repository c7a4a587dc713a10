package store

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/store/sqlkit"
)

// AuditFilter selects audit rows; an empty field adds no condition.
type AuditFilter struct {
	Actor, Action, Subject, Code string
	CorrelationID                string
	Source, Site                 string
	From, To                     time.Time // To is exclusive
	After                        int64     // id of the previous page's last row
	Limit                        int       // 0: 100
	Newest                       bool      // newest first; After then means before
}

// SealedEntry is an audit row with its place in the chain of seals.
type SealedEntry struct {
	broker.AuditEntry
	Position int64  // from 1; 0 or less: not sealed yet
	Seal     string // hex SHA-256
}

const auditColumns = `id, at, actor, action, subject, reason, before, after, correlation_id, code, position, seal,
	source, user_agent, site`

func scanAudit(row sqlkit.Row) (SealedEntry, error) {
	var e SealedEntry
	err := row.Scan(&e.ID, sqlkit.ScanMicros(&e.At), &e.Actor, &e.Action, &e.Subject, &e.Reason, sqlkit.ScanRawJSON(&e.Before),
		sqlkit.ScanRawJSON(&e.After),
		&e.CorrelationID, &e.Code, &e.Position, &e.Seal, &e.Source, &e.UserAgent, &e.Site)
	e.Position = max(e.Position, unsealed)
	return e, err
}

// audit writes an audit row in the transaction of the audited change.
func (t *tx) audit(ctx context.Context, e broker.AuditEntry) error {
	position, site, of := originFields(ctx, &e)
	_, err := t.ExecContext(ctx, `INSERT INTO audit_logs (at, actor, action, subject, reason, before, after, correlation_id, code,
			source, user_agent, site, position) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, `+site+`, $13)`,
		sqlkit.Micros(t.now), e.Actor, e.Action, e.Subject, cmp.Or(e.Reason, reasonOf(ctx)), string(e.Before), string(e.After),
		cmp.Or(e.CorrelationID, correlationOf(ctx)), e.Code, e.Source, e.UserAgent, of, position)
	if err == nil && e.Code != "" {
		noteRefused(ctx)
	}
	return err
}

// Audit writes an audit row in its own transaction, for an event that changes nothing else in the
// store, such as a refused request or the reading of a recording.
func (db *DB) Audit(ctx context.Context, e broker.AuditEntry) error {
	return db.write(ctx, func(ctx context.Context, t *tx) error { return t.audit(ctx, e) })
}

// ListAudit returns a page; the id of the last row is the cursor of the next page.
func (db *DB) ListAudit(ctx context.Context, f AuditFilter) ([]SealedEntry, error) {
	var w sqlkit.Where
	w.Equal("actor", f.Actor)
	w.Equal("action", f.Action)
	w.Equal("subject", f.Subject)
	w.Equal("code", f.Code)
	w.Equal("correlation_id", f.CorrelationID)
	w.Equal("source", f.Source)
	w.Equal("site", f.Site)
	if !f.From.IsZero() {
		w.Add("at >= ?", sqlkit.Micros(f.From))
	}
	if !f.To.IsZero() {
		w.Add("at < ?", sqlkit.Micros(f.To))
	}
	order := "ASC"
	switch {
	case f.Newest && f.After > 0:
		w.Add("id < ?", f.After)
	case f.After > 0:
		w.Add("id > ?", f.After)
	}
	if f.Newest {
		order = "DESC"
	}
	query := `SELECT ` + auditColumns + ` FROM audit_logs` + w.String() + ` ORDER BY id ` + order + w.Limit(cmp.Or(f.Limit, 100))
	return sqlkit.Collect(ctx, db.reader(), scanAudit, query, w.Args...)
}

// entry returns a new audit row about a node.
func entry(actor broker.Actor, action, nodeID string) broker.AuditEntry {
	return broker.AuditEntry{Actor: actor.Name, Action: action, Subject: "node/" + nodeID}
}

// Prefixes of actors that are not operators.
const (
	nodePrefix   = "node:"
	remotePrefix = "remote:"
)

func nodeActor(nodeID string) broker.Actor { return broker.Actor{Name: nodePrefix + nodeID} }

// small returns a JSON object of a few plain fields, for before and after.
func small(pairs ...any) json.RawMessage {
	m := make(map[string]any, len(pairs)/2)
	for i := 0; i+1 < len(pairs); i += 2 {
		m[fmt.Sprint(pairs[i])] = pairs[i+1]
	}
	return json.RawMessage(sqlkit.JSON(m))
}
