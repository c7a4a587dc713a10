package nodeapi

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"time"

	"go.uber.org/zap"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/taskcatalog"
)

const auditTimeout = 5 * time.Second

// refusal is one request, or connection, that was not let through.
type refusal struct {
	code, action, subject, reason string
	actor, remote                 string
}

// refusals writes them to the audit log, equal ones once a minute.
type refusals struct {
	seen broker.Repeats[refusal] // without reason
}

// record writes a refusal, or counts it.
func (s *refusals) record(a *API, r refusal) {
	kind := r
	kind.reason = ""
	more, due := s.seen.Due(kind, refusal{code: r.code}, a.c.Now()) // in a flood, addresses are not kept apart
	if !due {
		return
	}
	if more > 0 {
		r.reason = fmt.Sprintf("%s (and %d more like it since the last entry)", r.reason, more)
	}
	if r.actor == "" {
		r.actor = "unknown"
	}
	if r.remote != "" {
		r.reason += ", from " + r.remote
	}
	ctx, done := context.WithTimeout(context.Background(), auditTimeout)
	defer done()
	err := a.c.DB.Audit(ctx, broker.AuditEntry{
		At: a.c.Now(), Actor: r.actor, Action: r.action, Subject: r.subject, Reason: taskcatalog.Clean(r.reason, taskcatalog.MaxText), Code: r.code,
	})
	if err != nil {
		a.c.Log.Error("cannot audit a refusal", zap.String("code", r.code), zap.String("subject", r.subject), zap.String("remote", r.remote), zap.Error(err))
	}
}

// refusalOf describes a request that was refused.
func refusalOf(c *call, e *broker.Error) refusal {
	r := refusal{code: e.Code, action: "request.refused", subject: "route/" + c.r.Pattern, reason: e.Message, remote: remoteHost(c.r)}
	if c.peer != nil {
		r.actor, r.subject = "node:"+c.peer.NodeID, "node/"+c.peer.NodeID
	} else if c.r.TLS != nil && len(c.r.TLS.PeerCertificates) > 0 {
		r.subject = subjectOf(*c.r.TLS)
	}
	return r
}

// remoteHost is the address of the peer, without the port. Nodes reach the
// broker directly: what a header says of an address is not believed.
func remoteHost(r *http.Request) string {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return "unknown"
	}
	return host
}
