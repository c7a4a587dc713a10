package store

import (
	"context"
	"fmt"
	"strings"

	"github.com/hostler/hostler/broker"
)

// refusedKind is what makes two refusals equal.
type refusedKind struct{ actor, action, code, subject string }

// AuditRefusal writes a refusal to the audit log. Those of nodes, and of whoever
// tries to enrol, are written once a minute where they are equal, with their
// number: nobody fills the log by asking. A node chooses what it asks for, so
// its refusals are told apart by their code alone.
func (db *DB) AuditRefusal(ctx context.Context, e broker.AuditEntry) error {
	k := refusedKind{e.Actor, e.Action, e.Code, e.Subject}
	switch {
	case strings.HasPrefix(e.Actor, nodePrefix):
		k.subject = ""
	case !strings.HasPrefix(e.Actor, remotePrefix):
		return db.Audit(ctx, e)
	}
	more, due := db.refusals.Due(k, refusedKind{action: e.Action, code: e.Code}, db.Now())
	if !due {
		return nil
	}
	if more > 0 {
		e.Reason = fmt.Sprintf("%s (and %d more like it since the last entry)", e.Reason, more)
	}
	return db.Audit(ctx, e)
}
