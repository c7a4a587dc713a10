package adminapi

import (
	"bytes"
	"context"
	"net/netip"
	"strconv"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"go.uber.org/zap"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/store"
	"github.com/hostler/hostler/taskcatalog"
)

type auditInput struct {
	Node   string `query:"node" maxLength:"320"`
	Actor  string `query:"actor" maxLength:"100"`
	Action string `query:"action" maxLength:"64"`
	OriginInput
	From   time.Time `query:"from"`
	To     time.Time `query:"to" doc:"end of the period, exclusive"`
	Cursor string    `query:"cursor" maxLength:"20"`
	Limit  int       `query:"limit" minimum:"0" maximum:"1000"`
}

// OriginInput selects audit rows by the request that wrote them. The type is exported because huma ignores
// embedded structs with unexported names.
type OriginInput struct {
	Source string `query:"source" maxLength:"45" doc:"address of the sender of the request"`
	Site   string `query:"site" maxLength:"63" doc:"site of what the request was about"`
}

// into sets the conditions of a filter. Code: source_invalid.
func (in OriginInput) into(f *store.AuditFilter) error {
	f.Site = in.Site
	if in.Source == "" {
		return nil
	}
	at, err := netip.ParseAddr(in.Source)
	if err != nil {
		return broker.Errorf(broker.Invalid, "source_invalid", "cannot look for source %q: write an IP address",
			taskcatalog.Clean(in.Source, 45))
	}
	f.Source = at.Unmap().String()
	return nil
}

func (a *API) listAudit(ctx context.Context, in *auditInput) (*api.AuditList, error) {
	f := store.AuditFilter{Actor: in.Actor, Action: in.Action, From: in.From, To: in.To, Newest: true}
	var err error
	if f.Subject, err = a.auditSubject(ctx, in.Node); err != nil {
		return nil, err
	}
	if err := in.into(&f); err != nil {
		return nil, err
	}
	if in.Cursor != "" {
		if f.After, err = strconv.ParseInt(in.Cursor, 10, 64); err != nil || f.After < 1 {
			return nil, broker.Errorf(broker.Invalid, "cursor_invalid",
				"cannot continue at cursor %q: the cursor does not come from this list", taskcatalog.Clean(in.Cursor, 20))
		}
	}
	limit := pageLimit(in.Limit)
	f.Limit = limit + 1
	rows, err := a.c.DB.ListAudit(ctx, f)
	if err != nil {
		return nil, err
	}
	page, next := firstOf(rows, limit, func(e store.SealedEntry) string { return strconv.FormatInt(e.ID, 10) })
	out := &api.AuditList{Items: make([]api.AuditEntry, len(page)), Next: next}
	for i, e := range page {
		out.Items[i] = auditResource(e)
	}
	return out, nil
}

// auditSubject narrows the log to a node. A token bound to sites reads only the rows of the nodes
// of its sites.
func (a *API) auditSubject(ctx context.Context, ref string) (string, error) {
	who := callerOf(ctx)
	if ref == "" {
		if who.sites() != nil {
			return "", broker.Errorf(broker.Forbidden, "site_forbidden",
				"cannot read the whole audit log: token %s is bound to sites (name a node of one of these sites)", who.Name)
		}
		return "", nil
	}
	n, err := a.node(ctx, ref)
	return "node/" + n.ID, err
}

func (a *API) verifyAudit(ctx context.Context, _ *none) (*api.AuditVerification, error) {
	r, err := a.walk.report(ctx)
	if err != nil {
		return nil, err
	}
	out := &api.AuditVerification{OK: r.Fault == nil, Rows: r.Sealed, Unsealed: r.Unsealed}
	if r.Fault != nil {
		out.BrokenAt, out.Problem = r.Fault.ID, r.Fault.Code+": "+r.Fault.Message
	}
	if r.LastHead != nil {
		out.HeadID, out.Head, out.KeyID = r.LastHead.Position, r.LastHead.Seal, r.LastHead.KeyID
	}
	return out, nil
}

type exportInput struct {
	Node string `query:"node" maxLength:"320"`
	OriginInput
	From time.Time `query:"from"`
	To   time.Time `query:"to" doc:"end of the period, exclusive"`
}

const exportPage = 1000

// exportAudit writes the rows oldest first, a page at a time. The first page is read before the
// status is sent. If a later page cannot be read, the connection is broken, so that a partial log
// is not mistaken for a whole log.
func (a *API) exportAudit(ctx context.Context, in *exportInput) (*huma.StreamResponse, error) {
	f := store.AuditFilter{From: in.From, To: in.To, Limit: exportPage}
	var err error
	if f.Subject, err = a.auditSubject(ctx, in.Node); err != nil {
		return nil, err
	}
	if err := in.into(&f); err != nil {
		return nil, err
	}
	page, err := a.c.DB.ListAudit(ctx, f)
	if err != nil {
		return nil, err
	}
	return &huma.StreamResponse{Body: func(hc huma.Context) {
		hc.SetHeader("Content-Type", linesType)
		for {
			var lines bytes.Buffer
			for _, e := range page {
				if err := encode(&lines, auditResource(e)); err != nil {
					a.abortStream(err)
				}
				lines.WriteByte('\n')
			}
			if _, err := hc.BodyWriter().Write(lines.Bytes()); err != nil || len(page) < exportPage {
				return
			}
			f.After = page[len(page)-1].ID
			if page, err = a.c.DB.ListAudit(ctx, f); err != nil {
				a.abortStream(err)
			}
		}
	}}, nil
}

// abortStream aborts a stream so that its reader sees that the stream is incomplete.
func (a *API) abortStream(err error) {
	a.c.Log.Error("an export was interrupted", zap.Error(err))
	panic(errBroken)
}

func auditResource(e store.SealedEntry) api.AuditEntry {
	return api.AuditEntry{
		ID: e.ID, At: e.At, Actor: e.Actor, Action: e.Action, Subject: e.Subject, Reason: e.Reason,
		Before: e.Before, After: e.After, CorrelationID: e.CorrelationID, Code: e.Code, Position: e.Position, Seal: e.Seal,
		Source: e.Source, UserAgent: e.UserAgent, Site: e.Site,
	}
}
