package store_test

import (
	"strings"
	"testing"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/store"
	"github.com/hostler/hostler/broker/store/storetest"
)

// end returns the requested end of a session that is not closed.
func end(t testing.TB, db *store.DB, id string) (code, reason string) {
	t.Helper()
	for _, st := range must(db.LiveTerminals(ctx))(t) {
		if st.Session.ID == id {
			return st.EndCode, st.EndReason
		}
	}
	t.Fatalf("%s is closed", id)
	return "", ""
}

func TestANodeEndsItsOwnSessionThatWasKilled(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, _ *storetest.Clock) {
		n, other := newMember(t, db, "alpha"), newMember(t, db, "beta")
		seven := 7
		for _, id := range []string{"ts-new", "ts-open", "ts-exited", "ts-closing", "ts-asked"} {
			newTerminal(t, db, id, n)
		}
		for id, m := range map[string]store.TerminalMove{
			"ts-open": {To: broker.TerminalOpen}, "ts-exited": {To: broker.TerminalDetached, ExitStatus: &seven}, "ts-closing": {To: broker.TerminalClosing, Code: "terminal_idle"}, "ts-asked": {To: broker.TerminalOpen},
		} {
			must(db.MoveTerminalSession(ctx, admin, id, m))(t)
		}
		ok(t, db.AskTerminalEnd(ctx, admin, "ts-asked", "terminal_closed", "enough"))

		// A node can end neither another node's session nor an unknown session.
		refused(t, db.TerminalGone(ctx, other.ID, 1, "ts-open", "signal"), "terminal_wrong_node")
		refused(t, db.TerminalGone(ctx, n.ID, 1, "ts-none\n", "signal"), "terminal_session_not_found")
		for _, code := range []string{"terminal_wrong_node", "terminal_session_not_found"} {
			if got := audited(t, db, "terminal.refused", code); got != 1 || audited(t, db, "terminal.attack", code) != 0 {
				t.Errorf("%d refusals with %s", got, code)
			}
		}
		// Nor can it end a session that ends in another way.
		ok(t, db.TerminalGone(ctx, n.ID, 2, "ts-open", "signal"))
		for id, want := range map[string]string{"ts-new": "", "ts-open": "", "ts-exited": "", "ts-closing": "", "ts-asked": "terminal_closed"} {
			if id != "ts-open" {
				ok(t, db.TerminalGone(ctx, n.ID, 1, id, "signal"))
			}
			if code, _ := end(t, db, id); code != want {
				t.Errorf("%s ends with %q, want %q", id, code, want)
			}
		}
		for range 2 {
			ok(t, db.TerminalGone(ctx, n.ID, 1, "ts-open", "oom-kill\x1b[2J"+strings.Repeat("x", 1000)))
		}
		code, reason := end(t, db, "ts-open")
		if code != "terminal_gone" || !strings.Contains(reason, "did not end by itself (oom-kill") || len(reason) > 100 || strings.Contains(reason, "\x1b") {
			t.Errorf("%s: %q", code, reason)
		}
		rows := must(db.ListAudit(ctx, store.AuditFilter{Action: "terminal.close", Limit: 10}))(t)
		if len(rows) != 2 || rows[0].Actor != "node:"+n.ID && rows[1].Actor != "node:"+n.ID {
			t.Errorf("%+v", rows)
		}
	})
}
