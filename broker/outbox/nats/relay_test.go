package nats_test

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync/atomic"
	"testing"

	natsio "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/zap"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/outbox/nats"
	"github.com/hostler/hostler/broker/store"
	"github.com/hostler/hostler/broker/store/storetest"
)

// What is kept when the relay begins comes first, and then what happens.
func TestEventsReachTheStreamInOrder(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, clock *storetest.Clock) {
		p := newPeer(t)
		js := p.admin(t)
		newStream(t, js)
		f := feeding(t, db)
		happen(t, db, "before", 150)
		stop := running(t, relayOf(db, f, p).Run)
		inOrder(t, js, 150)
		happen(t, db, "after", 20)
		inOrder(t, js, 170)
		eventually(t, "the position", func() bool { return lag(t, db).Position == 170 })
		// Another broker leads, and goes on where the first one was.
		stop()
		happen(t, db, "later", 5)
		running(t, relayOf(db, f, p).Run)
		inOrder(t, js, 175)
	})
}

// The server is killed again and again. Nothing is lost, nothing is out of order, and what was sent
// twice is there once. Meanwhile the store says what is wrong.
func TestAServerThatIsKilledLosesNothing(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, clock *storetest.Clock) {
		p := newPeer(t)
		newStream(t, p.admin(t))
		running(t, relayOf(db, feeding(t, db), p).Run)
		for i, word := range []string{"a", "b", "c"} {
			happen(t, db, word+"-alive", 40) // the relay is at work while the server goes
			p.kill()
			happen(t, db, word+"-dead", 10)
			eventually(t, "the trouble", func() bool { return lag(t, db).Code == "nats_unreachable" })
			if l := lag(t, db); l.Waiting == 0 || l.Oldest.IsZero() || l.Since.IsZero() {
				t.Errorf("while the server is dead: %+v", l)
			}
			p.start(t)
			eventually(t, "the end of the trouble", func() bool { l := lag(t, db); return l.Code == "" && l.Waiting == 0 })
			if l := lag(t, db); l.Position != int64(50*(i+1)) || l.Trouble != "" || !l.Since.IsZero() {
				t.Errorf("afterwards: %+v", l)
			}
		}
		inOrder(t, p.admin(t), 150)
	})
}

// unsaved is a store before which brokers are killed: what was acknowledged is not recorded.
type unsaved struct {
	*store.DB
	kills atomic.Int32
}

func (u *unsaved) AdvanceRelay(ctx context.Context, name string, position int64) error {
	if position > 0 && u.kills.Add(-1) >= 0 {
		return errors.New("killed")
	}
	return u.DB.AdvanceRelay(ctx, name, position)
}

// A broker is killed between the acknowledgement and the record of it. The events are sent again,
// and JetStream knows them by their id.
func TestABrokerThatIsKilledBeforeItsRecordSendsAgain(t *testing.T) {
	db := storetest.Open(t, "sqlite", nil)
	p := newPeer(t)
	js := p.admin(t)
	newStream(t, js)
	f := feeding(t, db)
	happen(t, db, "one", 30)
	eventually(t, "the positions", func() bool { newest, _, err := db.OutboxEnds(ctx); return err == nil && newest == 30 })
	var sent atomic.Int32 // each time, as any subscriber sees it
	if _, err := js.Conn().Subscribe(nats.Prefix+">", func(*natsio.Msg) { sent.Add(1) }); err != nil {
		t.Fatal(err)
	}
	if err := js.Conn().Flush(); err != nil {
		t.Fatal(err)
	}
	u := &unsaved{DB: db}
	u.kills.Store(3)
	r := relayOf(db, f, p)
	r.Positions = u
	running(t, r.Run)
	eventually(t, "the record", func() bool { return lag(t, db).Position == 30 })
	inOrder(t, js, 30)
	eventually(t, "the repeats", func() bool { return sent.Load() == 4*30 })
}

// A stream that is missing, or does not take an event, is told with what to do. Everything comes when
// it does.
func TestAStreamThatDoesNotTakeEventsIsTold(t *testing.T) {
	db := storetest.Open(t, "sqlite", nil)
	p := newPeer(t)
	js := p.admin(t)
	happen(t, db, "one", 5)
	running(t, relayOf(db, feeding(t, db), p).Run)
	eventually(t, "the missing stream", func() bool { return lag(t, db).Code == "nats_stream_missing" })
	if l := lag(t, db); !strings.Contains(l.Trouble, "create stream EVENTS with subjects hostler.events.>") {
		t.Errorf("%+v", l)
	}
	// The subjects belong to a stream of another name.
	other := func(c *jetstream.StreamConfig) { c.Name = "OTHER" }
	newStream(t, js, other)
	eventually(t, "the refusal", func() bool { return lag(t, db).Code == "nats_refused" })
	if err := js.DeleteStream(ctx, "OTHER"); err != nil {
		t.Fatal(err)
	}
	newStream(t, js, func(c *jetstream.StreamConfig) { c.MaxMsgs, c.Discard = 2, jetstream.DiscardNew })
	eventually(t, "the full stream", func() bool { l := lag(t, db); return l.Position == 2 && l.Code == "nats_refused" })
	if _, err := js.UpdateStream(ctx, jetstream.StreamConfig{Name: "EVENTS", Subjects: []string{nats.Prefix + ">"}}); err != nil {
		t.Fatal(err)
	}
	inOrder(t, js, 5)
}

// Events that were deleted before NATS had them are counted, and the relay goes on.
func TestWhatWasDeletedBeforeItWasRelayedIsTold(t *testing.T) {
	db := storetest.Open(t, "sqlite", nil)
	p := newPeer(t)
	js := p.admin(t)
	newStream(t, js)
	f := feeding(t, db)
	happen(t, db, "one", 3)
	eventually(t, "the events", func() bool { n, err := f.Newest(ctx); return err == nil && n == 3 })
	if err := db.AdvanceRelay(ctx, "nats/EVENTS", 1); err != nil {
		t.Fatal(err)
	}
	if _, err := db.ForgetEvents(ctx, db.Now().Add(1), 0, 1000, ""); err != nil {
		t.Fatal(err)
	}
	happen(t, db, "two", 2)
	running(t, relayOf(db, f, p).Run)
	eventually(t, "the rest", func() bool { return lag(t, db).Position == 5 })
	if l := lag(t, db); l.Lost != 2 || l.LostAt.IsZero() {
		t.Errorf("%+v", l)
	}
	if all := stored(t, js); len(all) != 2 {
		t.Errorf("the stream has %d messages", len(all))
	}
}

// A server that accepts and says nothing holds nobody up who stops the relay.
func TestASilentServerHoldsNobodyUp(t *testing.T) {
	db := storetest.Open(t, "sqlite", nil)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	accepted := make(chan net.Conn, 1)
	go func() {
		conn, err := l.Accept()
		if err == nil {
			accepted <- conn
		}
	}()
	r := &nats.Relay{
		Config: nats.Config{URL: "nats://" + l.Addr().String(), Stream: "EVENTS"}, Feed: feeding(t, db), Positions: db, Log: zap.NewNop(),
	}
	work, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() { r.Run(work); close(ended) }()
	conn := <-accepted
	defer func() { _ = conn.Close() }()
	cancel()
	bounded, done := context.WithTimeout(ctx, 5e9)
	defer done()
	select {
	case <-ended:
	case <-bounded.Done():
		t.Error("the relay waits for the server")
	}
}

func TestAConfigurationThatSendsInTheClearIsRefused(t *testing.T) {
	for _, row := range []struct {
		url, stream string
		fine        bool
	}{
		{"tls://nats.example:4222", "EVENTS", true},
		{"tls://a.example, tls://b.example:4222", "EVENTS", true},
		{"nats://127.0.0.1:4222", "EVENTS", true},
		{"nats://[::1]", "EVENTS", true},
		{"nats://nats.example:4222", "EVENTS", false},
		{"nats://localhost:4222", "EVENTS", false}, // a name may be any machine's
		{"tls://a.example,nats://b.example", "EVENTS", false},
		{"tls://user:planted-password@nats.example", "EVENTS", false},
		{"ws://127.0.0.1", "EVENTS", false},
		{"127.0.0.1:4222", "EVENTS", false},
		{"", "EVENTS", false},
		{"tls://nats.example", "", false},
		{"tls://nats.example", "A.B", false},
		{strings.Repeat("tls://a.example,", 16) + "tls://a.example", "EVENTS", false},
	} {
		c := nats.Config{URL: row.url, Stream: row.stream}
		err := c.Check()
		if (err == nil) != row.fine || err != nil && (broker.AsError(err).Code != "config_invalid" || strings.Contains(err.Error(), "planted")) {
			t.Errorf("%s %s: %v", row.url, row.stream, err)
		}
	}
	var none *nats.Config
	if none.Check() != nil || none.Name() != "" {
		t.Error("no configuration is not taken")
	}
}
