package terminal

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/hostler/hostler/taskcatalog"
)

// Pass lets the session in at a relay, for one connection.
type Pass struct {
	Relay string // HOST:PORT, on UDP and on TCP
	Token string
	Until time.Time // no relay takes it later; zero: as long as the session lasts
}

// errMoved is why a connection ends, or is not waited for any more: the session was sent to
// another relay.
var errMoved = errors.New("the session was sent to another relay")

// way is what the session goes by until it is sent elsewhere.
type way struct {
	turn  int
	moved chan struct{} // closed when it is
}

// takePasses sends the session wherever it is told to go.
func (s *session) takePasses(ctx context.Context) {
	for {
		select {
		case pass := <-s.Passes:
			s.mu.Lock()
			s.pass, s.before = &pass, s.stillGood(pass.Relay)
			close(s.way.moved)
			s.way = way{turn: s.way.turn + 1, moved: make(chan struct{})}
			s.mu.Unlock()
		case <-ctx.Done():
			return
		}
	}
}

// stillGood is the pass for the same relay that another one does not spoil: the last
// Welcome's, which is taken for as long as nothing that came later was. Call it with mu held.
func (s *session) stillGood(relay string) *Pass {
	for _, had := range []*Pass{s.pass, s.before} {
		if had != nil && had.Until.IsZero() && had.Relay == relay {
			return had
		}
	}
	return nil
}

// during is a context that ends as well when the session is sent elsewhere.
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

// passFor is what to show now; none, where nothing is to be asked before somebody sends
// the session on: what it has would be refused, and be taken for an attack.
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

// keepPasses has these be the passes of this way. Call it with mu held.
func (s *session) keepPasses(w way, pass, before *Pass) {
	if s.way.turn == w.turn {
		s.pass, s.before = pass, before
	}
}

// needsPass are why a relay lets no connection in that shows the same again. The session
// waits to be sent on, with its program or, for as long as it may take to connect, before it
// has one: the agent has another token minted when it is asked, or the relay has already.
var needsPass = []taskcatalog.Code{
	CodeReplaced, "terminal_token_used", "terminal_token_unknown", "terminal_token_superseded", "terminal_token_expired", "terminal_wrong_key",
}

func wantsPass(code taskcatalog.Code) bool { return slices.Contains(needsPass, code) }
