package store

import (
	"cmp"
	"context"
	"strings"
	"sync/atomic"

	"github.com/hostler/hostler/broker"
)

// Origin is the request of an operator that audit rows come from.
type Origin struct {
	Source    string // address
	UserAgent string // the client's own claim, cleaned by the caller
	refused   atomic.Bool
}

// Refused reports whether a refusal of the request was audited, or counted as equal to an audited one.
func (o *Origin) Refused() bool { return o.refused.Load() }

// NoteRefused notes a refusal that was counted and not written.
func (o *Origin) NoteRefused() { o.refused.Store(true) }

type originKey struct{}

// WithOrigin sets the origin of every audit row that is written with the context. The row gets the site of
// its subject, too.
func WithOrigin(ctx context.Context, o *Origin) context.Context {
	return context.WithValue(ctx, originKey{}, o)
}

func originOf(ctx context.Context) *Origin {
	o, _ := ctx.Value(originKey{}).(*Origin)
	return o
}

// noteRefused notes in the origin of a context, if there is one, that a refusal was audited.
func noteRefused(ctx context.Context) {
	if o := originOf(ctx); o != nil {
		o.NoteRefused()
	}
}

// Positions of rows without a seal. A broker of a release without origins seals only rows at unsealed.
const (
	unsealed         = 0
	unsealedOfOrigin = -1
)

// sitesOf selects the site of a subject by its id, for each kind of subject that has a site.
var sitesOf = map[string]string{
	"node":       `SELECT site FROM nodes WHERE id = $12`,
	"run":        `SELECT site FROM chain_runs WHERE id = $12`,
	"task":       `SELECT n.site FROM tasks k JOIN nodes n ON n.id = k.node_id WHERE k.id = $12`,
	"terminal":   `SELECT site FROM terminal_sessions WHERE id = $12`,
	"allocation": `SELECT site FROM tenant_allocations WHERE id = $12`,
	"site":       `SELECT name FROM maas_sites WHERE name = $12`,
}

// originFields completes an audit row by the origin of its request. It returns the position of the row, and the
// statement's expression of its site with the argument.
func originFields(ctx context.Context, e *broker.AuditEntry) (position int64, site, id string) {
	if o := originOf(ctx); o != nil {
		e.Source, e.UserAgent = cmp.Or(e.Source, o.Source), cmp.Or(e.UserAgent, o.UserAgent)
		kind, of, _ := strings.Cut(e.Subject, "/")
		if query := sitesOf[kind]; query != "" && e.Site == "" {
			return unsealedOfOrigin, `COALESCE((` + query + `), '')`, of
		}
	}
	if e.Source == "" && e.UserAgent == "" && e.Site == "" {
		return unsealed, `$12`, ""
	}
	return unsealedOfOrigin, `$12`, e.Site
}
