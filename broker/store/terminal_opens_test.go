package store_test

import (
	"fmt"
	"testing"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/store"
	"github.com/hostler/hostler/broker/store/storetest"
)

// More sessions than a page holds are all returned, page after page.
func TestEachSessionWhoseNodeIsToBeToldGetsItsTurn(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, _ *storetest.Clock) {
		n := newMember(t, db, "alpha")
		for i := range store.UntoldAtOnce + 2 {
			newTerminal(t, db, fmt.Sprintf("ts-%03d", i), n)
			must(db.MoveTerminalSession(ctx, admin, fmt.Sprintf("ts-%03d", i), store.TerminalMove{To: broker.TerminalClosed}))(t)
		}
		first := must(db.UntoldTerminals(ctx, ""))(t)
		rest := must(db.UntoldTerminals(ctx, first[len(first)-1].ID))(t)
		if len(first) != store.UntoldAtOnce || first[0].ID != "ts-000" || len(rest) != 2 || rest[1].ID != "ts-065" {
			t.Errorf("%d and %d", len(first), len(rest))
		}
	})
}
