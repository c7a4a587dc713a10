package client

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/pki/pkitest"
)

// serve starts a broker that answers with h, and a client that trusts it.
func serve(t *testing.T, h http.HandlerFunc) (*Client, *atomic.Int32) {
	t.Helper()
	calls := &atomic.Int32{}
	authority := pkitest.New(t)
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		calls.Add(1)
		h(w, r)
	}))
	s.TLS = &tls.Config{MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{authority.Server}}
	s.StartTLS()
	t.Cleanup(s.Close)
	return New(Options{Broker: s.URL, Roots: authority.Roots(), Token: "hso_t", Now: time.Now, Backoff: time.Millisecond}), calls
}

func want(t *testing.T, err error, kind broker.Kind, code string) {
	t.Helper()
	var e *broker.Error
	if !errors.As(err, &e) || e.Kind != kind || e.Code != code {
		t.Fatalf("got %v, want kind %d, code %s", err, kind, code)
	}
}

// failing answers the given number of times with a status before it answers with body.
func failing(times int32, status int, body string) http.HandlerFunc {
	n := &atomic.Int32{}
	return func(w http.ResponseWriter, _ *http.Request) {
		if n.Add(1) <= times {
			w.WriteHeader(status)
			return
		}
		_, _ = io.WriteString(w, body)
	}
}

func TestOnlyWhatMayBeMadeTwiceIsRepeated(t *testing.T) {
	ctx := context.Background()
	for _, status := range []int{http.StatusServiceUnavailable, http.StatusBadGateway, http.StatusGatewayTimeout, http.StatusTooManyRequests} {
		for _, c := range []struct {
			name  string
			call  func(c *Client) error
			calls int32
		}{
			{"a GET", func(c *Client) error { _, err := c.Node(ctx, "a"); return err }, 3},
			{"an enqueue with a key", func(c *Client) error {
				_, err := c.Enqueue(ctx, "a", api.TaskCreate{IdempotencyKey: "k"})
				return err
			}, 3},
			{"an enqueue without", func(c *Client) error { _, err := c.Enqueue(ctx, "a", api.TaskCreate{}); return err }, 1},
			{"a create", func(c *Client) error { _, err := c.CreateNode(ctx, api.NodeCreate{}); return err }, 1},
			{"an action", func(c *Client) error { _, err := c.Act(ctx, "a", "drain", api.NodeAction{}); return err }, 1},
			{"an onboarding, which has a key", func(c *Client) error {
				_, err := c.StartOnboarding(ctx, api.OnboardingStart{})
				return err
			}, 3},
			{"a batch of adoptions, which has one too", func(c *Client) error {
				_, err := c.StartAdoptionBatch(ctx, api.AdoptionBatch{})
				return err
			}, 3},
			{"a rotation", func(c *Client) error { _, err := c.RotateTrust(ctx, api.TrustRotate{}); return err }, 1},
		} {
			remote, calls := serve(t, failing(2, status, `{}`))
			err := c.call(remote)
			if got := calls.Load(); got != c.calls || (err == nil) != (c.calls == 3) {
				t.Errorf("%d, %s: %d calls, %v; want %d calls", status, c.name, got, err, c.calls)
			}
		}
	}
}

func TestWhatWasRefusedIsNotRepeated(t *testing.T) {
	for status, kind := range map[int]broker.Kind{
		400: broker.Invalid, 422: broker.Invalid, 401: broker.Unauthorized, 403: broker.Forbidden,
		404: broker.NotFound, 409: broker.Refused, 500: broker.Internal,
	} {
		remote, calls := serve(t, func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(status)
			_, _ = io.WriteString(w, `{"code":"some_code","detail":"why"}`)
		})
		_, err := remote.Node(context.Background(), "a")
		want(t, err, kind, "some_code")
		if calls.Load() != 1 {
			t.Errorf("%d: %d calls", status, calls.Load())
		}
	}
}

func TestAStrangersAnswerIsNamedAsOne(t *testing.T) {
	for name, body := range map[string]string{
		"a page": "<html>login</html>", "no code": `{"detail":"x"}`, "a hostile code": `{"code":"x\u001b[2J","detail":"x"}`, "nothing": "",
	} {
		remote, _ := serve(t, func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusForbidden)
			_, _ = io.WriteString(w, body)
		})
		_, err := remote.Node(context.Background(), "a")
		if want(t, err, broker.Forbidden, "unexpected_answer"); strings.Contains(err.Error(), "login") {
			t.Errorf("%s: it is repeated: %v", name, err)
		}
	}
	remote, _ := serve(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "not JSON") })
	_, err := remote.Node(context.Background(), "a")
	want(t, err, broker.Internal, "answer_malformed")
}

func TestAnErrorsWordsAreCleaned(t *testing.T) {
	remote, _ := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusConflict)
		_, _ = io.WriteString(w, `{"code":"x","detail":"a\u001b[2J\u202eb`+strings.Repeat("A", 5000)+`"}`)
	})
	_, err := remote.Node(context.Background(), "a")
	if strings.ContainsAny(err.Error(), "\x1b\u202e") || len(err.Error()) > 2000 {
		t.Errorf("got %.200q", err)
	}
}

func TestARedirectDoesNotCarryTheTokenAway(t *testing.T) {
	stolen := &atomic.Bool{}
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { stolen.Store(true) }))
	t.Cleanup(elsewhere.Close)
	remote, _ := serve(t, func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, elsewhere.URL, http.StatusFound) })
	_, err := remote.Node(context.Background(), "a")
	want(t, err, broker.Internal, "unexpected_answer")
	if stolen.Load() {
		t.Error("the redirect was followed")
	}
}

func TestABrokerWithAnotherRootGetsNoToken(t *testing.T) {
	remote, calls := serve(t, failing(0, 0, `{}`))
	stranger := New(Options{Broker: remote.Broker(), Roots: pkitest.New(t).Roots(), Token: "hso_t", Now: time.Now})
	_, err := stranger.Node(context.Background(), "a")
	want(t, err, broker.Refused, "broker_untrusted")
	late := New(Options{Broker: remote.Broker(), Roots: remote.opts.Roots, Token: "hso_t", Now: func() time.Time { return time.Now().Add(10 * pkitest.Life) }})
	_, err = late.Node(context.Background(), "a")
	want(t, err, broker.Refused, "broker_untrusted")
	if calls.Load() != 0 {
		t.Errorf("%d requests went out", calls.Load())
	}
}

func TestABrokerThatIsNotThereIsSaidSo(t *testing.T) {
	s := httptest.NewServer(http.NotFoundHandler())
	address := s.URL
	s.Close()
	remote := New(Options{Broker: strings.Replace(address, "http:", "https:", 1), Roots: pkitest.New(t).Roots(), Now: time.Now, Backoff: time.Second})
	_, err := remote.CreateNode(context.Background(), api.NodeCreate{})
	want(t, err, broker.Unavailable, "broker_unreachable")
}

func TestAReferenceStaysInItsSegment(t *testing.T) {
	for ref, path := range map[string]string{
		"gpu-07": "/nodes/gpu-07", "dc1/gpu-07": "/nodes/dc1%2Fgpu-07", "..": "/nodes/%20..", ".": "/nodes/%20.", "": "/nodes/%20",
		"../tokens": "/nodes/..%2Ftokens", "a?x=1#y": "/nodes/a%3Fx=1%23y", "ä b": "/nodes/%C3%A4%20b",
	} {
		var got string
		remote, _ := serve(t, func(w http.ResponseWriter, r *http.Request) {
			got = strings.TrimPrefix(r.URL.EscapedPath(), api.Prefix)
			_, _ = io.WriteString(w, `{}`)
		})
		if _, err := remote.Node(context.Background(), ref); err != nil || got != path {
			t.Errorf("%q: asked for %q, %v; want %q", ref, got, err, path)
		}
	}
}

func TestAllPagesAreRead(t *testing.T) {
	remote, calls := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("cursor") == "" {
			_, _ = io.WriteString(w, `{"items":[{"id":"t-1"},{"id":"t-2"}],"next":"c"}`)
			return
		}
		_, _ = io.WriteString(w, `{"items":[{"id":"t-3"}],"next":""}`)
	})
	tasks, err := remote.Tasks(context.Background(), TaskFilter{})
	if err != nil || len(tasks.Items) != 3 || tasks.Next != "" || calls.Load() != 2 {
		t.Errorf("%+v, %d calls, %v", tasks, calls.Load(), err)
	}
	if tasks, err = remote.Tasks(context.Background(), TaskFilter{Limit: 2}); err != nil || len(tasks.Items) != 2 || tasks.Next != "c" || calls.Load() != 3 {
		t.Errorf("%+v, %d calls, %v", tasks, calls.Load(), err)
	}
}

// The first page of usage alone has the totals.
func TestUsageHasTheTotalsOfItsFirstPage(t *testing.T) {
	remote, _ := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("cursor") == "" {
			_, _ = io.WriteString(w, `{"totals":[{"sku":"h100"}],"items":[{"sku":"h100"}],"next":"c"}`)
			return
		}
		_, _ = io.WriteString(w, `{"totals":[],"items":[{"sku":"h100"}],"next":""}`)
	})
	if l, err := remote.Usage(context.Background(), UsageFilter{}); err != nil || len(l.Totals) != 1 || len(l.Items) != 2 {
		t.Errorf("%+v, %v", l, err)
	}
}

// An earlier broker names the next page next_cursor. Its first page is not the whole list.
func TestAListOfAnEarlierBrokerIsRefused(t *testing.T) {
	remote, _ := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"items":[{"id":"t-1","type":"\"next_cursor\":"}],"next_cursor":"c"}`)
	})
	if _, err := remote.Tasks(context.Background(), TaskFilter{}); Code(err) != "broker_older" {
		t.Errorf("got %v", err)
	}
	remote, _ = serve(t, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"items":[{"id":"t-1","type":"\"next_cursor\":"}],"next":""}`)
	})
	if _, err := remote.Tasks(context.Background(), TaskFilter{}); err != nil {
		t.Error(err)
	}
}

func TestABrokenExportIsNoExport(t *testing.T) {
	remote, _ := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "1000")
		_, _ = io.WriteString(w, "{}\n")
	})
	var out strings.Builder
	want(t, remote.ExportAudit(context.Background(), AuditFilter{}, &out), broker.Unavailable, "export_incomplete")
}

func TestToStopWaitingIsPassedOnAsItIs(t *testing.T) {
	held := make(chan struct{})
	ctx, cancel := context.WithCancel(context.Background())
	remote, _ := serve(t, func(_ http.ResponseWriter, r *http.Request) {
		close(held)
		<-r.Context().Done()
	})
	go func() { <-held; cancel() }()
	if _, err := remote.Follow(ctx, "t-1", nil, time.Minute); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

func TestAnUploadSaysItsLength(t *testing.T) {
	var length int64
	var body, kind string
	remote, _ := serve(t, func(w http.ResponseWriter, r *http.Request) {
		raw, _ := io.ReadAll(r.Body)
		length, body, kind = r.ContentLength, string(raw), r.Header.Get("Content-Type")
		_, _ = io.WriteString(w, `{"digest":"sha256:aa"}`)
	})
	r, err := remote.PublishAgent(context.Background(), "aa", api.AgentRelease{Version: "1", Arch: "amd64", Size: 5}, io.MultiReader(strings.NewReader("he"), strings.NewReader("llo")))
	if err != nil || r.Digest != "sha256:aa" || length != 5 || body != "hello" || kind != "application/octet-stream" {
		t.Errorf("%v, %v, length %d, body %q, %s", r, err, length, body, kind)
	}
}
