package nodeapi

import (
	"database/sql"
	"net"
	"testing"
	"testing/synctest"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx", to hold a lock

	"github.com/hostler/hostler/broker/store/storetest"
)

// A idleConns is empty soon after clear begins, whatever its connections wait for.
func TestALotIsClearedInTime(t *testing.T) {
	for name, wait := range map[string]func(l *idleConns, c net.Conn){
		"a node that reads no answer":      func(_ *idleConns, c net.Conn) { _, _ = c.Write([]byte("answer")) },
		"a database that answers no look":  func(l *idleConns, _ net.Conn) { <-l.looks.Done() },
		"a connection that is quiet":       func(l *idleConns, c net.Conn) { l.idle(&returned{Conn: c}) },
		"one that is quiet a moment later": func(l *idleConns, c net.Conn) { <-l.over; l.idle(&returned{Conn: c}) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newIdleConns()
				ours, theirs := net.Pipe()
				if !l.take(ours, func() { wait(l, ours) }) {
					t.Fatal("an open idleConns takes nothing")
				}
				synctest.Wait()
				begun := time.Now()
				l.clear()
				if took := time.Since(begun); took > idleGrace {
					t.Errorf("it took %v", took)
				}
				if len(l.conns) != 0 {
					t.Errorf("%d connections are left", len(l.conns))
				}
				if l.take(ours, func() { t.Error("it waits") }) {
					t.Error("a closed idleConns takes more")
				}
				_ = theirs.Close()
			})
		})
	}
}

// A broker that stops while its database hangs leaves no poll behind.
func TestAPollThatLooksInADatabaseThatHangsEndsWithTheBroker(t *testing.T) {
	clock, url := storetest.NewClock(), storetest.URL(t, "postgres")
	b := newBrokerOn(t, storetest.Reopen(t, url, clock.Now), clock)
	l := b.quiet().line()
	l.polls(1)
	other := must(sql.Open("pgx", url))(t)
	defer func() { _ = other.Close() }()
	held := must(other.Begin())(t)
	must(held.Exec("LOCK TABLE tasks IN ACCESS EXCLUSIVE MODE"))(t)
	b.polls.mu.Lock()
	for p := range b.polls.waiting {
		p.end(nil) // the poll looks for work
	}
	b.polls.mu.Unlock()
	eventually(t, "the look hangs", func() bool {
		var waiting int
		must0(t, held.QueryRow("SELECT COUNT(*) FROM pg_locks WHERE NOT granted").Scan(&waiting))
		return waiting > 0
	})
	b.stop()
	eventually(t, "no poll waits", func() bool { return b.WaitingPolls() == 0 })
	must0(t, held.Rollback())
}
