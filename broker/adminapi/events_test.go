package adminapi_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/cloudevents/sdk-go/v2/event"

	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/outbox"
	"github.com/hostler/hostler/broker/server/servertest"
)

func newSiteNode(t *testing.T, b *servertest.Broker, hostname, site string) api.Node {
	t.Helper()
	b.OnRecord(t, site)
	return servertest.Must[api.NodeBootstrap](t, b, http.MethodPost, "/nodes", api.NodeCreate{Hostname: hostname, Site: site}).Node
}

// all reads a stream to its end.
func all(t *testing.T, s *servertest.Stream) (events []api.Event) {
	t.Helper()
	for {
		e, open := s.Next(t)
		if !open {
			return events
		}
		events = append(events, e)
	}
}

// kept reads the kept events, once n of them have their place.
func kept(t *testing.T, b *servertest.Broker, n int) (events []api.Event) {
	t.Helper()
	servertest.Eventually(t, fmt.Sprintf("%d events", n), func() bool {
		events = all(t, b.Events(t, b.Token, "?after=0&follow=false"))
		return len(events) >= n
	})
	return events
}

func TestEventsAreReplayedAsCloudEvents(t *testing.T) {
	b := servertest.Start(t)
	n := newSiteNode(t, b, "h1", "dc1")
	servertest.Must[api.NodeActionResult](t, b, http.MethodPost, "/nodes/h1/actions/remove", api.NodeAction{Reason: "<script>"})
	events := kept(t, b, 2)
	if e := events[1]; e.ID != "2" || e.Type != "node.status.changed" || e.Subject != "node/"+n.ID || e.Site != "dc1" || e.SpecVersion != "1.0" || e.Time.IsZero() || e.CorrelationID == "" || !strings.Contains(string(e.Data), `"to":"deleted"`) {
		t.Errorf("the second event is %+v", e)
	}
	raw := b.Ask(t, b.Token, http.MethodGet, "/events?after=1&follow=false", nil)
	if strings.Contains(string(raw.Body), "<") {
		t.Errorf("markup leaves as it was: %s", raw.Body)
	}
	_, data, _ := strings.Cut(string(raw.Body), "data: ")
	data, _, _ = strings.Cut(data, "\n")
	var ce event.Event
	if err := ce.UnmarshalJSON([]byte(data)); err != nil || ce.Validate() != nil || ce.ID() != "2" || ce.Extensions()["site"] != "dc1" {
		t.Errorf("it reads as %v, %v", ce, err)
	}
}

func TestAFollowerHearsOfAChangeAtOnceAndGoesOnWhereItWas(t *testing.T) {
	b := servertest.Start(t)
	newSiteNode(t, b, "before", "")
	kept(t, b, 1)
	s := b.Events(t, b.Token, "")
	n := newSiteNode(t, b, "h1", "dc1")
	e, _ := s.Next(t)
	if e.ID != "2" || e.Subject != "node/"+n.ID {
		t.Fatalf("it heard %+v", e)
	}
	s.Close()
	newSiteNode(t, b, "h2", "dc1")
	newSiteNode(t, b, "h3", "dc1")
	s = b.Events(t, b.Token, "?after="+e.ID)
	for _, want := range []string{"3", "4"} {
		if e, _ = s.Next(t); e.ID != want {
			t.Errorf("it goes on with %s, want %s", e.ID, want)
		}
	}
}

func TestEventsAreFiltered(t *testing.T) {
	b := servertest.Start(t)
	n := newSiteNode(t, b, "h1", "dc1")
	newSiteNode(t, b, "h2", "dc1")
	servertest.Must[api.FreezeResult](t, b, http.MethodPost, "/freeze", api.FreezePut{Site: "dc1", Reason: "r"})
	kept(t, b, 3)
	for query, want := range map[string]int{
		"":                                       3,
		"&subject=node/" + n.ID:                  1,
		"&type=site.freeze":                      1,
		"&type=site.freeze&type=none":            1,
		"&type=none":                             0,
		"&type=site.freeze&subject=node/" + n.ID: 0,
	} {
		if got := all(t, b.Events(t, b.Token, "?after=0&follow=false"+query)); len(got) != want {
			t.Errorf("%s gives %+v, want %d", query, got, want)
		}
	}
	for query, code := range map[string]string{"?after=99": "event_unknown", "?after=-1": "event_unknown", "?after=x": "event_unknown"} {
		if a := b.Ask(t, b.Token, http.MethodGet, "/events"+query, nil); a.Code() != code {
			t.Errorf("%s: %d %s, want %s", query, a.Status, a.Body, code)
		}
	}
}

func TestATokenOfASiteSeesNoOtherSitesEvents(t *testing.T) {
	b := servertest.Start(t)
	mine := newSiteNode(t, b, "h1", "dc1")
	other := newSiteNode(t, b, "h2", "dc2")
	newSiteNode(t, b, "h3", "")
	for _, site := range []string{"dc2", ""} {
		servertest.Must[api.FreezeResult](t, b, http.MethodPost, "/freeze", api.FreezePut{Site: site, Reason: "r"})
	}
	kept(t, b, 5)
	bound := b.NewToken(t, api.TokenCreate{Name: "dc1", Role: "viewer", Sites: []string{"dc1"}})
	got := all(t, b.Events(t, bound, "?after=0&follow=false"))
	if len(got) != 2 || got[0].Subject != "node/"+mine.ID || got[1].Subject != "site/*" {
		t.Errorf("it reads %+v", got)
	}
	if got := all(t, b.Events(t, bound, "?after=0&follow=false&subject=node/"+other.ID)); len(got) != 0 {
		t.Errorf("asked for it by name, it reads %+v", got)
	}
	s := b.Events(t, bound, "")
	newSiteNode(t, b, "h4", "dc2")
	last := newSiteNode(t, b, "h5", "dc1")
	if e, _ := s.Next(t); e.Subject != "node/"+last.ID {
		t.Errorf("following, it reads %+v", e)
	}
}

func TestAStreamEndsWithItsTokenAndWithTheBroker(t *testing.T) {
	b := servertest.Start(t)
	secret := b.NewToken(t, api.TokenCreate{Name: "short", Role: "viewer"})
	revoked, open := b.Events(t, secret, ""), b.Events(t, b.Token, "")
	servertest.Must[api.Token](t, b, http.MethodPost, "/tokens/short/revoke", api.ReasonBody{Reason: "test"})
	if e, open := revoked.Next(t); open {
		t.Errorf("a revoked token reads %+v", e)
	}
	stopped := make(chan time.Duration, 1)
	go func() {
		begun := time.Now()
		_ = b.Stop()
		stopped <- time.Since(begun)
	}()
	if e, open := open.Next(t); open {
		t.Errorf("a broker that stops says %+v", e)
	}
	if took := <-stopped; took > 5*time.Second {
		t.Errorf("the broker waited %s for a reader", took)
	}
}

func TestATokenHasSoManyStreamsAndNoMore(t *testing.T) {
	b := servertest.Start(t)
	var streams []*servertest.Stream
	for range outbox.MaxEach {
		streams = append(streams, b.Events(t, b.Token, ""))
	}
	if a := b.Ask(t, b.Token, http.MethodGet, "/events", nil); a.Code() != "too_many_readers" || a.Status != http.StatusTooManyRequests {
		t.Errorf("one more: %d %s", a.Status, a.Body)
	}
	streams[0].Close()
	servertest.Eventually(t, "room for one", func() bool {
		return b.Ask(t, b.Token, http.MethodGet, "/events?follow=false", nil).Status == http.StatusOK
	})
}
