package cluster

import (
	"context"
	"encoding/pem"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/hostler/hostler/broker"
)

// get asks a server for its first page.
func get(ctx context.Context, t *testing.T, c *Client, address string) (*Answer, error) {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer planted-token")
	return c.Do(req)
}

// serve starts a server, and returns its client and address.
func serve(t *testing.T, answer http.HandlerFunc) (*Client, string) {
	t.Helper()
	s := httptest.NewTLSServer(answer)
	t.Cleanup(s.Close)
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
	return NewClient(broker.Cluster{Name: "lab", URL: s.URL, CACert: string(ca)}, 64), s.URL
}

func TestAnAnswerIsWholeAndBounded(t *testing.T) {
	body := strings.Repeat("y", 64)
	c, at := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json; charset=utf-8")
		w.WriteHeader(http.StatusTeapot)
		_, _ = io.WriteString(w, body)
	})
	a, err := get(t.Context(), t, c, at)
	if err != nil || a.Status != http.StatusTeapot || string(a.Body) != body || !a.JSON() {
		t.Fatal(a, err)
	}
	body += "y"
	if a, err := get(t.Context(), t, c, at); a != nil || broker.AsError(err).Code != "cluster_answer_invalid" {
		t.Error(a, err)
	}
	c, at = serve(t, func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	if a, err := get(t.Context(), t, c, at); a != nil || broker.AsError(err).Code != "cluster_unreachable" {
		t.Error(a, err)
	}
}

func TestATokenFollowsNoRedirect(t *testing.T) {
	asked := 0
	_, other := serve(t, func(http.ResponseWriter, *http.Request) { asked++ })
	c, at := serve(t, func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, other, http.StatusTemporaryRedirect) })
	if a, err := get(t.Context(), t, c, at); err != nil || a.Status != http.StatusTemporaryRedirect || asked > 0 {
		t.Error(a, err, asked)
	}
}

func TestASlowServerIsLeft(t *testing.T) {
	block := make(chan struct{})
	defer close(block)
	c, at := serve(t, func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-block:
		case <-r.Context().Done():
		}
	})
	if c.http.Timeout != patience {
		t.Errorf("the patience is %s", c.http.Timeout)
	}
	c.http.Timeout = 50 * time.Millisecond
	if _, err := get(t.Context(), t, c, at); err == nil || broker.AsError(err).Code != "cluster_unreachable" || !strings.Contains(err.Error(), "in time") {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := get(ctx, t, c, at); err != context.Canceled {
		t.Error(err)
	}
}

func TestAnotherCertificateGetsNoToken(t *testing.T) {
	asked := 0
	c, at := serve(t, func(http.ResponseWriter, *http.Request) { asked++ })
	c.http.Transport.(*http.Transport).TLSClientConfig.RootCAs = nil
	if _, err := get(t.Context(), t, c, at); err == nil || broker.AsError(err).Code != "cluster_unreachable" || !strings.Contains(err.Error(), "--ca-file") || asked > 0 {
		t.Errorf("%v, asked %d", err, asked)
	}
}

func TestAddressesWithoutClustersAreRefused(t *testing.T) {
	for address, ok := range map[string]bool{
		"169.254.169.254:443": false, "[fe80::1]:443": false, "[::ffff:169.254.169.254]:443": false, "[fd00:ec2::254]:443": false,
		"0.0.0.0:443": false, "224.0.0.1:443": false, "no address": false, "10.0.0.7:6820": true, "[fd00::7]:6820": true, "192.0.2.7:443": true,
	} {
		if err := permitted(address); (err == nil) != ok {
			t.Errorf("%s: %v", address, err)
		}
	}
	c := NewClient(broker.Cluster{Name: "lab"}, 64)
	if _, err := get(t.Context(), t, c, "https://169.254.169.254"); err == nil || !strings.Contains(err.Error(), "metadata") {
		t.Error(err)
	}
}
