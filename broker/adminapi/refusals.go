package adminapi

import (
	"context"
	"fmt"

	"github.com/hostler/hostler/broker"
)

// refusal is what makes two of them equal.
type refusal struct{ actor, code, what string }

// auditRefusal writes a refusal to the audit log: equal ones, by what, once a
// minute with their number.
func (a *API) auditRefusal(ctx context.Context, what string, e broker.AuditEntry) {
	more, due := a.refusals.Due(refusal{e.Actor, e.Code, what}, refusal{code: e.Code}, a.c.Now())
	if !due {
		return
	}
	if more > 0 {
		e.Reason = fmt.Sprintf("%s (and %d more like it since the last entry)", e.Reason, more)
	}
	e.Action, e.Subject = "request.refused", "token/"+e.Actor
	a.audit(ctx, e)
}
