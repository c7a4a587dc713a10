package store

import (
	"context"
	"fmt"
	"strings"

	"github.com/hostler/hostler/broker"
)

// nobody is the subject of an enrolment with an unknown token.
const nobody = "node/unknown"

// refusedKind is the key of equal refusals.
type refusedKind struct{ actor, action, code, subject string }

// AuditRefusal writes a refusal to the audit log. A node chooses the subject of its requests, and a
// client with a known token chooses its address. Their refusals are therefore grouped by fields
// that they cannot choose, and equal refusals are written once a minute with their number. A client
// without a known token is a stranger, see AuditStranger.
func (db *DB) AuditRefusal(ctx context.Context, e broker.AuditEntry) error {
	k := refusedKind{e.Actor, e.Action, e.Code, e.Subject}
	remote, enrols := strings.CutPrefix(e.Actor, remotePrefix)
	switch {
	case strings.HasPrefix(e.Actor, nodePrefix):
		k.subject = ""
	case enrols && e.Subject == nobody:
		return db.AuditStranger(ctx, e, remote)
	case enrols:
		k.actor = remotePrefix
	default:
		return db.Audit(ctx, e)
	}
	more, due := db.refusals.Due(k, refusedKind{action: e.Action, code: e.Code}, db.Now())
	if !due {
		return nil
	}
	if more > 0 {
		e.Reason = fmt.Sprintf("%s (and %d similar refusals since the last entry)", e.Reason, more)
	}
	return db.Audit(ctx, e)
}
