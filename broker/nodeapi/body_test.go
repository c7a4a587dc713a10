package nodeapi

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// deadlines records the read deadline of a request.
type deadlines struct {
	*httptest.ResponseRecorder
	read time.Time
}

func (d *deadlines) SetReadDeadline(at time.Time) error {
	d.read = at
	return nil
}

// The server reads the rest of a body before it answers, even if no handler looked at the body: for
// a refused request, a poll, a package.
func TestNoRouteWaitsForABodyWithoutEnd(t *testing.T) {
	b := newBroker(t)
	handler := b.Handler()
	path := strings.NewReplacer("{id}", "n-one", "{task_id}", "t-one", "{digest}", strings.Repeat("0", 64))
	for _, r := range routes {
		target := path.Replace(r.path)
		d := &deadlines{ResponseRecorder: httptest.NewRecorder()}
		handler.ServeHTTP(d, httptest.NewRequest(r.method, target, strings.NewReader(`{}`)))
		if d.read.IsZero() {
			t.Errorf("%s %s: a body may take for ever", r.method, target)
		}
		d = &deadlines{ResponseRecorder: httptest.NewRecorder()}
		handler.ServeHTTP(d, httptest.NewRequest(r.method, target, http.NoBody))
		if !d.read.IsZero() {
			t.Errorf("%s %s: without a body, what comes after it has a deadline", r.method, target)
		}
	}
	d := &deadlines{ResponseRecorder: httptest.NewRecorder()}
	handler.ServeHTTP(d, httptest.NewRequest(http.MethodPost, "/nothing/here", strings.NewReader(`{}`)))
	if d.read.IsZero() {
		t.Error("a route that is none: a body may take for ever")
	}
}
