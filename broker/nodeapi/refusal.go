package nodeapi

import (
	"cmp"
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

// refusal is a refused request or connection.
type refusal struct {
	code, action, subject, reason string
	actor                         string // empty: a stranger
	remote                        string
}

// refusals writes the refusals of nodes to the audit log, equal ones once a minute. The remote
// address does not distinguish refusals, because whoever has the node's key can use any address.
type refusals struct {
	seen broker.Repeats[refusal] // without reason and remote
}

// record writes a refusal or counts it.
func (s *refusals) record(a *API, r refusal) {
	stranger := r.actor == ""
	if !stranger {
		more, due := s.seen.Due(refusal{code: r.code, action: r.action, subject: r.subject, actor: r.actor}, refusal{code: r.code},
			a.c.Now())
		if !due {
			return
		}
		if more > 0 {
			r.reason = fmt.Sprintf("%s (and %d similar refusals since the last entry)", r.reason, more)
		}
	}
	if r.remote != "" {
		r.reason += ", from " + r.remote
	}
	ctx, done := context.WithTimeout(context.Background(), auditTimeout)
	defer done()
	e := broker.AuditEntry{
		At: a.c.Now(), Actor: cmp.Or(r.actor, "unknown"), Action: r.action, Subject: r.subject,
		Reason: taskcatalog.Clean(r.reason, taskcatalog.MaxText), Code: r.code,
	}
	var err error
	if stranger {
		err = a.c.DB.AuditStranger(ctx, e, r.remote)
	} else {
		err = a.c.DB.Audit(ctx, e)
	}
	if err != nil {
		a.c.Log.Error("cannot audit a refusal", zap.String("code", r.code), zap.String("subject", r.subject),
			zap.String("remote", r.remote), zap.Error(err))
	}
}

// refusalOf describes a refused request.
func refusalOf(c *call, e *broker.Error) refusal {
	r := refusal{code: e.Code, action: "request.refused", subject: "route/" + c.r.Pattern, reason: e.Message, remote: remoteHost(c.r)}
	if c.peer != nil {
		r.actor, r.subject = "node:"+c.peer.NodeID, "node/"+c.peer.NodeID
	}
	return r
}

// remoteHost is the address of the peer, without the port. Nodes reach the broker directly, so
// headers about addresses are not trusted.
func remoteHost(r *http.Request) string { return hostOf(r.RemoteAddr) }

func hostOf(address string) string {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return "unknown"
	}
	return host
}
