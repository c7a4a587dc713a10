package terminal

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/hostler/hostler/taskcatalog"
)

// Pass admits the session to a relay, for a single connection.
type Pass struct {
	Relay string // HOST:PORT, on UDP and on TCP
	Token string
	Until time.Time // no relay accepts it later; zero: valid as long as the session
}

// errMoved is why a connection or an attempt ends: the session was sent to another relay.
var errMoved = errors.New("the session was sent to another relay")

// way identifies the present pass, until the next pass arrives.
type way struct {
	turn  int
	moved chan struct{} // closed when the next pass arrives
}

// takePasses applies each arriving pass.
func (s *session) takePasses(ctx context.Context) {
	for {
		select {
		case pass := <-s.Passes:
			s.mu.Lock()
			s.pass, s.before = &pass, s.validPass(pass.Relay)
			close(s.way.moved)
			s.way = way{turn: s.way.turn + 1, moved: make(chan struct{})}
			s.mu.Unlock()
		case <-ctx.Done():
			return
		}
	}
}

// validPass returns an earlier pass for the same relay that stays valid beside a new one: the pass
// of the last Welcome, valid until a later token was used. mu must be held.
func (s *session) validPass(relay string) *Pass {
	for _, had := range []*Pass{s.pass, s.before} {
		if had != nil && had.Until.IsZero() && had.Relay == relay {
			return had
		}
	}
	return nil
}

// during returns a context that also ends when the next pass arrives.
func (w way) during(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	go func() {
		select {
		case <-w.moved:
			cancel(errMoved)
		case <-ctx.Done():
		}
	}()
	return ctx, func() { cancel(nil) }
}

func (s *session) currentWay() way {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.way
}

// passFor returns the pass to show now. none: no relay may be dialed before the next pass arrives,
// because the old token would be refused, and look like an attack.
func (s *session) passFor(w way) (pass Pass, none bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.way.turn != w.turn {
		return Pass{}, true
	}
	if s.pass != nil && !s.pass.Until.IsZero() && !time.Now().Before(s.pass.Until) {
		s.pass, s.before = s.before, nil
	}
	if s.pass == nil {
		return Pass{}, true
	}
	return *s.pass, false
}

// keepPasses sets the passes of this way. mu must be held.
func (s *session) keepPasses(w way, pass, before *Pass) {
	if s.way.turn == w.turn {
		s.pass, s.before = pass, before
	}
}

// newPassCodes are the refusals after which the same token must not be shown again. The session
// waits for another pass: with its program, or, before it has a program, up to ConnectTimeout. The
// agent has another token minted on request, or the relay has caused it already.
var newPassCodes = []taskcatalog.Code{
	CodeReplaced, "terminal_token_used", "terminal_token_unknown", "terminal_token_superseded", "terminal_token_expired",
	"terminal_wrong_key",
}

func needsNewPass(code taskcatalog.Code) bool { return slices.Contains(newPassCodes, code) }
