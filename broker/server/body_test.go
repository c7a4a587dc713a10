package server

import (
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

type deadlines struct {
	*httptest.ResponseRecorder
	read time.Time
}

func (d *deadlines) SetReadDeadline(at time.Time) error {
	d.read = at
	return nil
}

func TestNoPathOfTheOperatorsListenerWaitsForABodyWithoutEnd(t *testing.T) {
	s, err := New(t.Context(), Config{DataDir: filepath.Join(t.TempDir(), "broker"), Listen: "127.0.0.1:0", AgentListen: "127.0.0.1:0", Version: "test"})
	if err != nil {
		t.Fatal(err)
	}
	defer s.close() //nolint:errcheck // the test needs no more of it
	handler := s.operatorServer().Handler
	for _, path := range []string{"/healthz", "/readyz", "/metrics", "/docs", "/openapi.json", "/openapi-3.0.json", "/api/v1/admin/nodes", "/nothing"} {
		d := &deadlines{ResponseRecorder: httptest.NewRecorder()}
		handler.ServeHTTP(d, httptest.NewRequest(http.MethodGet, path, strings.NewReader("{}")))
		if d.read.IsZero() {
			t.Errorf("%s: a body may take for ever", path)
		}
		d = &deadlines{ResponseRecorder: httptest.NewRecorder()}
		handler.ServeHTTP(d, httptest.NewRequest(http.MethodGet, path, http.NoBody))
		if !d.read.IsZero() {
			t.Errorf("%s: without a body, what comes after it has a deadline", path)
		}
	}
}
