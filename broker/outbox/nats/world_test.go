package nats_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	natsio "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/zap"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/outbox"
	"github.com/hostler/hostler/broker/outbox/nats"
	"github.com/hostler/hostler/broker/store"
)

var (
	ctx   = context.Background()
	admin = broker.Actor{Name: "ada", Role: broker.RolePlatformAdmin}
)

const retry = 5 * time.Millisecond

// peer is a nats-server that can be killed and started again over the same files and port.
type peer struct {
	options server.Options
	running *server.Server
}

func newPeer(t *testing.T, change ...func(*server.Options)) *peer {
	t.Helper()
	p := &peer{options: server.Options{Host: "127.0.0.1", Port: -1, JetStream: true, StoreDir: t.TempDir(), NoLog: true, NoSigs: true}}
	for _, f := range change {
		f(&p.options)
	}
	p.start(t)
	t.Cleanup(p.kill)
	return p
}

func (p *peer) start(t *testing.T) {
	t.Helper()
	options := p.options
	s, err := server.NewServer(&options)
	if err != nil {
		t.Fatal(err)
	}
	go s.Start()
	if !s.ReadyForConnections(10 * time.Second) {
		t.Fatal("nats-server does not start")
	}
	p.running, p.options.Port = s, s.Addr().(*net.TCPAddr).Port
}

func (p *peer) kill() {
	p.running.Shutdown()
	p.running.WaitForShutdown()
}

func (p *peer) url() string { return fmt.Sprintf("nats://127.0.0.1:%d", p.options.Port) }

// admin is a client that manages streams.
func (p *peer) admin(t *testing.T, options ...natsio.Option) jetstream.JetStream {
	t.Helper()
	conn, err := natsio.Connect(p.url(), options...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	js, err := jetstream.New(conn)
	if err != nil {
		t.Fatal(err)
	}
	return js
}

func newStream(t *testing.T, js jetstream.JetStream, change ...func(*jetstream.StreamConfig)) {
	t.Helper()
	c := jetstream.StreamConfig{Name: "EVENTS", Subjects: []string{nats.Prefix + ">"}}
	for _, f := range change {
		f(&c)
	}
	if _, err := js.CreateStream(ctx, c); err != nil {
		t.Fatal(err)
	}
}

// stored reads all messages of the stream.
func stored(t *testing.T, js jetstream.JetStream) (all []*jetstream.RawStreamMsg) {
	t.Helper()
	s, err := js.Stream(ctx, "EVENTS")
	if err != nil {
		t.Fatal(err)
	}
	for seq := uint64(1); seq <= s.CachedInfo().State.LastSeq; seq++ {
		m, err := s.GetMsg(ctx, seq)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, m)
	}
	return all
}

// inOrder checks that the stream has the events 1 to n, each once and in order.
func inOrder(t *testing.T, js jetstream.JetStream, n int) {
	t.Helper()
	eventually(t, fmt.Sprintf("%d events in the stream", n), func() bool {
		s, err := js.Stream(ctx, "EVENTS")
		return err == nil && s.CachedInfo().State.LastSeq >= uint64(n)
	})
	all := stored(t, js)
	if len(all) != n {
		t.Errorf("the stream has %d messages, want %d", len(all), n)
	}
	for i, m := range all {
		var e struct{ ID, Type, Source string }
		if err := json.Unmarshal(m.Data, &e); err != nil || e.ID != fmt.Sprint(i+1) || m.Subject != nats.Prefix+e.Type || m.Header.Get(jetstream.MsgIDHeader) != e.Source+"/"+e.ID {
			t.Fatalf("message %d is %s %v %s, %v", i+1, m.Subject, m.Header, m.Data, err)
		}
	}
}

func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	late, look := time.After(30*time.Second), time.NewTicker(5*time.Millisecond)
	defer look.Stop()
	for !is() {
		select {
		case <-look.C:
		case <-late:
			t.Fatalf("waited in vain for %s", what)
		}
	}
}

// running has functions run beside the test until stop is called.
func running(t *testing.T, runs ...func(context.Context)) (stop func()) {
	t.Helper()
	work, cancel := context.WithCancel(ctx)
	ended := make(chan struct{}, len(runs))
	for _, run := range runs {
		go func() {
			run(work)
			ended <- struct{}{}
		}()
	}
	stopped := false
	stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		for range runs {
			<-ended
		}
	}
	t.Cleanup(stop)
	return stop
}

// feeding runs what gives events their positions, and returns the feed.
func feeding(t *testing.T, db *store.DB) *outbox.Feed {
	t.Helper()
	f, k := outbox.NewFeed(db), &outbox.Keeper{DB: db, Log: zap.NewNop()}
	running(t, k.Run, func(ctx context.Context) { _ = f.Run(ctx) })
	return f
}

// happen makes n events.
func happen(t *testing.T, db *store.DB, word string, n int) {
	t.Helper()
	for i := range n {
		name := fmt.Sprintf("%s-%d", word, i)
		if _, err := db.CreateNode(ctx, admin, store.NewNode{ID: "n-" + name, Hostname: name, Site: "dc1"}); err != nil {
			t.Fatal(err)
		}
	}
}

// relayOf is a relay to a server.
func relayOf(db *store.DB, f *outbox.Feed, p *peer) *nats.Relay {
	return &nats.Relay{Config: nats.Config{URL: p.url(), Stream: "EVENTS"}, Feed: f, Positions: db, Log: zap.NewNop(), Retry: retry}
}

// lag reads what the relay has not passed on.
func lag(t *testing.T, db *store.DB) store.RelayLag {
	t.Helper()
	l, err := db.RelayLag(ctx, "nats/EVENTS")
	if err != nil {
		t.Fatal(err)
	}
	return l
}
