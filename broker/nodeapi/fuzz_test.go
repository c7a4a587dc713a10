package nodeapi

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/hostler/hostler/pki"
	"github.com/hostler/hostler/taskcatalog"
	"github.com/hostler/hostler/taskcatalog/wire"
)

// Every request of a node is answered, and never with an internal error: a body is accepted or
// refused with a code.
func FuzzBodies(f *testing.F) {
	b := newBroker(f)
	n := b.member()
	task := b.enqueue(n, "node.heartbeat_check", "")
	n.fetch("node.heartbeat_check")
	handler := b.Handler()
	tlsState := &tls.ConnectionState{Version: tls.VersionTLS13, HandshakeComplete: true}
	for _, der := range n.cert.Certificate {
		tlsState.PeerCertificates = append(tlsState.PeerCertificates, must(x509.ParseCertificate(der))(f))
	}
	var posts []string
	for _, route := range routes {
		if route.method == http.MethodPost {
			posts = append(posts, strings.NewReplacer("{id}", n.id, "{task_id}", task.ID).Replace(route.path))
		}
	}
	for i, seed := range []any{
		n.enrollRequest("hsn_token"), n.renewRequest(),
		wire.ProgressRequest{Attempt: 1, TotalSteps: 1, StepStatus: "running", StepStartedAt: b.clock.Now()},
		wire.ResultRequest{Attempt: 1, Outcome: taskcatalog.OutcomeFailed, Code: "handler_failed", Message: "x"},
		wire.MintRequest{Attempt: 1, CredentialType: "oci_pull"},
	} {
		f.Add(i, must(taskcatalog.Encode(seed))(f))
	}
	rotating := b.enqueue(n, "node.rotate_identity", "{}")
	for _, id := range []string{rotating.ID, task.ID, "t-nosuch", " ", strings.Repeat("t", 100)} {
		req := n.renewRequest()
		req.CSR, req.RotationTask = string(must(pki.NewCSR(must(pki.GenerateKey(pki.Ed25519))(f)))(f)), id
		f.Add(1, must(taskcatalog.Encode(req))(f))
	}
	for _, seed := range []string{"", "{}", "[]", "null", `{"attempt":1e309}`, `{"attempt":-9223372036854775808}`, `{"Attempt":1}`, `{"attempt":1,"attempt":2}`, strings.Repeat("[", 200), "{\"message\":\"\xff\"}", `{"message":"\u0000\u202e\ud800"}`} {
		for i := range posts {
			f.Add(i, []byte(seed))
		}
	}
	f.Fuzz(func(t *testing.T, route int, body []byte) {
		if route < 0 {
			route = -(route + 1)
		}
		r := httptest.NewRequest(http.MethodPost, posts[route%len(posts)], bytes.NewReader(body))
		r.TLS = tlsState
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		switch w.Code {
		case http.StatusOK:
			var v any
			if err := taskcatalog.DecodeStrict(body, &v); err != nil {
				t.Errorf("took a body that is not strict JSON (%v): %q", err, body)
			}
		case http.StatusBadRequest, http.StatusRequestEntityTooLarge, http.StatusUnprocessableEntity, http.StatusConflict,
			http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound, http.StatusTooManyRequests:
			var p wire.Problem
			if err := taskcatalog.DecodeStrict(w.Body.Bytes(), &p); err != nil || p.Code == "" || p.Status != w.Code {
				t.Errorf("a refusal without a code: %d %s", w.Code, w.Body)
			}
		default:
			t.Errorf("answered %d to %q: %s", w.Code, body, w.Body)
		}
	})
}
