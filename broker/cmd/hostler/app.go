package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/api/client"
	"github.com/hostler/hostler/broker/clientfile"
	"github.com/hostler/hostler/broker/cmd/hostler/render"
	"github.com/hostler/hostler/broker/cmd/hostler/signin"
	"github.com/hostler/hostler/taskcatalog"
)

// app holds what all commands share: the surroundings and the flags of the root.
type app struct {
	processEnv
	config, context  string
	output           string
	quiet            bool
	stopped          <-chan struct{} // a signal asked the command to end
	tokenFile, token string

	contacted   *contacted      // nil: the command spoke to no broker
	signIn      *signin.Session // nil: the command does not use a sign-in
	helpErr     error           // why --help found no command to describe
	frozenShown bool            // the freezes are already shown, or are being shown
}

// connect makes a client of the chosen broker. connect does not open a connection.
func (a *app) connect() (*client.Client, error) {
	file, path, err := a.clientFile()
	if err != nil {
		return nil, err
	}
	remote, err := a.clientOfFile(file)
	if err != nil {
		return nil, err
	}
	a.contacted = &contacted{api: remote, path: path}
	return remote, nil
}

func (a *app) clientOf(file *clientfile.File, token string) (*client.Client, error) {
	roots, err := file.Roots()
	if err != nil {
		return nil, err
	}
	return client.New(client.Options{Broker: file.Broker, Roots: roots, Token: token, Version: version, Now: a.now}), nil
}

// bearer finds the token: on the command line, in the environment, in the
// client file, in this order.
func (a *app) bearer(fallback string) (string, error) {
	switch {
	case a.token != "" && a.tokenFile != "":
		return "", usage("cannot use --token and --token-file together (leave --token out)")
	case a.token != "":
		a.note("warning: --token shows the token to everybody on this machine (use --token-file or HOSTLER_TOKEN)")
		return clientfile.CheckToken(a.token, "--token")
	case a.tokenFile == "-" && a.ask:
		return a.typedToken()
	case a.tokenFile != "":
		return a.tokenIn(a.tokenFile)
	case a.getenv("HOSTLER_TOKEN") != "":
		return clientfile.CheckToken(a.getenv("HOSTLER_TOKEN"), "HOSTLER_TOKEN")
	case fallback != "":
		return a.tokenIn(fallback)
	}
	return "", broker.Errorf(broker.Unauthorized, "token_missing",
		"cannot call the broker: no token is given (use --token-file FILE, HOSTLER_TOKEN, or hostler login)")
}

// typedToken reads a token from a person, unseen.
func (a *app) typedToken() (string, error) {
	f, ok := a.in.(*os.File)
	if !ok {
		return a.tokenIn("-")
	}
	_, _ = fmt.Fprint(a.err, "token: ")
	raw, err := readUnseen(a, f)
	if err != nil {
		return "", broker.Errorf(broker.Invalid, "token_file_unreadable", "cannot read the token from the terminal: %v", err)
	}
	return clientfile.CheckToken(string(raw), "the terminal")
}

func (a *app) tokenIn(path string) (string, error) {
	return interruptible(a, func() (string, error) { return clientfile.ReadToken(path, a.in) })
}

// note writes a message to stderr, apart from the result.
func (a *app) note(format string, args ...any) {
	if !a.quiet {
		a.tell(format, args...)
	}
}

// tell is note, also with --quiet.
func (a *app) tell(format string, args ...any) {
	_, _ = fmt.Fprintln(a.err, taskcatalog.Clean(fmt.Sprintf(format, args...), 2000))
}

// show prints v: for people as page writes it, for programs as JSON or YAML. With --quiet people
// get only the names, one a line.
func (a *app) show(v any, names []string, page func(p *render.Page)) error {
	a.showFrozen()
	var out bytes.Buffer
	switch {
	case a.output == "json":
		if err := render.JSON(&out, v); err != nil {
			return err
		}
	case a.output == "yaml":
		if err := render.YAML(&out, v); err != nil {
			return err
		}
	default:
		p := render.NewPage(a.color, a.tableWidth())
		if a.quiet {
			for _, n := range names {
				p.Line(n)
			}
		} else {
			page(p)
		}
		if _, err := p.WriteTo(&out); err != nil {
			return err
		}
	}
	return a.print(&out)
}

// tableWidth is the width that tables on stdout have to fit; 0 means any width.
func (a *app) tableWidth() int {
	if a.output == "wide" {
		return 0
	}
	return a.outWidth()
}

// newQuestion is a page for stderr, above a question to a person.
func (a *app) newQuestion() *render.Page {
	if !a.live || a.output == "wide" {
		return render.NewPage(false, 0)
	}
	return render.NewPage(false, a.width())
}

// print writes to stdout text that needs no escaping.
func (a *app) print(r io.WriterTo) error {
	if _, err := r.WriteTo(a.out); err != nil {
		return broker.Errorf(broker.Internal, "output_failed", "cannot write the output: %v (what was asked was done)", err)
	}
	return nil
}

// within bounds a wait; 0 means no limit.
func within(ctx context.Context, timeout time.Duration) (context.Context, context.CancelFunc) {
	if timeout <= 0 {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, timeout)
}
