package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/store/sqlkit"
	"github.com/hostler/hostler/taskcatalog"
)

// TerminalTicket lets one operator into one session, once. The ticket itself is not stored.
type TerminalTicket struct {
	Hash      string
	SessionID string
	Operator  string // name of the only token that may show the ticket
	Width     int    // of the operator's terminal, in characters
	Height    int
	Expires   time.Time
}

// ticketsKept is how long a ticket is remembered after its expiry, so that its refusal can name the
// cause.
const ticketsKept = time.Hour

// AddTerminalTicket stores a ticket. Codes: terminal_session_not_found, terminal_session_over.
func (db *DB) AddTerminalTicket(ctx context.Context, actor broker.Actor, k TerminalTicket) error {
	return db.write(ctx, func(ctx context.Context, t *tx) error {
		s, err := terminal(ctx, t, k.SessionID, t.ForUpdate())
		if err != nil {
			return err
		}
		if s.Status.Over() {
			return terminalOver(s)
		}
		if _, err := t.ExecContext(ctx, `DELETE FROM terminal_tickets WHERE expires_at < $1`,
			sqlkit.Micros(t.now.Add(-ticketsKept))); err != nil {
			return err
		}
		if _, err := t.ExecContext(ctx,
			`INSERT INTO terminal_tickets (hash, session_id, operator, width, height, expires_at) VALUES ($1, $2, $3, $4, $5, $6)`,
			k.Hash, k.SessionID, k.Operator, k.Width, k.Height, sqlkit.Micros(k.Expires)); err != nil {
			return err
		}
		e := terminalEntry(actor, "terminal.ticket", s)
		e.After = small("opened_by", s.OpenedBy)
		return t.audit(ctx, e)
	})
}

// UseTerminalTicket lets an operator in with the ticket of that hash, once, audited and announced.
// A refusal is audited as an attack. Codes: terminal_ticket_unknown,
// terminal_ticket_wrong_operator, terminal_ticket_wrong_session, terminal_ticket_used,
// terminal_ticket_expired, terminal_session_over.
func (db *DB) UseTerminalTicket(ctx context.Context, actor broker.Actor, sessionID, hash string) (k TerminalTicket, err error) {
	err = db.write(ctx, func(ctx context.Context, t *tx) error {
		e := broker.AuditEntry{Actor: actor.Name, Action: "terminal.attack", Subject: "terminal/" + taskcatalog.Clean(sessionID, 60)}
		no := func(code, format string, args ...any) error {
			return refuse(broker.Errorf(broker.Forbidden, code,
				"cannot join terminal session %s: %s (get a new ticket: hostler terminal attach)", taskcatalog.Clean(sessionID, 60),
				fmt.Sprintf(format, args...)), e)
		}
		var used time.Time
		k = TerminalTicket{Hash: hash}
		err := t.QueryRowContext(ctx,
			`SELECT session_id, operator, width, height, expires_at, used_at FROM terminal_tickets WHERE hash = $1`+t.ForUpdate(), hash).
			Scan(&k.SessionID, &k.Operator, &k.Width, &k.Height, sqlkit.ScanMicros(&k.Expires), sqlkit.ScanMicros(&used))
		switch {
		case errors.Is(err, sql.ErrNoRows):
			return no("terminal_ticket_unknown", "the ticket is unknown")
		case err != nil:
			return err
		case k.Operator != actor.Name:
			return no("terminal_ticket_wrong_operator", "the ticket belongs to another operator")
		case k.SessionID != sessionID:
			return no("terminal_ticket_wrong_session", "the ticket is for another session")
		case !used.IsZero():
			return no("terminal_ticket_used", "the ticket was already used")
		case !t.now.Before(k.Expires):
			return no("terminal_ticket_expired", "the ticket expired at %s", k.Expires.UTC().Format(time.RFC3339))
		}
		s, err := terminal(ctx, t, sessionID, t.ForUpdate())
		if err != nil {
			return err
		}
		if s.Status.Over() {
			return terminalOver(s)
		}
		if _, err = t.ExecContext(ctx, `UPDATE terminal_tickets SET used_at = $2 WHERE hash = $1`, hash, sqlkit.Micros(t.now)); err != nil {
			return err
		}
		entry := terminalEntry(actor, "terminal.join", s)
		entry.After = small("opened_by", s.OpenedBy)
		if err := t.tellTerminal(ctx, TerminalJoinedEvent, s, map[string]any{"by": actor.Name}); err != nil {
			return err
		}
		return t.audit(ctx, entry)
	})
	return k, err
}
