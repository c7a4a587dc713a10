package uplink

import (
	"context"
	"crypto/tls"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/hostler/hostler/pki"
	"github.com/hostler/hostler/pki/pkitest"
	"github.com/hostler/hostler/taskcatalog"
	"github.com/hostler/hostler/taskcatalog/wire"
)

// serve starts a broker on loopback with auth's certificate.
func serve(t *testing.T, auth *pkitest.Authority, cert tls.Certificate, handle http.HandlerFunc) (url string) {
	s := httptest.NewUnstartedServer(handle)
	s.TLS = &tls.Config{MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{cert}, ClientAuth: tls.RequestClientCert}
	s.StartTLS()
	t.Cleanup(s.Close)
	return "https://localhost:" + s.URL[strings.LastIndex(s.URL, ":")+1:]
}

func client(t *testing.T, o Options) *Client {
	t.Helper()
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Report == nil {
		o.Report = func() string { return "" }
	}
	o.Version = "1.0"
	c, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func TestTheFirstContactTrustsThePinnedRootAlone(t *testing.T) {
	auth, other := pkitest.New(t), pkitest.New(t)
	asked := 0
	ok := func(w http.ResponseWriter, _ *http.Request) {
		asked++
		fmt.Fprint(w, `{"node_id":"n-x","node_epoch":1,"certificate":"","trust_bundle":"","now":"2026-01-01T00:00:00Z"}`)
	}
	for _, test := range []struct {
		name string
		pin  string
		cert tls.Certificate
		code taskcatalog.Code
	}{
		{"the pinned root", auth.Pin(), auth.Server, ""},
		{"another root", other.Pin(), auth.Server, pki.CodePinMismatch},
		{"another name", auth.Pin(), auth.NewServer(t, []string{"elsewhere.example"}, nil), pki.CodeServerNameMismatch},
		{"a node's certificate", auth.Pin(), auth.NewNode(t).Cert, pki.CodeServerNameMismatch},
	} {
		t.Run(test.name, func(t *testing.T) {
			asked = 0
			c := client(t, Options{Broker: serve(t, auth, test.cert, ok), CASHA256: test.pin})
			_, err := c.Enroll(context.Background(), wire.EnrollRequest{Token: "hsn_secret"})
			if taskcatalog.CodeOf(err, "") != test.code || (asked > 0) != (test.code == "") {
				t.Fatalf("%v, asked %d times", err, asked)
			}
			if err != nil && strings.Contains(err.Error(), "hsn_secret") {
				t.Fatal("the error holds the token")
			}
		})
	}
}

func TestAMemberTrustsTheRootsOfItsBundleAlone(t *testing.T) {
	auth, other := pkitest.New(t), pkitest.New(t)
	node := auth.NewNode(t)
	saw := make(chan http.Header, 1)
	url := serve(t, auth, auth.Server, func(w http.ResponseWriter, r *http.Request) {
		if len(r.TLS.PeerCertificates) == 0 || !r.TLS.PeerCertificates[0].Equal(node.Cert.Leaf) {
			t.Error("the node did not show its certificate")
		}
		saw <- r.Header
		w.WriteHeader(http.StatusNoContent)
	})
	c := client(t, Options{Broker: url, Cert: &node.Cert, Trust: auth.Bundle, NodeID: node.NodeID, Report: func() string { return "sha256:r" }})
	if _, err := c.Wait(context.Background(), []taskcatalog.Lane{taskcatalog.LaneConcurrent}, false); err != nil {
		t.Fatal(err)
	}
	if h := <-saw; h.Get(wire.HeaderTrustVersion) != "1" || h.Get(wire.HeaderReport) != "sha256:r" || h.Get(wire.HeaderAgentVersion) != "1.0" {
		t.Fatalf("headers: %v", h)
	}
	c = client(t, Options{Broker: url, Cert: &node.Cert, Trust: other.Bundle, NodeID: node.NodeID})
	if _, err := c.Wait(context.Background(), nil, false); taskcatalog.CodeOf(err, "") != CodeUntrusted {
		t.Fatalf("a broker of another root: %v", err)
	}
}

// A second connection resumes the session of the first. A client with another certificate resumes
// nothing, because a broker takes the resuming client for the original one.
func TestASessionIsResumedByTheCertificateThatBeganItAlone(t *testing.T) {
	auth := pkitest.New(t)
	type seen struct {
		resumed bool
		serial  string
	}
	saw := make(chan seen, 1)
	url := serve(t, auth, auth.Server, func(w http.ResponseWriter, r *http.Request) {
		saw <- seen{r.TLS.DidResume, pki.Serial(r.TLS.PeerCertificates[0])}
		w.Header().Set("Connection", "close")
		w.WriteHeader(http.StatusNoContent)
	})
	old := auth.NewNode(t)
	renewed := auth.Enroll(t, old.NodeIdentity, time.Hour)
	for _, cert := range []*tls.Certificate{&old.Cert, &renewed.Cert} {
		c := client(t, Options{Broker: url, Cert: cert, Trust: auth.Bundle, NodeID: old.NodeID})
		for again := range 2 {
			if _, err := c.Wait(context.Background(), nil, false); err != nil {
				t.Fatal(err)
			}
			want := seen{again == 1, pki.Serial(cert.Leaf)}
			if got := <-saw; got != want {
				t.Errorf("connection %d: %+v, want %+v", again+1, got, want)
			}
		}
	}
}

func TestARefusalKeepsItsCodeAndIsCleaned(t *testing.T) {
	auth := pkitest.New(t)
	for _, test := range []struct {
		name, body string
		status     int
		code       taskcatalog.Code
		lasting    bool
	}{
		{"a problem", `{"title":"x","status":403,"detail":"cannot \u001b[2J","code":"certificate_denied"}`, 403, "certificate_denied", true},
		{"too many", `{"title":"x","status":429,"detail":"slow down","code":"rate_limited"}`, 429, "rate_limited", false},
		{"a proxy's page", `<html>bad gateway</html>`, 502, CodeUnavailable, false},
		{"a redirect", ``, 302, CodeUnavailable, false},
		{"an endless page", strings.Repeat("x", 2<<20), 500, CodeUnavailable, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			url := serve(t, auth, auth.Server, func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Location", "https://elsewhere.example/")
				w.WriteHeader(test.status)
				fmt.Fprint(w, test.body)
			})
			c := client(t, Options{Broker: url, CASHA256: auth.Pin()})
			_, err := c.Enroll(context.Background(), wire.EnrollRequest{})
			r, ok := RefusalOf(err)
			if !ok || r.Code != test.code || r.Status != test.status || r.Permanent() != test.lasting || strings.Contains(r.Error(), "\x1b") {
				t.Fatalf("%#v %v", r, err)
			}
		})
	}
}

func TestAnAnswerBeyondItsBoundsIsRefused(t *testing.T) {
	auth := pkitest.New(t)
	for name, test := range map[string]struct {
		body string
		code taskcatalog.Code
	}{
		"endless":       {`{"tasks":[` + strings.Repeat(" ", maxAnswer), taskcatalog.CodeTooLarge},
		"deep":          {strings.Repeat(`{"tasks":[`, 1000), taskcatalog.CodeMalformed},
		"unknown field": {`{"exec":"sh"}`, taskcatalog.CodeMalformed},
		"twice":         {`{"cancel":[],"cancel":["t-1"]}`, taskcatalog.CodeMalformed},
		"wrong case":    {`{"Cancel":["t-1"]}`, taskcatalog.CodeMalformed},
		"trailing":      {`{} {}`, taskcatalog.CodeMalformed},
	} {
		t.Run(name, func(t *testing.T) {
			url := serve(t, auth, auth.Server, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, test.body) })
			c := client(t, Options{Broker: url, Trust: auth.Bundle, NodeID: "n-x"})
			if _, err := c.Wait(context.Background(), nil, false); taskcatalog.CodeOf(err, "") != test.code {
				t.Fatal(err)
			}
		})
	}
}

func TestABrokerThatIsNotThereIsUnreachable(t *testing.T) {
	auth := pkitest.New(t)
	c := client(t, Options{Broker: "https://127.0.0.1:1", CASHA256: auth.Pin()})
	_, err := c.Enroll(context.Background(), wire.EnrollRequest{Token: "hsn_secret"})
	if taskcatalog.CodeOf(err, "") != CodeUnreachable || strings.Contains(err.Error(), "hsn_secret") {
		t.Fatal(err)
	}
}

// A named offset comes from the authentic broker only.
func TestAStrangersClockIsNotBelieved(t *testing.T) {
	auth, other := pkitest.New(t), pkitest.New(t)
	later := func() time.Time { return time.Now().Add(2 * pkitest.Life) }
	url := serve(t, auth, auth.Server, func(http.ResponseWriter, *http.Request) {})
	_, err := client(t, Options{Broker: url, CASHA256: auth.Pin(), Now: later}).Enroll(context.Background(), wire.EnrollRequest{})
	if taskcatalog.CodeOf(err, "") != CodeClockWrong || !strings.Contains(err.Error(), "17520h0m0s ahead") {
		t.Fatal(err)
	}
	_, err = client(t, Options{Broker: url, CASHA256: other.Pin(), Now: later}).Enroll(context.Background(), wire.EnrollRequest{})
	if taskcatalog.CodeOf(err, "") != pki.CodePinMismatch {
		t.Fatal(err)
	}
}
