package nodeapi

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/taskcatalog"
)

const (
	refusalsEvery = time.Minute // equal ones are written once in this time
	maxRefusals   = 4096        // kinds kept apart; more are counted as one
	auditTimeout  = 5 * time.Second
)

// refusal is one request, or connection, that was not let through.
type refusal struct {
	code, action, subject, reason string
	actor, remote                 string
}

// refusals writes them to the audit log, equal ones once a minute.
type refusals struct {
	mu   sync.Mutex
	seen map[refusal]*repeats // without reason
}

type repeats struct {
	writtenAt time.Time
	more      int // since then
}

func newRefusals() refusals { return refusals{seen: map[refusal]*repeats{}} }

// record writes a refusal, or counts it.
func (s *refusals) record(a *API, r refusal) {
	more, due := s.due(r, a.c.Now())
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

// due reports whether a refusal is to be written now, and how many equal ones
// were not.
func (s *refusals) due(r refusal, now time.Time) (more int, due bool) {
	r.reason = ""
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.seen[r] == nil && len(s.seen) >= maxRefusals {
		for k, v := range s.seen {
			if now.Sub(v.writtenAt) >= refusalsEvery {
				delete(s.seen, k)
			}
		}
		if len(s.seen) >= maxRefusals {
			r = refusal{code: r.code} // a flood: addresses are not kept apart
		}
	}
	seen := s.seen[r]
	if seen == nil {
		s.seen[r] = &repeats{writtenAt: now}
		return 0, true
	}
	if now.Sub(seen.writtenAt) < refusalsEvery {
		seen.more++
		return 0, false
	}
	more, seen.more, seen.writtenAt = seen.more, 0, now
	return more, true
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
