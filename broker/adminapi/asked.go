package adminapi

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	"go.uber.org/zap"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/taskcatalog"
	"github.com/hostler/hostler/taskcatalog/lazyregexp"
)

// asked is what a request asks for, as the audit row of its refusal names it.
type asked struct {
	Route string            `json:"route"`          // method and path of the table
	Path  map[string]string `json:"path,omitempty"` // what the path names, in the caller's words
}

type askedKey struct{}

var pathName = lazyregexp.New(`\{([a-z_]+)\}`)

func askedOf(hc huma.Context) asked {
	op := hc.Operation()
	a := asked{Route: op.Method + " " + strings.TrimPrefix(op.Path, api.TenantPrefix), Path: map[string]string{}}
	for _, m := range pathName.FindAllStringSubmatch(op.Path, -1) {
		a.Path[m[1]] = taskcatalog.Clean(hc.Param(m[1]), 100)
	}
	return a
}

// refusedNode returns the id of the node that a refused request of the platform names, if the caller may see that node.
// The time of a look-up would tell tenants which nodes there are.
func (a *API) refusedNode(ctx context.Context, what asked) string {
	ref := what.Path["node"]
	who, known := ctx.Value(callerKey{}).(caller)
	if ref == "" || !known || !who.Place.OfPlatform() {
		return ""
	}
	n, err := a.node(ctx, ref)
	if err != nil {
		return ""
	}
	return n.ID
}

// auditRefused audits an answer of 403, or of 409 to a change, unless the handler or the store has audited the
// refusal. Equal refusals about a node are written once a minute with their number.
func (a *API) auditRefused(ctx context.Context, err error) {
	e := broker.AsError(err)
	what, _ := ctx.Value(askedKey{}).(asked)
	changes := !strings.HasPrefix(what.Route, http.MethodGet+" ")
	who := callerOf(ctx)
	if e.Kind != broker.Forbidden && (e.Kind != broker.Refused || !changes) || who.origin.Refused() {
		return
	}
	a.auditRefusal(ctx, what.Route, broker.AuditEntry{
		Actor: who.Name, Code: e.Code, Reason: taskcatalog.Clean(e.Message, 1000), CorrelationID: who.correlationID,
	})
}

// auditStranger audits a request with a wrong token, or with none. store.DB.AuditStranger bounds the rows.
func (a *API) auditStranger(ctx context.Context, r *http.Request, p *problem) {
	from := a.originOf(r)
	e := broker.AuditEntry{
		At: a.c.Now(), Actor: "unknown", Action: "token.refused", Subject: "strangers", Code: p.Code,
		Reason: taskcatalog.Clean(r.Method+" "+r.URL.Path, 300), Source: from.Source, UserAgent: from.UserAgent,
	}
	if err := a.c.DB.AuditStranger(ctx, e, from.Source); err != nil {
		a.c.Log.Error("cannot audit a request with a wrong token", zap.String("code", p.Code), zap.Error(err))
	}
}

// namesOf is what a refusal is about, for its audit row.
func namesOf(what asked) json.RawMessage {
	text, err := json.Marshal(what)
	if err != nil { // text alone
		return nil
	}
	return text
}
