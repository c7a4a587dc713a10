package store_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/chain"
	"github.com/hostler/hostler/broker/store"
	"github.com/hostler/hostler/broker/store/storetest"
)

// Which sessions are deleted, and which stay at any age. All but the live session are closed.
func TestOldTerminalSessionsGo(t *testing.T) {
	rows := map[string]struct {
		stays bool
		as    []string
	}{
		"ts-never":   {false, nil}, // nobody came, nothing was recorded
		"ts-dropped": {false, []string{`UPDATE terminal_sessions SET recorded_at = 1, dropped_at = 2 WHERE id = '{}'`}},
		"ts-ticket":  {false, []string{`INSERT INTO terminal_tickets (hash, session_id, operator, width, height, expires_at) VALUES ('h', '{}', 'ada', 80, 24, 0)`}},
		"ts-kept":    {true, []string{`UPDATE terminal_sessions SET recorded_at = 1 WHERE id = '{}'`}}, // the recording was not dropped
		"ts-open":    {true, []string{`INSERT INTO recording_blocks (session_id, seq, at, upto, lost, last, lines, prev, hash) VALUES ('{}', 0, 0, 0, 0, FALSE, '', '', '')`}},
		"ts-untold":  {true, []string{`UPDATE terminal_sessions SET node_told = FALSE WHERE id = '{}'`}},
		"ts-since":   {true, []string{`UPDATE terminal_sessions SET closed_at = closed_at + 34560000000000 WHERE id = '{}'`}},
		"ts-live":    {true, []string{`UPDATE terminal_sessions SET status = 'detached', closed_at = 0 WHERE id = '{}'`}},
	}
	storetest.Each(t, func(t *testing.T, db *store.DB, clock *storetest.Clock) {
		n := newMember(t, db, "alpha")
		var want []string
		for id, row := range rows {
			newTerminal(t, db, id, n)
			must(db.MoveTerminalSession(ctx, admin, id, store.TerminalMove{To: broker.TerminalClosed}))(t)
			ok(t, store.Exec(ctx, db, `UPDATE terminal_sessions SET node_told = TRUE WHERE id = '`+id+`'`))
			for _, statement := range row.as {
				ok(t, store.Exec(ctx, db, strings.ReplaceAll(statement, "{}", id)))
			}
			if row.stays {
				want = append(want, id)
			}
		}
		slices.Sort(want)
		h := aged(db, clock)
		before := len(must(db.ListAudit(ctx, store.AuditFilter{Limit: 1000}))(t))
		for range 2 { // the second time nothing is left to delete
			for p := new(store.HistoryPage); p != nil; {
				p = must(db.DropTerminals(ctx, h, *p, 3))(t)
			}
		}
		left := must(store.Left(ctx, db, "terminal_sessions", "id"))(t)
		if slices.Sort(left); !slices.Equal(left, want) {
			t.Errorf("left are %v, want %v", left, want)
		}
		if tickets := must(store.Left(ctx, db, "terminal_tickets", "hash"))(t); len(tickets) > 0 {
			t.Errorf("tickets are left: %v", tickets)
		}
		told := must(db.ListAudit(ctx, store.AuditFilter{Action: "terminal.dropped"}))(t)
		if len(told) == 0 || told[0].Subject != "terminal_sessions" || len(must(db.ListAudit(ctx, store.AuditFilter{Limit: 1000}))(t)) != before+len(told) {
			t.Errorf("audited %+v", told)
		}
	})
}

// An old lifted hold is deleted. A hold stays if an unended run existed during the hold, because
// the stages of that run do not count the hold's time.
func TestOldHoldsGo(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, clock *storetest.Clock) {
		ada := chain.Actor{Name: "ada"}
		hold := func(site, reason string) {
			t.Helper()
			ok(t, db.PlaceHold(ctx, ada, chain.SiteHold{Site: site, Kind: chain.Freeze, Reason: reason}))
			clock.Advance(time.Hour)
			ok(t, db.LiftHold(ctx, ada, site, chain.Freeze, "over"))
			clock.Advance(time.Hour)
		}
		left := func() string {
			t.Helper()
			return strings.Join(must(store.Left(ctx, db, "chain_holds", "reason"))(t), " ")
		}
		hold("dc1", "a")
		hold("", "b")
		ok(t, db.Insert(ctx, []chain.NewRun{{Record: chain.Record{
			ID: "r", Kind: "k", Site: "dc1", Status: chain.Pending, Stage: "s", Direction: chain.Forward, Attempt: 1, DueAt: clock.Now(), RequestedBy: "ada",
		}}}, nil))
		clock.Advance(time.Minute)
		hold("dc1", "c")
		hold("dc2", "d")
		hold("", "e")
		ok(t, db.PlaceHold(ctx, ada, chain.SiteHold{Site: "dc2", Kind: chain.Freeze, Reason: "f"}))
		young := clock.Now()
		clock.Advance(time.Hour)
		hold("dc1", "g")
		for _, round := range []struct {
			dropped int64
			left    string
		}{{2, "c d e f g"}, {1, "c e f g"}, {0, "c e f g"}} {
			if n := must(db.DropHolds(ctx, young, 2))(t); n != round.dropped || left() != round.left {
				t.Fatalf("%d went and %q are left, want %d and %q", n, left(), round.dropped, round.left)
			}
		}
		ok(t, store.Exec(ctx, db, `UPDATE chain_runs SET status = 'completed'`))
		if n := must(db.DropHolds(ctx, young, 9))(t); n != 2 || left() != "f g" {
			t.Errorf("with the run over %d went and %q are left", n, left())
		}
		if n := audited(t, db, "hold.dropped", ""); n != 3 {
			t.Errorf("%d rows in the audit log", n)
		}
	})
}
