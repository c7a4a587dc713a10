package webhook_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/outbox/webhook"
)

// sends sends something to a URL and returns the code; empty: the endpoint took it.
func (w *world) sends(t testing.TB, s *webhook.Sender, h broker.Webhook, url string) (code, text string) {
	t.Helper()
	h.URL = url
	err := s.Send(ctx, h, "id-1", map[string]string{"a": "b"})
	if err == nil {
		return "", ""
	}
	return broker.AsError(err).Code, err.Error()
}

// No form of a name or an address reaches what is not permitted, and no refusal tells a name that
// exists apart from one that does not.
func TestWhatIsNotPublicIsNotReached(t *testing.T) {
	w, _ := openWorld(t)
	e := newEndpoint(t)
	w.project(t, "acme")
	h := w.hook(t, "acme", e.URL)
	n := &names{}
	for host, addresses := range map[string]string{
		"loop.example": "127.0.0.1", "mapped.example": "::ffff:127.0.0.1", "private.example": "10.0.0.9", "metadata.example": "169.254.169.254",
		"shared.example": "100.64.1.1", "six.example": "fd00::9", "nat64.example": "64:ff9b::7f00:1", "zero.example": "0.0.0.0",
		"mixed.example": "8.8.8.8 127.0.0.1", "bmc-17.mgmt.example": "192.168.7.17",
	} {
		n.set(host, strings.Fields(addresses)...)
	}
	s := w.sender(t, webhook.Config{CAFile: e.ca(t)}, n.use)
	_, at, _ := net.SplitHostPort(e.Listener.Addr().String())
	for _, host := range []string{
		"127.0.0.1", "[::1]", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "0.0.0.0", "[::]", "10.0.0.9", "loop.example", "mapped.example", "private.example",
		"metadata.example", "shared.example", "six.example", "nat64.example", "zero.example", "mixed.example", "bmc-17.mgmt.example", "unknown.example",
	} {
		code, text := w.sends(t, s, h, "https://"+host+":"+at+"/")
		bare := strings.Trim(host, "[]")
		checked := s.CheckHost(ctx, bare)
		if code != "webhook_address_refused" || checked == nil || checked.Error() != text {
			t.Errorf("%s: %s %s, %v", host, code, text, checked)
		}
		if unknown := s.CheckHost(ctx, "unknown.example"); strings.ReplaceAll(text, bare, "H") != strings.ReplaceAll(unknown.Error(), "unknown.example", "H") {
			t.Errorf("%s is told apart from an unknown name: %s", host, text)
		}
	}
	if got := e.requests(); len(got) != 0 {
		t.Errorf("the endpoint got %+v", got)
	}
}

// A name that was public when the webhook was registered has a loopback address when the broker
// sends.
func TestANameThatChangesItsAddressIsNotFollowed(t *testing.T) {
	w, _ := openWorld(t)
	e := newEndpoint(t)
	w.project(t, "acme")
	n := &names{}
	n.set("example.com", "8.8.8.8")
	s := w.sender(t, webhook.Config{CAFile: e.ca(t)}, n.use)
	if err := s.CheckHost(ctx, "example.com"); err != nil {
		t.Fatal(err)
	}
	_, port, _ := net.SplitHostPort(e.Listener.Addr().String())
	h := w.hook(t, "acme", "https://example.com:"+port+"/")
	n.set("example.com", "127.0.0.1")
	w.delivering(t, s)
	w.happen(t, "acme", 1)
	eventually(t, "the refusal", func() bool { return w.look(t, h).Code == "webhook_address_refused" })
	if got := e.requests(); len(got) != 0 {
		t.Errorf("the endpoint got %+v", got)
	}
	// With the network allowed, the same endpoint gets it: the certificate of httptest is for example.com.
	allowed := w.sender(t, loopback(t, e), n.use)
	if code, text := w.sends(t, allowed, h, h.URL); code != "" {
		t.Errorf("%s %s", code, text)
	}
}

func TestARedirectIsNotFollowed(t *testing.T) {
	w, _ := openWorld(t)
	e, inner := newEndpoint(t), newEndpoint(t)
	w.project(t, "acme")
	h := w.hook(t, "acme", e.URL)
	s := w.sender(t, loopback(t, e))
	for _, code := range []int{301, 302, 303, 307, 308} {
		e.answers(func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, inner.URL, code) })
		if code, text := w.sends(t, s, h, e.URL); code != "webhook_redirected" || strings.Contains(text, inner.URL) {
			t.Errorf("%s %s", code, text)
		}
	}
	if got := inner.requests(); len(got) != 0 {
		t.Errorf("the other endpoint got %+v", got)
	}
}

// An answer without an end costs nothing: its head suffices. A head without an end, one that drips,
// and a handshake that never comes are left when the time is over.
func TestAnEndpointCostsBoundedTimeAndMemory(t *testing.T) {
	w, _ := openWorld(t)
	e := newEndpoint(t)
	w.project(t, "acme")
	h := w.hook(t, "acme", e.URL)
	s := w.sender(t, loopback(t, e))
	gone := make(chan struct{})
	e.answers(func(w http.ResponseWriter, r *http.Request) {
		defer close(gone)
		for chunk := make([]byte, 1<<16); r.Context().Err() == nil; {
			if _, err := w.Write(chunk); err != nil {
				return
			}
		}
	})
	if code, text := w.sends(t, s, h, e.URL); code != "" {
		t.Errorf("an endless body: %s %s", code, text)
	}
	<-gone
	e.answers(func(w http.ResponseWriter, _ *http.Request) {
		for range 64 {
			w.Header().Add("X-Much", strings.Repeat("m", 1000))
		}
	})
	if code, text := w.sends(t, s, h, e.URL); code != "webhook_unreachable" {
		t.Errorf("an endless head: %s %s", code, text)
	}
	short := w.sender(t, loopback(t, e), func(o *webhook.SenderOptions) { o.Timeout = 50 * time.Millisecond })
	var dripped atomic.Int32
	e.answers(func(w http.ResponseWriter, r *http.Request) {
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer func() { _ = conn.Close() }()
		drip := time.NewTicker(5 * time.Millisecond)
		defer drip.Stop()
		for range drip.C { // until the broker leaves
			if _, err := conn.Write([]byte("H")); err != nil {
				return
			}
			dripped.Add(1)
		}
	})
	if code, text := w.sends(t, short, h, e.URL); code != "webhook_timeout" && code != "webhook_unreachable" {
		t.Errorf("a head that drips: %s %s", code, text)
	}
	l := must(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer func() { _ = l.Close() }()
	silent := make(chan error, 1)
	go func() {
		conn, err := l.Accept()
		if err == nil {
			_ = conn.SetReadDeadline(time.Now().Add(20 * time.Second))
			_, err = io.Copy(io.Discard, conn) // until the broker hangs up
			err = errors.Join(err, conn.Close())
		}
		silent <- err
	}()
	if code, text := w.sends(t, short, h, "https://"+l.Addr().String()); code != "webhook_timeout" {
		t.Errorf("no handshake: %s %s", code, text)
	}
	if err := <-silent; errors.Is(err, os.ErrDeadlineExceeded) {
		t.Error("the broker keeps a connection without a handshake open")
	}
	_ = l.Close()
	if code, text := w.sends(t, short, h, "https://"+l.Addr().String()); code != "webhook_unreachable" || strings.Contains(text, "127.0.0.1") {
		t.Errorf("nobody listens: %s %s", code, text)
	}
	stopped, stop := context.WithCancel(ctx)
	stop()
	if err := s.Send(stopped, h, "id-1", nil); err == nil {
		t.Error("a broker that stops sends")
	}
}

// Only TLS with a certificate that the broker trusts, for the endpoint's name, gets anything.
func TestAnEndpointNeedsACertificate(t *testing.T) {
	w, _ := openWorld(t)
	e := newEndpoint(t)
	w.project(t, "acme")
	h := w.hook(t, "acme", e.URL)
	n := &names{}
	n.set("wrong.example", "127.0.0.1")
	_, port, _ := net.SplitHostPort(e.Listener.Addr().String())
	untrusting := w.sender(t, webhook.Config{Allow: []string{"127.0.0.0/8"}})
	trusting := w.sender(t, loopback(t, e), n.use)
	if code, text := w.sends(t, untrusting, h, e.URL); code != "webhook_certificate_refused" || !strings.Contains(text, "trusts") {
		t.Errorf("an unknown issuer: %s %s", code, text)
	}
	if code, text := w.sends(t, trusting, h, "https://wrong.example:"+port); code != "webhook_certificate_refused" || !strings.Contains(text, "another name") {
		t.Errorf("another name: %s %s", code, text)
	}
	plain := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("an endpoint without TLS got something") }))
	defer plain.Close()
	if code, _ := w.sends(t, trusting, h, strings.Replace(plain.URL, "http:", "https:", 1)); code != "webhook_unreachable" {
		t.Errorf("no TLS: %s", code)
	}
	if got := e.requests(); len(got) != 0 {
		t.Errorf("the endpoint got %+v", got)
	}
}

// A proxy of the environment would resolve the name itself, behind the broker's checks.
func TestNoProxyOfTheEnvironmentIsUsed(t *testing.T) {
	w, _ := openWorld(t)
	e := newEndpoint(t)
	proxy := newEndpoint(t)
	t.Setenv("HTTPS_PROXY", proxy.URL)
	t.Setenv("https_proxy", proxy.URL)
	t.Setenv("ALL_PROXY", proxy.URL)
	w.project(t, "acme")
	h := w.hook(t, "acme", e.URL)
	n := &names{}
	n.set("example.com", "127.0.0.1")
	_, port, _ := net.SplitHostPort(e.Listener.Addr().String())
	if code, text := w.sends(t, w.sender(t, loopback(t, e), n.use), h, "https://example.com:"+port); code != "" || len(e.requests()) != 1 || len(proxy.requests()) != 0 {
		t.Errorf("%s %s, %d and %d requests", code, text, len(e.requests()), len(proxy.requests()))
	}
}
