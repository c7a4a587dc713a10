package nats_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/outbox/nats"
	"github.com/hostler/hostler/broker/server"
	"github.com/hostler/hostler/broker/server/servertest"
)

// A whole broker relays. While NATS is dead it works on, and after five minutes its status, its
// metric and nothing else say so.
func TestABrokerRelaysAndSaysWhatNATSLacks(t *testing.T) {
	p := newPeer(t)
	newStream(t, p.admin(t))
	b := servertest.Start(t, func(c *server.Config) { c.NATS = &nats.Config{URL: p.url(), Stream: "EVENTS"} })
	b.OnRecord(t, "dc1")
	node := func(name string) {
		t.Helper()
		servertest.Must[api.NodeBootstrap](t, b, http.MethodPost, "/nodes", api.NodeCreate{Hostname: name, Site: "dc1"})
	}
	alerts := func() []api.Alert {
		return slices.DeleteFunc(servertest.Must[api.Status](t, b, http.MethodGet, "/status", nil).Alerts, func(a api.Alert) bool {
			return !strings.HasPrefix(a.Code, "events_")
		})
	}
	node("one")
	inOrder(t, p.admin(t), 1)
	if got := alerts(); len(got) != 0 {
		t.Errorf("while all is well: %+v", got)
	}
	p.kill()
	node("two")
	node("three")
	eventually(t, "the events", func() bool {
		raw := b.Ask(t, b.Token, http.MethodGet, "/events?after=0&follow=false", nil)
		b.Advance(time.Second) // no token asks too often
		return strings.Count(string(raw.Body), "data: ") == 3
	})
	if got := alerts(); len(got) != 0 {
		t.Errorf("after a moment: %+v", got)
	}
	b.Advance(6 * time.Minute)
	eventually(t, "the alert", func() bool {
		b.Advance(time.Second)
		got := alerts()
		return len(got) == 1 && got[0].Code == "events_not_relayed" && strings.Contains(got[0].Message, "NATS lacks 2 events: NATS does not answer")
	})
	metrics := b.Ask(t, b.Token, http.MethodGet, b.OperatorURL()+"/metrics", nil)
	if !strings.Contains(string(metrics.Body), "\nhostler_events_relay_lag_seconds 3") { // more than 300
		t.Errorf("the metric is not among %s", metrics.Body)
	}
	p.start(t)
	inOrder(t, p.admin(t), 3)
	eventually(t, "the end of the alert", func() bool {
		b.Advance(time.Second)
		return len(alerts()) == 0
	})
}
