package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/api/client"
	"github.com/hostler/hostler/broker/clientfile"
	"github.com/hostler/hostler/broker/cmd/hostler/render"
	"github.com/hostler/hostler/broker/cmd/hostler/signin"
	"github.com/hostler/hostler/taskcatalog"
)

// tokenGiven reports whether the caller names a token, which counts more than a sign-in.
func (a *app) tokenGiven() bool {
	return a.token != "" || a.tokenFile != "" || a.getenv("HOSTLER_TOKEN") != ""
}

// clientOfFile makes a client of the broker of a client file, with the token that the caller names, the
// sign-in, or the token of the file.
func (a *app) clientOfFile(file *clientfile.File) (*client.Client, error) {
	if file.SignInFile != "" && !a.tokenGiven() {
		return a.signedIn(file, signin.Open(file.SignInFile, a.now))
	}
	token, err := a.bearer(file.TokenFile)
	if err != nil {
		return nil, err
	}
	return a.clientOf(file, token)
}

func (a *app) signedIn(file *clientfile.File, s *signin.Session) (*client.Client, error) {
	roots, err := file.Roots()
	if err != nil {
		return nil, err
	}
	a.signIn = s
	return client.New(client.Options{Broker: file.Broker, Roots: roots, Fresh: s.Token, Version: version, Now: a.now}), nil
}

// loginByCode signs a person in at the provider that the broker names, and saves the context once the
// broker has let the person in.
func (a *app) loginByCode(ctx context.Context, path, name string, file *clientfile.File) error {
	if a.tokenGiven() {
		return usage("cannot use a token together with --oidc (leave --token, --token-file and HOSTLER_TOKEN out)")
	}
	stranger, err := a.clientOf(file, "")
	if err != nil {
		return err
	}
	at, err := stranger.SignIn(ctx)
	if err != nil {
		return err
	}
	attempt, err := signin.Begin(ctx, *at)
	if err != nil {
		return err
	}
	a.showCode(at.Issuer, attempt)
	kept, err := attempt.Wait(ctx)
	if err != nil {
		return err
	}
	file.TokenFile, file.SignInFile = "", name+".sign-in"
	remote, err := a.clientOf(file, kept.IDToken)
	if err != nil {
		return err
	}
	who, err := remote.Whoami(ctx)
	if err != nil {
		return err
	}
	if err := a.saveSignIn(ctx, path, name, file, kept); err != nil {
		return err
	}
	a.contacted = &contacted{api: remote, path: path}
	return a.show(who, []string{name}, func(p *render.Page) {
		as := who.Name
		if who.Email != "" {
			as += ", " + who.Email
		}
		p.Line("signed in to " + file.Broker + " as " + as + " (" + who.Role + tokenOfTenant(*who) + "), context " + name)
	})
}

// showCode tells the person what to do. It is shown in spite of --quiet: without it nobody can sign in.
func (a *app) showCode(issuer string, at *signin.Attempt) {
	lines := []string{"To sign in at " + issuer + ", open", "  " + at.URL, "and enter the code " + at.Code}
	if at.Complete != "" {
		lines = append(lines, "or open", "  "+at.Complete)
	}
	if !at.Until.IsZero() {
		lines = append(lines, "The code is good until "+at.Until.Local().Format("15:04:05")+".")
	}
	for _, l := range lines {
		_, _ = fmt.Fprintln(a.err, taskcatalog.Clean(l, 2000))
	}
}

// saveSignIn writes the context: the sign-in first, so that a client file never names a missing one. Codes:
// sign_in_busy, config_unwritable.
func (a *app) saveSignIn(ctx context.Context, path, name string, file *clientfile.File, kept *clientfile.SignIn) error {
	unwritable := func(err error) error {
		return broker.Errorf(broker.Internal, "config_unwritable", "cannot write context %s: %v", name, err)
	}
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return unwritable(err)
	}
	if err := signin.Open(filepath.Join(dir, file.SignInFile), a.now).Keep(ctx, kept); err != nil {
		return err
	}
	if err := saveFile(path, name, file); err != nil {
		return unwritable(err)
	}
	return nil
}

// knownBroker finds the broker of the context to sign in to again: the one named, or the current one.
func (a *app) knownBroker() (path, name string, file *clientfile.File, err error) {
	if file, path, err = a.clientFile(); err != nil {
		return "", "", nil, err
	}
	name = strings.TrimSuffix(filepath.Base(path), ".yaml")
	if known, err := a.contextPath(name); err != nil || known != path {
		return "", "", nil, usage("cannot sign in again: %s is no context (use --broker https://HOST:PORT)", path)
	}
	return path, name, &clientfile.File{Broker: file.Broker, CA: file.CA}, nil
}
