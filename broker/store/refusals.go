package store

import (
	"context"
	"fmt"
	"strings"

	"github.com/hostler/hostler/broker"
)

// nobody is the subject of an enrolment with a token that is not known.
const nobody = "node/unknown"

// refusedKind is what makes two refusals equal.
type refusedKind struct{ actor, action, code, subject string }

// AuditRefusal writes a refusal to the audit log. A node chooses what it asks for, and
// whoever enrols with a token that was known where they come from: their refusals are told
// apart by what they cannot choose, and equal ones are written once a minute with their
// number. Who shows no token of ours is a stranger, see AuditStranger.
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
		e.Reason = fmt.Sprintf("%s (and %d more like it since the last entry)", e.Reason, more)
	}
	return db.Audit(ctx, e)
}
