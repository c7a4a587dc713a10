package terminal

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cenkalti/backoff/v5"

	"github.com/hostler/hostler/taskcatalog"
	"github.com/hostler/hostler/taskcatalog/wire/frame"
)

// helloTimeout limits a connection's time up to its Welcome.
const helloTimeout = 20 * time.Second

// fault is an error that ends the session; any other error ends only a connection.
type fault struct {
	error
	heard bool // came from the relay, which need not be told
}

func (f fault) Unwrap() error { return f.error }

// attach makes connections until one gets a Welcome, for up to limit. A pass to another relay
// restarts the limit.
func (s *session) attach(ctx context.Context, limit time.Duration, code taskcatalog.Code) (*link, error) {
	for {
		l, err := s.follow(ctx, s.currentWay(), limit, code)
		if !errors.Is(err, errMoved) {
			return l, err
		}
		s.pause.Reset()
		s.wait = 0
	}
}

// follow is attach until a new pass arrives; then it returns errMoved.
func (s *session) follow(parent context.Context, w way, limit time.Duration, code taskcatalog.Code) (*link, error) {
	ctx, cancel := w.during(parent)
	defer cancel()
	within, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	last := errors.New("the connection broke")
	for !sleep(within, s.wait) {
		pass, none := s.passFor(w)
		if none {
			last = errors.New("no relay accepts the session any more, and the broker did not send the session to another relay")
			<-within.Done()
			break
		}
		l, err := s.handshake(within, w, pass)
		if f := (fault{}); errors.As(err, &f) {
			return nil, f.error
		}
		s.wait = s.pause.NextBackOff()
		if err == nil {
			return l, nil
		}
		last = err
	}
	switch {
	case parent.Err() != nil:
		return nil, closed(parent)
	case ctx.Err() != nil:
		return nil, errMoved
	}
	return nil, taskcatalog.Errorf(code, "the relay of the terminal could not be reached for %s: %v", limit, last)
}

// newPause returns a jittered backoff: a returning relay is not dialed by all sessions at once.
func newPause() *backoff.ExponentialBackOff {
	pause := backoff.NewExponentialBackOff()
	pause.InitialInterval, pause.MaxInterval = 200*time.Millisecond, 5*time.Second
	return pause
}

// sleep reports whether the context ended.
func sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
	return ctx.Err() != nil
}

// closed returns why a session whose context ended is over.
func closed(ctx context.Context) error {
	if err := context.Cause(ctx); errors.Is(err, errEnded) || taskcatalog.CodeOf(err, "") == CodeTimeOver {
		return err
	}
	return taskcatalog.Errorf(CodeClosed, "the terminal was closed on the node")
}

// handshake opens a connection and exchanges the positions of both directions.
func (s *session) handshake(ctx context.Context, w way, pass Pass) (*link, error) {
	ctx, cancel := context.WithTimeout(ctx, helloTimeout)
	defer cancel()
	conn, err := s.Dial(ctx, pass.Relay)
	if err != nil {
		return nil, err
	}
	cut := context.AfterFunc(ctx, func() { conn.Close() })
	l := &link{session: s, way: w, pass: pass, conn: conn, reader: frame.NewReader(conn)}
	err = l.hello()
	if !cut() && err == nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return l, nil
}

func (l *link) hello() error {
	l.mu.Lock()
	hello := frame.Hello{
		Version: frame.Version, SessionID: l.SessionID, Token: l.pass.Token,
		Taken: l.in.Taken(), From: l.out.From(), Sent: l.out.Sent(),
	}
	l.mu.Unlock()
	raw, err := frame.Append(nil, hello)
	if err != nil {
		return fault{error: err}
	}
	if _, err := l.conn.Write(raw); err != nil {
		return err
	}
	f, err := l.reader.Next()
	switch f := f.(type) {
	case nil:
		return judge(err)
	case frame.Welcome:
		return l.welcome(f)
	case frame.Bye:
		return l.goodbye(f)
	default:
		return fault{error: unexpected(f)}
	}
}

func (l *link) welcome(w frame.Welcome) error {
	if w.Version != frame.Version {
		return fault{error: taskcatalog.Errorf(CodeVersion,
			"the relay speaks version %d of the terminal protocol, and this agent speaks version %d (update the agent)", w.Version,
			frame.Version)}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.keepPasses(l.way, &Pass{Relay: l.pass.Relay, Token: w.Token}, nil)
	// Bytes that the relay has taken may still be lost, so they are kept: output resumes at Taken.
	if _, err := l.out.Part(w.Taken); err != nil {
		return fault{error: err}
	}
	if l.in.Ended() { // a relay that resumes the session does not know that input ended: discard further input
		l.inputEnded, l.in = true, frame.NewInflow(l.in.Taken())
	}
	l.at, l.repeats, l.heard = w.Taken, w.Repeats, time.Now()
	l.out.ResetLimit(w.Limit)
	l.given.Broadcast()
	return nil
}

// goodbye interprets a Bye of the relay: a fault, or an error that ends the connection.
func (l *link) goodbye(bye frame.Bye) error {
	said := fmt.Errorf("the relay says: %s", taskcatalog.Clean(bye.Text, 200))
	l.mu.Lock()
	defer l.mu.Unlock()
	waits := needsNewPass(bye.Code)
	switch {
	case bye.Code == CodeReplaced: // coming back would start a fight for the place
		l.keepPasses(l.way, nil, nil)
	case waits:
		l.keepPasses(l.way, l.before, nil)
	}
	switch {
	case bye.Lasts:
		return said
	case l.exit != nil:
		return fault{errEnded, true}
	case waits:
		return said
	case bye.Code == "":
		bye.Code = CodeClosed
	}
	return fault{taskcatalog.Errorf(taskcatalog.Code(taskcatalog.Clean(string(bye.Code), 64)), "the terminal was ended: %v", said), true}
}

// judge separates protocol errors from broken connections: protocol errors have a code.
func judge(err error) error {
	if taskcatalog.CodeOf(err, "") != "" {
		return fault{error: err}
	}
	return err
}

func unexpected(f frame.Frame) error {
	return taskcatalog.Errorf(CodeUnexpected, "the relay sent an unexpected frame of kind %d", f.Kind())
}
