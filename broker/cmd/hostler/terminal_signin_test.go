package main

import (
	"context"
	"errors"
	"testing"
	"time"
)

// A session is shown each renewed ID token once, and again only if that failed.
func TestARenewedSignInIsShownToTheSession(t *testing.T) {
	tokens := []string{"a", "a", "", "b", "b", "b", "c"} // the first before any look; "": the provider is away
	fails := []bool{true, false, false}                  // the first show
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
	if shown != "bc" {
		t.Errorf("shown %q, want b and c once each", shown)
	}
}
