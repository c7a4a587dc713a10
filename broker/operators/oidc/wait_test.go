package oidc

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hostler/hostler/broker"
)

// never is a provider that fails a test when it is read.
type never struct{ t *testing.T }

func (n never) RoundTrip(*http.Request) (*http.Response, error) {
	n.t.Error("the provider was read")
	return nil, errors.New("nobody is there")
}

func whichever(*description) bool { return true }
func none(*description) bool      { return false }

// asked starts a caller while another one reads the provider, and returns what the caller gets.
func asked(t *testing.T, suffices func(*description) bool) (*Provider, <-chan error) {
	t.Helper()
	p, err := New(Config{Issuer: "https://id.example", ClientID: "hostler"}, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	p.client = &http.Client{Transport: never{t}}
	p.turn <- struct{}{}
	got := make(chan error, 1)
	go func() {
		_, err := p.described(context.Background(), suffices)
		got <- err
	}()
	synctest.Wait()
	return p, got
}

func TestAWaitForAnothersReadEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begun := time.Now()
		_, got := asked(t, whichever)
		if err := <-got; broker.AsError(err).Code != "oidc_unavailable" || time.Since(begun) != readWithin {
			t.Errorf("after %v: %v", time.Since(begun), err)
		}
	})
}

// Those who wait do not ask a provider one after the other that has just failed one of them.
func TestWhoWaitedForAReadMakesNone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, got := asked(t, whichever)
		p.tried.Add(1)
		<-p.turn
		if err := <-got; broker.AsError(err).Code != "oidc_unavailable" {
			t.Error(err)
		}
		p, got = asked(t, none) // a key that the other's read did not bring, either
		p.known.Store(&description{readAt: time.Now()})
		p.tried.Add(1)
		<-p.turn
		if err := <-got; err != nil {
			t.Error(err)
		}
	})
}
