package main

import (
	"context"
	"time"
)

// signInLook is how often a program in a session looks whether its person's sign-in must be renewed: an ID
// token is renewed a minute before it ends.
const signInLook = 20 * time.Second

// keepSignedIn keeps a session of a person who signed in going until stop is called: the broker ends the
// session with the last ID token that it was shown.
func (a *app) keepSignedIn(ctx context.Context, routes terminalRoutes, id string) (stop func()) {
	if a.signIn == nil {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	look, ended := time.NewTicker(signInLook), make(chan struct{})
	go func() {
		defer close(ended)
		showRenewed(ctx, look.C, a.signIn.Token, func(ctx context.Context) error {
			_, _, err := routes.ticket(ctx, id, a.terminalSize())
			return err
		})
	}()
	return func() {
		look.Stop()
		cancel()
		<-ended
	}
}

// showRenewed calls show at its start, and with each ID token that is another than the one shown before, until
// ctx ends. What fails is tried again at the next look. The token that opened the session may have been renewed
// since then: so the first one is shown, too.
func showRenewed(
	ctx context.Context, look <-chan time.Time, token func(context.Context) (string, error), show func(context.Context) error,
) {
	last := ""
	for {
		if now, err := token(ctx); err == nil && now != last && show(ctx) == nil {
			last = now
		}
		select {
		case <-ctx.Done():
			return
		case <-look:
		}
	}
}
