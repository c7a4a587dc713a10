package main

import (
	"context"
	"errors"
	"testing"
	"time"
)

// A session is shown the first ID token and each renewed one once, and again only if that failed. The one that
// opened the session may have been renewed before the first look.
func TestARenewedSignInIsShownToTheSession(t *testing.T) {
	tokens := []string{"a", "a", "", "b", "b", "b", "c"} // the first before any look; "": the provider is away
	fails := []bool{false, true, false, false}           // the first show of b
	shown, last := "", ""
	look := make(chan time.Time)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		showRenewed(ctx, look, func(context.Context) (string, error) {
			last, tokens = tokens[0], tokens[1:]
			if last == "" {
				return "", errors.New("away")
			}
			return last, nil
		}, func(context.Context) error {
			failed := fails[0]
			if fails = fails[1:]; failed {
				return errors.New("the broker is away")
			}
			shown += last
			return nil
		})
	}()
	for range 6 {
		look <- time.Time{}
	}
	stop()
	<-ended
	if shown != "abc" {
		t.Errorf("shown %q, want a, b and c once each", shown)
	}
}
