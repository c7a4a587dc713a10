package adminapi

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/hostler/hostler/broker"
)

const (
	refusalsEvery = time.Minute // equal ones are written once in this time
	maxRefusals   = 4096        // kinds that are remembered
)

// refusals keeps a token that is refused over and over, a revoked one in a loop
// for instance, from filling the audit log.
type refusals struct {
	mu   sync.Mutex
	seen map[refusal]*repeats
}

// refusal is what makes two of them equal.
type refusal struct{ actor, code, what string }

type repeats struct {
	writtenAt time.Time
	more      int // since then
}

// due reports whether a refusal is to be written now, and how many equal ones
// were not.
func (s *refusals) due(r refusal, now time.Time) (more int, due bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	had := s.seen[r]
	if had != nil && now.Sub(had.writtenAt) < refusalsEvery {
		had.more++
		return 0, false
	}
	if had != nil {
		more = had.more
	}
	if s.seen == nil || len(s.seen) >= maxRefusals {
		s.seen = map[refusal]*repeats{} // at worst a few rows too many
	}
	s.seen[r] = &repeats{writtenAt: now}
	return more, true
}

// auditRefusal writes a refusal to the audit log: equal ones, by what, once a
// minute with their number.
func (a *API) auditRefusal(ctx context.Context, what string, e broker.AuditEntry) {
	more, due := a.refusals.due(refusal{e.Actor, e.Code, what}, a.c.Now())
	if !due {
		return
	}
	if more > 0 {
		e.Reason = fmt.Sprintf("%s (and %d more like it since the last entry)", e.Reason, more)
	}
	e.Action, e.Subject = "request.refused", "token/"+e.Actor
	a.audit(ctx, e)
}
