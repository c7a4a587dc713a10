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

// Actions that a tenant may repeat as often as the tenant likes.
const (
	createAllocation     = "allocation.create"
	transitionAllocation = "allocation.transition"
)

// AuditRefusal writes a refusal to the audit log. A node chooses the subject of its requests, a client
// with a known token chooses its address, and a tenant asks as often as it likes. Their refusals are
// therefore grouped by fields that they cannot choose, and equal refusals are written once a minute
// with their number. A client without a known token is a stranger, see AuditStranger.
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
	case e.Action != createAllocation && e.Action != transitionAllocation:
		return db.Audit(ctx, e)
	}
	more, due := db.refusals.Due(k, refusedKind{action: e.Action, code: e.Code}, db.Now())
	if !due {
		noteRefused(ctx)
		return nil
	}
	if more > 0 {
		e.Reason = fmt.Sprintf("%s (and %d similar refusals since the last entry)", e.Reason, more)
	}
	return db.Audit(ctx, e)
}
