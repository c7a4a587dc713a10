package adminapi

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/taskcatalog"
)

// refusal is the key by which equal refusals are counted.
type refusal struct{ actor, code, what string }

const (
	apartTime = time.Minute
	maxApart  = 60   // refusals of one actor that are told apart by what they are about, in apartTime
	maxActors = 4096 // with a budget; further actors have none
)

// budget counts the refusals of each actor that are told apart by what they are about. Beyond the budget the actor's
// refusals are counted by action alone, so that a caller who is refused about each node of a fleet neither fills the
// audit log nor takes the place of the refusals of others. The zero value is ready.
type budget struct {
	mu    sync.Mutex
	since time.Time
	used  map[string]int
}

// take reports whether the actor has some of the budget left, and takes one.
func (b *budget) take(actor string, now time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.used == nil || now.Sub(b.since) >= apartTime {
		b.since, b.used = now, map[string]int{}
	}
	n, known := b.used[actor]
	if n >= maxApart || !known && len(b.used) >= maxActors {
		return false
	}
	b.used[actor]++
	return true
}

// auditRefusal writes a refusal to the audit log, with the route and with what the path names. Equal refusals, by
// what, are written once a minute with their number. The subject is the node that the path names, or the token.
func (a *API) auditRefusal(ctx context.Context, what string, e broker.AuditEntry) {
	e.Action, e.Subject = "request.refused", "token/"+e.Actor
	if of, ok := ctx.Value(askedKey{}).(asked); ok {
		e.After = namesOf(of)
		// Only nodes on record tell refusals apart: a caller could invent any number of names. A caller beyond
		// its budget costs no look-up either.
		if of.Path["node"] != "" && a.apart.take(e.Actor, a.c.Now()) {
			if id := a.refusedNode(ctx, of); id != "" {
				e.Subject, what = "node/"+id, what+" node/"+id
			}
		}
	}
	if a.due(ctx, what, &e) {
		a.audit(ctx, e)
	}
}

// due reports whether a refusal must be written now, and adds the number of equal refusals since
// the last row.
func (a *API) due(ctx context.Context, what string, e *broker.AuditEntry) bool {
	more, due := a.refusals.Due(refusal{e.Actor, e.Code, what}, refusal{actor: e.Actor, code: e.Code}, a.c.Now())
	if more > 0 {
		e.Reason = fmt.Sprintf("%s (and %d similar refusals since the last entry)", e.Reason, more)
	}
	if who, known := ctx.Value(callerKey{}).(caller); known && !due {
		who.origin.NoteRefused()
	}
	return due
}

// refusedAt returns a function that audits a refused start at a site and returns the refusal.
func (a *API) refusedAt(site, reason string) func(context.Context, error) error {
	return a.refusedStart("site/"+taskcatalog.Clean(site, 63), reason)
}

func (a *API) refusedStart(subject, reason string) func(context.Context, error) error {
	return func(ctx context.Context, err error) error {
		err = runError(err)
		if e := broker.AsError(err); e.Kind == broker.Refused {
			a.auditDenial(ctx, "run.start", subject, reason, e)
		}
		return err
	}
}

// reasonFor returns the cleaned reason, which is mandatory. A missing reason is refused and
// audited, because somebody tried. Code: reason_missing.
func (a *API) reasonFor(ctx context.Context, reason, action, subject, what string) (string, error) {
	if reason = taskcatalog.Clean(strings.TrimSpace(reason), 500); reason != "" {
		return reason, nil
	}
	no := broker.Errorf(broker.Invalid, "reason_missing", "cannot %s without a reason, which is recorded in the audit log (--reason R)",
		what)
	a.auditDenial(ctx, action, subject, "", no)
	return "", no
}

// auditDenial audits a refusal that happened before any transaction. Equal refusals are written
// once a minute with their number.
func (a *API) auditDenial(ctx context.Context, action, subject, reason string, no *broker.Error) {
	who := callerOf(ctx)
	e := broker.AuditEntry{
		Actor: who.Name, Action: action, Subject: subject, Code: no.Code, Reason: taskcatalog.Clean(no.Message, 1000),
		CorrelationID: who.correlationID,
	}
	what := action
	if a.apart.take(e.Actor, a.c.Now()) {
		what += " " + subject + ": " + e.Reason
	} else {
		e.Subject = "token/" + e.Actor
	}
	if !a.due(ctx, what, &e) {
		return
	}
	var err error
	if e.After, err = json.Marshal(map[string]string{"role": string(who.Role), "reason": taskcatalog.Clean(reason, 500)}); err == nil {
		err = a.c.DB.AuditRefusal(ctx, e)
	}
	if err != nil {
		a.c.Log.Error("cannot write an audit row", zap.String("action", action), zap.String("code", no.Code), zap.Error(err))
	}
}

// refusedOf audits a refused request about a node and returns the refusal.
func (a *API) refusedOf(ctx context.Context, action string, n broker.Node, why *broker.Error) error {
	a.auditDenial(ctx, action, "node/"+n.ID, "", why)
	return why
}
