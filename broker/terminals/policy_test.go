package terminals_test

import (
	"testing"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/store"
	"github.com/hostler/hostler/broker/terminals"
)

// An unreadable policy ends the sessions of its site. It does not count as the default policy, and
// does not stop listing, retention or the watch.
func TestAPolicyThatCannotBeReadEndsItsSitesSessions(t *testing.T) {
	each(t, func(w *world) {
		a := w.replica("a.example:7442")
		id := a.open()
		w.ok(w.db.SetTerminalPolicy(ctx, broker.Actor{Name: "test"}, "", []byte(`{"any_user":"yes"}`), "test"))
		w.closed(id, "terminal_policy_unreadable")
		if _, _, err := a.service.Open(ctx, ada, terminals.Request{NodeID: nodeID, Username: "bob", Size: size}); code(err) != "terminal_policy_unreadable" {
			t.Error(err)
		}
		if all, err := w.db.Terminals(ctx, store.TerminalFilter{Limit: 10}); err != nil || len(all) != 1 || all[0].Policy.AnyUser {
			t.Errorf("%+v %v", all, err)
		}
		w.clock.Advance(1000 * 24 * time.Hour)
		w.ok((&terminals.Retention{DB: w.db, Log: nopLog}).Drop(ctx))
		if r, _, err := w.db.VerifyRecording(ctx, id); err != nil || !r.Complete {
			t.Errorf("%+v %v", r, err)
		}
	})
}

// Unknown policy rules of a newer broker end no session.
func TestAPolicyWithRulesOfANewerBroker(t *testing.T) {
	each(t, func(w *world) {
		w.ok(w.db.SetTerminalPolicy(ctx, broker.Actor{Name: "test"}, "", []byte(`{"any_user":true,"of_tomorrow":1}`), "test"))
		if row := w.row(w.replica("a.example:7442").open()); row.Status.Over() {
			t.Errorf("%+v", row)
		}
	})
}
