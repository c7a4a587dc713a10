package terminals_test

import (
	"io"
	"testing"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/store"
	"github.com/hostler/hostler/taskcatalog/wire/frame"
)

// side is the side of an operator who only waits for the Bye.
type side struct {
	bye  chan frame.Bye
	gone chan struct{}
}

func (s *side) Next() (frame.Frame, error) { <-s.gone; return nil, io.EOF }

func (s *side) Send(f frame.Frame) error {
	if bye, is := f.(frame.Bye); is {
		s.bye <- bye
	}
	return nil
}

func (s *side) Close() error {
	select {
	case <-s.gone:
	default:
		close(s.gone)
	}
	return nil
}

// A guest in another operator's session is disconnected when his right to it ends; the session goes
// on. The audit log has the guest's join.
func TestAGuestWhoMayNotBeThereLeaves(t *testing.T) {
	each(t, func(w *world) {
		guest := broker.OperatorToken{Name: "gus", Role: broker.RolePlatformAdmin}
		w.ok(w.db.CreateOperatorToken(ctx, broker.Actor{Name: "test"}, guest, "hash-gus"))
		a := w.replica("a.example:7442")
		id := a.open()
		k, err := a.service.Ticket(ctx, guest, id, size)
		w.ok(err)
		w.ok(a.service.Join(ctx, guest, id, k.Secret))
		if n, err := w.db.ListAudit(ctx, store.AuditFilter{Action: "terminal.join", Subject: "terminal/" + id, Limit: 9}); err != nil || len(n) != 1 || n[0].Actor != "gus" {
			t.Errorf("%+v %v", n, err)
		}
		s := &side{bye: make(chan frame.Bye, 1), gone: make(chan struct{})}
		w.ok(a.relay.Attach(id, guest.Name, frame.Hello{}, s))
		w.ok(w.db.RevokeOperatorToken(ctx, broker.Actor{Name: "eve"}, "gus", "test"))
		if bye := <-s.bye; bye.Code != "token_revoked" || bye.Lasts {
			t.Errorf("%+v", bye)
		}
		if row := w.row(id); row.Status.Over() || !a.has(id) {
			t.Errorf("the session is %+v", row)
		}
	})
}
