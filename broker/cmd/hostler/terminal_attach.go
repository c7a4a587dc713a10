package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
	"time"

	"golang.org/x/term"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/api/client"
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
	return a.attachTerminal(ctx, remote, k, true)
}

// terminalSize is that of the terminal here, or what there was before there were others.
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

// maxSide is the most characters of a terminal, either way.
const maxSide = 4096

// attachTerminal is a session, from its ticket to its end; one that is new, or was there.
func (a *app) attachTerminal(ctx context.Context, remote *client.Client, k *api.TerminalTicket, isNew bool) error {
	t := &k.Terminal
	keyboard, screen := tty(a.in, term.IsTerminal), tty(a.out, term.IsTerminal)
	resized := make(chan os.Signal, 1)
	signal.Notify(resized, syscall.SIGWINCH)
	defer signal.Stop(resized)
	// Output that nobody takes is to fail, and not to end this process before it has put the
	// terminal right and ended the session.
	signal.Ignore(syscall.SIGPIPE)
	defer signal.Reset(syscall.SIGPIPE)
	if keyboard != nil {
		a.greet(t)
	}
	restore := func() {}
	defer func() { restore() }()
	ticket := k.Ticket
	end, err := attach.Run(ctx, attach.Config{
		ID: t.ID, In: a.in, Out: a.out, Err: a.err,
		Keyboard: keyboard != nil, Screen: screen != nil, Quiet: a.quiet, New: isNew,
		Filter: escape.Policy{Title: t.Filter.Title && screen != nil, Clipboard: t.Filter.Clipboard && screen != nil, Answers: keyboard != nil && screen != nil},
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
			if ticket == "" { // each is good for one connection
				k, err := remote.TerminalTicket(ctx, t.ID, a.terminalSize())
				if err != nil {
					return nil, err
				}
				ticket = k.Ticket
			}
			with := ticket
			ticket = ""
			conn, err := remote.AttachTerminal(ctx, t.ID, with)
			if err != nil {
				return nil, err // and not a nil that is no nil
			}
			return conn, nil
		},
		Look:  func(ctx context.Context) (attach.End, error) { return howItEnded(ctx, remote, t.ID) },
		Close: func(ctx context.Context) error { return closeTerminal(ctx, remote, t.ID) },
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
	return broker.Errorf(broker.Internal, "terminal_output_lost", "%d bytes of what session %s wrote did not come here (hostler recording play %s has what was recorded)", end.Lost, t.ID, t.ID)
}

func (a *app) greet(t *api.Terminal) {
	recorded := "what it shows is recorded"
	if t.RecordInput {
		recorded = "what it shows and what is typed is recorded"
	}
	a.note("session %s as %s on %s; %s; Enter, then ~? says the escapes", t.ID, t.Username, t.Hostname, recorded)
}

// rawKeyboard has every key come as it is, and gives what undoes that. What the terminal
// has sent by itself and nobody has read goes to no shell.
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

// howItEnded is for whoever was not there.
func howItEnded(ctx context.Context, remote *client.Client, id string) (attach.End, error) {
	t, err := remote.Terminal(ctx, id)
	if err != nil {
		return attach.End{}, err
	}
	if t.Status != string(broker.TerminalClosed) && t.Status != string(broker.TerminalClosing) {
		return attach.End{}, broker.Errorf(broker.Refused, "terminal_session_over", "session %s lets nobody in, and is %s", id, t.Status)
	}
	return attach.End{Code: t.EndCode, Text: t.EndCode, Status: t.ExitStatus}, nil
}

// closeTerminal ends a session; one that has ended is not in the way.
func closeTerminal(ctx context.Context, remote *client.Client, id string) error {
	_, err := remote.CloseTerminal(ctx, id, "ended by its operator")
	if err != nil && broker.AsError(err).Code == "terminal_session_over" {
		return nil
	}
	return err
}
