package relay_test

import (
	"database/sql"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hostler/hostler/broker/recording"
	"github.com/hostler/hostler/broker/store"
	"github.com/hostler/hostler/pki"
	"github.com/hostler/hostler/taskcatalog/wire/frame"
)

// raw opens the store's database, for changes that callers of the store cannot make.
func (s *site) raw() *sql.DB {
	s.Helper()
	db := must(sql.Open("sqlite", strings.TrimPrefix(s.url, "sqlite:")+"?_pragma=busy_timeout(10000)"))(s)
	s.Cleanup(func() { _ = db.Close() })
	return db
}

func (s *site) exec(statement string) {
	s.Helper()
	must(s.raw().Exec(statement))(s)
}

// holdsTheStore blocks all writes to the store until letGo is called.
func (s *site) holdsTheStore() (letGo func()) {
	s.Helper()
	conn := must(s.raw().Conn(ctx))(s)
	must(conn.ExecContext(ctx, "BEGIN IMMEDIATE"))(s)
	letGo = sync.OnceFunc(func() { must(conn.ExecContext(ctx, "ROLLBACK"))(s) })
	s.Cleanup(letGo)
	return letGo
}

// An unavailable store does not end the session of a good node: the relay asks again, for as long
// as a recording may wait.
func TestADenialThatTheStoreCannotExplainIsAskedAboutAgain(t *testing.T) {
	for name, comesBack := range map[string]bool{"it comes back": true, "it stays away": false} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t)
			n, _ := s.join("quic", s.token, frame.Hello{})
			if err := s.db.Deny(ctx, admin, pki.Serial(s.node.Cert.Leaf), store.DenyRotated); err != nil {
				t.Fatal(err)
			}
			s.exec("ALTER TABLE certificates RENAME TO certificates_away")
			s.deny(s.node)
			at := time.Now()
			for asked := 0; asked < 3; asked++ { // each after a further tick; no tick drops the node
				n.send(frame.Ping{Nonce: uint64(asked)})
				until[frame.Pong](t, n.next, nil)
				s.eventually("some ticks have passed", func() bool { return time.Since(at) > time.Duration(asked+1)*50*time.Millisecond })
			}
			if !comesBack {
				s.clock.Advance(10 * time.Second)
				if bye := byeOf(t, n.next); bye.Code != "certificate_denied" || bye.Lasts {
					t.Errorf("%+v", bye)
				}
				n.close()
				s.ends("certificate_denied")
				return
			}
			s.exec("ALTER TABLE certificates_away RENAME TO certificates")
			if bye := byeOf(t, n.next); bye.Code != "certificate_denied" || !bye.Lasts {
				t.Errorf("%+v", bye)
			}
		})
	}
}

// The previous relay may learn of the program's exit until the very moment in which another relay
// takes the session.
func TestARelayThatTakesASessionKnowsWhatTheOneBeforeWroteLast(t *testing.T) {
	s := newSite(t)
	s.join("quic", s.token, frame.Hello{})
	first := s.relay
	s.exec("CREATE TRIGGER last_write BEFORE UPDATE OF replica ON terminal_sessions BEGIN UPDATE terminal_sessions SET exit_status = 3 WHERE id = NEW.id; END")
	s.begin()
	if err := s.relay.Open(ctx, "ts-1", recording.Header{Width: 80, Height: 24}); err != nil {
		t.Fatal(err)
	}
	if err := first.Release("ts-1"); err != nil {
		t.Fatal(err)
	}
	s.attach(frame.Hello{}).seesTheEnd("")
	s.ends("terminal_exited")
}
