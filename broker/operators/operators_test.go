package operators_test

import (
	"context"
	"crypto/rand"
	"errors"
	"testing"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/operators"
	"github.com/hostler/hostler/broker/store"
	"github.com/hostler/hostler/broker/store/storetest"
)

// What is told of a token that was just made may come when it is in use already: only a
// revocation, here or at another replica, ends requests.
func TestOnlyARevocationEndsRequests(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, _ *storetest.Clock) {
		d, ada := operators.New(db, db.Now, rand.Reader), broker.Actor{Name: "ada"}
		// The one directory hears what the other does by the store alone.
		other := operators.New(db, db.Now, rand.Reader)
		running, stop := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { defer close(ended); d.Run(running) }()
		defer func() { stop(); <-ended }()

		requests := map[string]context.Context{}
		for _, name := range []string{"ann", "bob", "carl"} {
			ctx, done := d.Bind(t.Context(), broker.OperatorToken{Name: name})
			defer done()
			requests[name] = ctx
		}
		tick := time.NewTicker(time.Millisecond)
		defer tick.Stop()
		for requests["carl"].Err() == nil { // nothing is heard until it listens
			db.Hint(store.Hint{Kind: store.HintToken, ID: "carl"})
			<-tick.C
		}
		for _, name := range []string{"ann", "bob"} {
			if _, _, err := other.Create(t.Context(), ada, operators.NewToken{Name: name, Role: broker.RoleViewer}); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := other.Revoke(t.Context(), ada, "bob", "left"); err != nil {
			t.Fatal(err)
		}
		<-requests["bob"].Done()
		if err := context.Cause(requests["bob"]); !errors.Is(err, operators.ErrRevoked) {
			t.Errorf("bob's request ended by %v", err)
		}
		if err := context.Cause(requests["ann"]); err != nil {
			t.Errorf("ann's request, whose token was only made, ended by %v", err)
		}
	})
}

// The hint of a revocation is lost: whoever looks ends the request all the same.
func TestARevocationThatNobodyHeardOfEndsRequests(t *testing.T) {
	url := storetest.URL(t, "sqlite")
	db, elsewhere := storetest.Reopen(t, url, nil), storetest.Reopen(t, url, nil) // no hint crosses between them
	d, ada := operators.New(db, db.Now, rand.Reader), broker.Actor{Name: "ada"}
	for _, name := range []string{"ann", "bob"} {
		if _, _, err := d.Create(t.Context(), ada, operators.NewToken{Name: name, Role: broker.RoleViewer}); err != nil {
			t.Fatal(err)
		}
	}
	running, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); d.Run(running) }()
	defer func() { stop(); <-ended }()
	ann, done := d.Bind(t.Context(), broker.OperatorToken{Name: "ann"})
	defer done()
	bob, done := d.Bind(t.Context(), broker.OperatorToken{Name: "bob"})
	defer done()
	if _, err := operators.New(elsewhere, db.Now, rand.Reader).Revoke(t.Context(), ada, "bob", "left"); err != nil {
		t.Fatal(err)
	}
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for late := time.Now().Add(20 * time.Second); bob.Err() == nil; <-tick.C { // nothing is heard until it listens
		if time.Now().After(late) {
			t.Fatal("bob's request goes on")
		}
		db.Hint(store.Hint{Kind: store.HintMissed})
	}
	if !errors.Is(context.Cause(bob), operators.ErrRevoked) || ann.Err() != nil {
		t.Errorf("bob's request ended by %v, ann's by %v", context.Cause(bob), context.Cause(ann))
	}
}
