package terminals_test

import (
	"testing"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/terminals"
)

// A session is open until the moment at which what allowed it ends, and the first check from that moment
// on ends it. Checks follow each other so closely that two of them are well within a second.
func TestTheFirstCheckAfterItsCauseEndsASession(t *testing.T) {
	each(t, func(w *world) {
		r := w.unwatched("a.example:7442")
		eve := broker.OperatorToken{Name: "eve", Role: broker.RolePlatformAdmin, ExpiresAt: w.clock.Now().Add(5 * time.Second).Truncate(time.Microsecond)}
		w.ok(w.db.CreateOperatorToken(ctx, broker.Actor{Name: "ada"}, eve, "hash-eve"))
		expires, revoked := r.openAs(eve), r.openAs(ada)
		check := func(want map[string]string) {
			t.Helper()
			w.ok(r.service.LookOnce(ctx))
			for id, code := range want {
				s := w.row(id)
				if closed := s.Status == broker.TerminalClosed; closed != (code != "") || s.EndCode != code || r.has(id) == closed {
					t.Errorf("session %s is %s (%s), at the relay: %v; want %q", id, s.Status, s.EndCode, r.has(id), code)
				}
			}
		}
		w.clock.Advance(eve.ExpiresAt.Sub(w.clock.Now()) - time.Microsecond)
		check(map[string]string{expires: "", revoked: ""})
		w.clock.Advance(time.Microsecond)
		check(map[string]string{expires: "token_expired", revoked: ""})
		w.ok(w.db.RevokeOperatorToken(ctx, broker.Actor{Name: "eve"}, "ada", "test"))
		check(map[string]string{revoked: "token_revoked"})
		if tick := terminals.New(terminals.Config{DB: w.db}).Tick(); 2*tick > 500*time.Millisecond {
			t.Errorf("sessions are checked every %s", tick)
		}
	})
}
