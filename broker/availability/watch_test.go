package availability

import (
	"context"
	"fmt"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/store"
	"github.com/hostler/hostler/broker/store/storetest"
)

// active makes an active node that was never heard.
func active(t *testing.T, db *store.DB, id string, n store.NewNode) {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	n.ID, n.Hostname, n.Bootstrap, n.TokenHash, n.TokenExpires = id, id, "command", id, db.Now().Add(time.Hour)
	_, err := db.CreateNode(t.Context(), broker.System, n)
	must(err)
	_, err = db.Enroll(t.Context(), store.EnrollInput{TokenHash: id, PublicKeyDigest: id, Issue: func(broker.Node, int64) (store.IssuedCert, error) {
		return store.IssuedCert{Serial: id, PublicKey: []byte(id), NotAfter: db.Now().Add(time.Hour)}, nil
	}})
	must(err)
	_, err = db.Transition(t.Context(), broker.System, id, store.Change{To: broker.Active, By: broker.OwnerOnboarding})
	must(err)
}

// until waits for the writes of events until a node has a word.
func until(t *testing.T, db *store.DB, wrote <-chan store.Hint, id string, want broker.Availability) {
	t.Helper()
	for {
		all, err := db.Availability(t.Context(), []string{id})
		if err != nil {
			t.Fatal(err)
		}
		if all[id].Word == want {
			return
		}
		select {
		case <-wrote:
		case <-time.After(20 * time.Second):
			t.Fatalf("node %s is %s, and not %s", id, all[id].Word, want)
		}
	}
}

// The watch judges every node when it begins, and each node again when a fact about it is written,
// long before the next sweep.
func TestTheWatchFollowsWhatIsHinted(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, clock *storetest.Clock) {
		active(t, db, "n-before", store.NewNode{})
		wrote := db.Hints(t.Context())
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			(&Watch{DB: db, Period: time.Hour, Log: zap.NewNop()}).Run(ctx)
		}()
		defer func() { stop(); <-ended }()
		until(t, db, wrote, "n-before", broker.Held)
		active(t, db, "n-later", store.NewNode{})
		until(t, db, wrote, "n-later", broker.Held)
	})
}

func TestManyHintsAreOneSweep(t *testing.T) {
	db := storetest.Open(t, "sqlite", nil)
	w := &Watch{DB: db, Log: zap.NewNop()}
	active(t, db, "n-unnamed", store.NewNode{})
	for name, c := range map[string]struct {
		hints []store.Hint
		swept bool
	}{
		"of other things": {[]store.Hint{{Kind: store.HintOutbox}, {Kind: store.HintEnded, ID: "n-unnamed"}}, false},
		"of another node": {[]store.Hint{{Kind: store.HintNode, ID: "n-1"}}, false},
		"of no node":      {[]store.Hint{{Kind: store.HintNode, ID: "n-1"}, {Kind: store.HintNode}}, true},
		"lost":            {[]store.Hint{{Kind: store.HintMissed}}, true},
		"of many nodes":   {many(sweepFrom), true},
		"of a node often": {[]store.Hint{{Kind: store.HintNode, ID: "n-1"}, {Kind: store.HintNode, ID: "n-1"}}, false},
	} {
		var work hinted
		for _, h := range c.hints {
			work.add(h)
		}
		if swept := work.needsSweep(); swept != c.swept {
			t.Errorf("hints %s: swept %v", name, swept)
		}
	}
	var work hinted
	for _, h := range many(sweepFrom) {
		work.add(h)
	}
	if err := w.judge(t.Context(), work); err != nil {
		t.Fatal(err)
	}
	if all, err := db.Availability(t.Context(), []string{"n-unnamed"}); err != nil || all["n-unnamed"].Word != broker.Held {
		t.Errorf("after hints of many other nodes: %+v (%v)", all, err)
	}
}

func many(n int) (hints []store.Hint) {
	for i := range n {
		hints = append(hints, store.Hint{Kind: store.HintNode, ID: fmt.Sprint("n-", i)})
	}
	return hints
}
