package nats

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"net"
	"strings"
	"time"

	natsio "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/zap"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/outbox"
	"github.com/hostler/hostler/broker/store"
	"github.com/hostler/hostler/taskcatalog"
)

const (
	connectIn = 10 * time.Second
	pingEvery = 20 * time.Second
	ackIn     = 10 * time.Second // for one event
	hold      = time.Minute      // how long one look waits for events
	saveIn    = 5 * time.Second

	firstPause = time.Second
	mostPause  = time.Minute
)

// Prefix is what the subject of each event begins with; the type of the event follows.
const Prefix = "hostler.events."

// Positions records how far a relay has come. It is the store; a test puts faults before it.
type Positions interface {
	OutboxRelay(ctx context.Context, name string) (r store.OutboxRelay, known bool, err error)
	AdvanceRelay(ctx context.Context, name string, position int64) error
	TroubleRelay(ctx context.Context, name, code, trouble string) error
	SkipRelay(ctx context.Context, name string, to int64) error
}

// Relay publishes events to a stream of JetStream.
type Relay struct {
	Config    Config
	Feed      *outbox.Feed
	Positions Positions
	Log       *zap.Logger
	Retry     time.Duration // the first pause after a failure, and at most the last; zero: a second, and a minute
}

// Run relays until ctx ends.
func (r *Relay) Run(ctx context.Context) {
	most := cmp.Or(r.Retry, mostPause)
	pause := cmp.Or(r.Retry, firstPause)
	for told := ""; ctx.Err() == nil; {
		moved, err := r.session(ctx)
		if ctx.Err() != nil {
			return
		}
		if moved {
			pause, told = cmp.Or(r.Retry, firstPause), ""
		}
		e := broker.AsError(err)
		if e.Code != told {
			told = e.Code
			r.Log.Warn("events are not relayed to NATS", zap.String("code", e.Code), zap.Error(err))
		}
		err = r.Positions.TroubleRelay(ctx, r.Config.Name(), e.Code, taskcatalog.Clean(e.Message, 300))
		if err != nil && ctx.Err() == nil {
			r.Log.Warn("cannot save why events are not relayed to NATS", zap.Error(err))
		}
		wait := time.NewTimer(pause/2 + rand.N(pause)) //nolint:gosec // jitter
		select {
		case <-wait.C:
		case <-ctx.Done():
			wait.Stop()
		}
		pause = min(2*pause, most)
	}
}

// session connects and publishes until something fails. moved: something was acknowledged. Codes:
// nats_config_unusable, nats_login_failed, nats_unreachable, nats_stream_missing, nats_refused,
// nats_events_lost.
func (r *Relay) session(ctx context.Context) (moved bool, err error) {
	ctx, end := context.WithCancel(ctx)
	defer end()
	after, err := r.begin(ctx)
	if err != nil {
		return false, err
	}
	options, err := r.Config.options()
	if err != nil {
		return false, err
	}
	conn, err := natsio.Connect(strings.ReplaceAll(r.Config.URL, " ", ""), append(options, natsio.SetCustomDialer(dialing(ctx)))...)
	if err != nil {
		return false, r.explain(err, nil)
	}
	defer conn.Close()
	js, err := jetstream.New(conn)
	if err != nil {
		return false, err
	}
	for {
		page, upTo, err := r.Feed.Next(ctx, store.OutboxFilter{After: after}, hold)
		switch {
		case err != nil && broker.AsError(err).Code == "events_forgotten":
			return moved, r.skip(ctx)
		case err != nil:
			return moved, err
		case conn.IsClosed():
			return moved, r.explain(natsio.ErrConnectionClosed, conn.LastError())
		}
		acknowledged, failed := r.publish(ctx, js, page)
		if acknowledged > after {
			moved, after = true, acknowledged
			if err := r.save(ctx, acknowledged); err != nil {
				return moved, err
			}
		}
		if failed != nil {
			return moved, r.explain(failed, conn.LastError())
		}
		after = upTo
	}
}

// dialing connects until ctx ends, which also closes the connection: whoever stops the relay waits
// for no server.
func dialing(ctx context.Context) dial {
	return func(network, address string) (net.Conn, error) {
		d := net.Dialer{Timeout: connectIn}
		conn, err := d.DialContext(ctx, network, address)
		if err == nil {
			context.AfterFunc(ctx, func() { _ = conn.Close() })
		}
		return conn, err
	}
}

type dial func(network, address string) (net.Conn, error)

// Dial implements natsio.CustomDialer.
func (d dial) Dial(network, address string) (net.Conn, error) { return d(network, address) }

// begin returns the position to go on after. A new relay begins with the oldest event that is kept.
func (r *Relay) begin(ctx context.Context) (after int64, err error) {
	at, known, err := r.Positions.OutboxRelay(ctx, r.Config.Name())
	if err != nil || known {
		return at.Position, err
	}
	if after, err = r.Feed.Oldest(ctx); err != nil {
		return 0, err
	}
	return after, r.Positions.AdvanceRelay(ctx, r.Config.Name(), after)
}

// publish publishes a page, each event when the one before it is acknowledged, and returns the
// position of the last that was.
func (r *Relay) publish(ctx context.Context, js jetstream.JetStream, page []store.OutboxEvent) (last int64, err error) {
	for _, e := range page {
		m, err := message(e)
		if err != nil {
			return last, err
		}
		bounded, done := context.WithTimeout(ctx, ackIn)
		_, err = js.PublishMsg(bounded, m, jetstream.WithExpectStream(r.Config.Stream), jetstream.WithRetryAttempts(0))
		done()
		if err != nil { // an acknowledgement that says "duplicate" is none: JetStream has the event
			return last, err
		}
		last = e.Position
	}
	return last, nil
}

// message is an event as a CloudEvent in NATS' structured mode.
func message(e store.OutboxEvent) (*natsio.Msg, error) {
	ce, err := outbox.CloudEvent(e)
	if err != nil {
		return nil, err
	}
	raw, err := json.Marshal(ce)
	if err != nil {
		return nil, err
	}
	m := natsio.NewMsg(Prefix + strings.Map(subjectRune, e.Type))
	m.Data = raw
	m.Header.Set("Content-Type", "application/cloudevents+json")
	m.Header.Set(jetstream.MsgIDHeader, ce.Source()+"/"+ce.ID())
	return m, nil
}

// subjectRune keeps what a subject may have.
func subjectRune(c rune) rune {
	if c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c == '.' || c == '_' {
		return c
	}
	return '_'
}

// save records what was acknowledged, also if the broker leads no more.
func (r *Relay) save(ctx context.Context, position int64) error {
	ctx, done := context.WithTimeout(context.WithoutCancel(ctx), saveIn)
	defer done()
	return r.Positions.AdvanceRelay(ctx, r.Config.Name(), position)
}

// skip goes on after events that were deleted before NATS had them.
func (r *Relay) skip(ctx context.Context) error {
	oldest, err := r.Feed.Oldest(ctx)
	if err == nil {
		err = r.Positions.SkipRelay(ctx, r.Config.Name(), oldest)
	}
	if err != nil {
		return err
	}
	r.Log.Error("events were deleted before NATS had them", zap.Int64("up_to", oldest))
	return broker.Errorf(broker.Unavailable, "nats_events_lost", "events up to %d were deleted before NATS had them", oldest)
}

// explain turns an error of the client into one that says what to do. It names no credential. last
// is the last error that the server told the connection.
func (r *Relay) explain(err, last error) error {
	refused := &jetstream.APIError{}
	switch {
	case errors.Is(last, natsio.ErrPermissionViolation):
		return broker.Errorf(broker.Unavailable, "nats_login_failed",
			"NATS does not let the broker's user publish (let it publish to %s>, and subscribe to _INBOX.>)", Prefix)
	case errors.Is(err, natsio.ErrAuthorization), errors.Is(err, natsio.ErrAuthExpired), errors.Is(err, natsio.ErrAuthRevoked):
		return broker.Errorf(broker.Unavailable, "nats_login_failed", "NATS refuses the broker's login (put valid credentials into creds)")
	case errors.Is(err, jetstream.ErrNoStreamResponse):
		return broker.Errorf(broker.Unavailable, "nats_stream_missing",
			"no stream of NATS takes the events (create stream %s with subjects %s>)", r.Config.Stream, Prefix)
	case errors.As(err, &refused):
		return broker.Errorf(broker.Unavailable, "nats_refused", "NATS does not take an event into stream %s: %s (look at the stream's limits and subjects)",
			r.Config.Stream, taskcatalog.Clean(refused.Description, 200))
	case errors.Is(err, natsio.ErrMaxPayload):
		return broker.Errorf(broker.Unavailable, "nats_refused", "NATS does not take an event: it is larger than max_payload of the server")
	}
	return broker.Errorf(broker.Unavailable, "nats_unreachable", "NATS does not answer: %s", taskcatalog.Clean(err.Error(), 200))
}
