package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"golang.org/x/term"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/cmd/hostler/attach"
	"github.com/hostler/hostler/broker/escape"
	"github.com/hostler/hostler/taskcatalog/wire/frame"
)

func (a *app) openTerminal(ctx context.Context, s api.TerminalStart) error {
	remote, err := a.connect()
	if err != nil {
		return err
	}
	size := a.terminalSize()
	s.Columns, s.Rows = size.Columns, size.Rows
	s.Term, s.Locale = a.environment()
	k, err := remote.OpenTerminal(ctx, s)
	if err != nil {
		return err
	}
	return a.attachTerminal(ctx, terminalRoutes{remote, ""}, operatorsTerminal(&k.Terminal), k.Ticket, true)
}

// terminalSize is the size of the local terminal, or the classic default size.
func (a *app) terminalSize() api.TerminalTicketRequest {
	for _, stream := range []any{a.out, a.in} {
		if f := tty(stream, term.IsTerminal); f != nil {
			if w, h, err := term.GetSize(int(f.Fd())); err == nil && w > 0 && h > 0 {
				return api.TerminalTicketRequest{Columns: min(w, maxSide), Rows: min(h, maxSide)}
			}
		}
	}
	return api.TerminalTicketRequest{Columns: 80, Rows: 24}
}

// maxSide is the largest width or height of a terminal, in characters.
const maxSide = 4096

// attachTerminal runs a session, new or existing, from its ticket to its end.
func (a *app) attachTerminal(ctx context.Context, routes terminalRoutes, t *seenTerminal, ticket string, isNew bool) error {
	keyboard, screen := tty(a.in, term.IsTerminal), tty(a.out, term.IsTerminal)
	resized := make(chan os.Signal, 1)
	signal.Notify(resized, syscall.SIGWINCH)
	defer signal.Stop(resized)
	// Output that nobody takes is to fail, and not to end this process before it has put the
	// terminal right and ended the session.
	signal.Ignore(syscall.SIGPIPE)
	defer signal.Reset(syscall.SIGPIPE)
	if keyboard != nil || t.ofProject { // a tenant is always told of the recording
		a.greet(t)
	}
	defer a.keepSignedIn(ctx, routes, t.ID)()
	restore := func() {}
	defer func() { restore() }()
	end, err := attach.Run(ctx, attach.Config{
		ID: t.ID, In: a.in, Out: a.out, Err: a.err,
		Keyboard: keyboard != nil, Screen: screen != nil, Quiet: a.quiet, New: isNew,
		Filter: escape.Policy{
			Title: t.Filter.Title && screen != nil, Clipboard: t.Filter.Clipboard && screen != nil,
			Answers: keyboard != nil && screen != nil,
		},
		Size: func() frame.Resize {
			s := a.terminalSize()
			return frame.Resize{Columns: uint16(s.Columns), Rows: uint16(s.Rows)}
		},
		Resized: resized, Detach: time.Duration(t.DetachSeconds) * time.Second,
		Begin: func() (err error) {
			if keyboard != nil {
				restore, err = rawKeyboard(keyboard)
			}
			return err
		},
		Dial: func(ctx context.Context) (attach.Conn, error) {
			if ticket == "" { // each ticket is good for one connection
				var err error
				if _, ticket, err = routes.ticket(ctx, t.ID, a.terminalSize()); err != nil {
					return nil, err
				}
			}
			with := ticket
			ticket = ""
			return routes.attach(ctx, t.ID, with)
		},
		Look:  func(ctx context.Context) (attach.End, error) { return sessionEnd(ctx, routes, t.ID) },
		Close: func(ctx context.Context) error { return closeTerminal(ctx, routes, t.ID) },
	})
	restore()
	restore = func() {}
	switch {
	case err != nil:
		return err
	case ctx.Err() != nil && !end.Left:
		return ctx.Err()
	}
	if err := a.ended(t, end); err != nil || screen != nil || end.Lost == 0 || end.Left {
		return err
	}
	next := ""
	if !t.ofProject {
		next = fmt.Sprintf(" (hostler recording play %s shows what was recorded)", t.ID)
	}
	return broker.Errorf(broker.Internal, "terminal_output_lost", "%d bytes of output of session %s did not arrive here%s", end.Lost, t.ID, next)
}

func (a *app) greet(t *seenTerminal) {
	recorded := "what it shows is recorded"
	if t.RecordInput {
		recorded = "what it shows and what is typed is recorded"
	}
	say := a.note
	if t.ofProject {
		say = a.tell
	}
	say("session %s as %s %s; %s; Enter, then ~? lists the escapes", t.ID, t.Username, t.place(), recorded)
}

// rawKeyboard puts the terminal into raw mode, and returns the function that restores it. Pending
// replies of the terminal are discarded, so that no shell reads them.
func rawKeyboard(f *os.File) (restore func(), err error) {
	before, err := term.MakeRaw(int(f.Fd()))
	if err != nil {
		return func() {}, broker.Errorf(broker.Internal, "terminal_unusable", "cannot use the terminal here: %v", err)
	}
	return func() {
		dropTyped(f)
		_ = term.Restore(int(f.Fd()), before)
	}, nil
}

// sessionEnd asks the broker how a session ended, for a client that was disconnected.
func sessionEnd(ctx context.Context, routes terminalRoutes, id string) (attach.End, error) {
	t, err := routes.show(ctx, id)
	if err != nil {
		return attach.End{}, err
	}
	if t.Status != string(broker.TerminalClosed) && t.Status != string(broker.TerminalClosing) {
		return attach.End{}, broker.Errorf(broker.Refused, "terminal_session_over", "session %s lets nobody in, and is %s", id, t.Status)
	}
	return attach.End{Code: t.EndCode, Text: t.why, Status: t.ExitStatus}, nil
}

// closeTerminal ends a session; a session that is over already is no error.
func closeTerminal(ctx context.Context, routes terminalRoutes, id string) error {
	_, err := routes.close(ctx, id, "ended by its operator")
	if err != nil && broker.AsError(err).Code == "terminal_session_over" {
		return nil
	}
	return err
}
