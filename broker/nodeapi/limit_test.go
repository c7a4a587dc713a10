package nodeapi

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/hostler/hostler/broker/store"
	"github.com/hostler/hostler/taskcatalog"
	"github.com/hostler/hostler/taskcatalog/wire"
)

// rows are the audit rows with a code, oldest first.
func (b *testBroker) rows(code string) []store.SealedEntry {
	b.t.Helper()
	return must(b.db.ListAudit(b.t.Context(), store.AuditFilter{Code: code, Limit: 1000}))(b.t)
}

// A process with root on a node may send any request with any names.
func TestANodeDoesNotFillTheAuditLog(t *testing.T) {
	b := newBroker(t)
	n := b.member()
	_, token := b.create(store.NewNode{})
	for i := range 5 {
		bad := wire.ResultRequest{Attempt: 1, Outcome: taskcatalog.OutcomeFailed}
		n.post(n.path(fmt.Sprintf("/tasks/t-%d/result", i)), bad).refused(b, 404, "task_not_found")
		request := b.machine().enrollRequest(token)
		request.Token = fmt.Sprintf("hse_%d", i)
		n.post("/internal/v1/nodes/enroll", request).refused(b, 401, "token_unknown")
	}
	for _, code := range []string{"task_not_found", "token_unknown"} {
		if got := b.rows(code); len(got) != 1 {
			t.Errorf("five refusals with %s are %d rows", code, len(got))
		}
	}
	b.advance(time.Minute)
	n.post(n.path("/tasks/t-9/result"), wire.ResultRequest{Attempt: 1, Outcome: taskcatalog.OutcomeFailed}).refused(b, 404, "task_not_found")
	if got := b.rows("task_not_found"); len(got) != 2 || !strings.HasSuffix(got[1].Reason, "(and 4 similar refusals since the last entry)") || got[1].Subject != "task/t-9" {
		t.Errorf("a minute later the rows are %+v", got)
	}
}

func TestANodeThatAsksTooOftenIsSlowedDownAlone(t *testing.T) {
	b := newBroker(t)
	n, other := b.member(), b.member()
	ask := func(n *testNode) *answer { return n.post(n.path("/tasks/t-none/progress"), []byte(`{}`)) }
	for range nodeBurst {
		if a := ask(n); a.status == 429 {
			t.Fatalf("slowed down within its burst: %s", a.body)
		}
	}
	a := ask(n)
	a.refused(b, 429, "too_many_requests")
	if a.header.Get("Retry-After") == "" || a.closed {
		t.Errorf("Retry-After %q, closed %v", a.header.Get("Retry-After"), a.closed)
	}
	if a := ask(other); a.status == 429 {
		t.Errorf("another node pays for it: %s", a.body)
	}
	b.advance(10 * time.Second)
	if a := ask(n); a.status == 429 {
		t.Errorf("ten seconds later: %s", a.body)
	}
}

// Each renewal leaves a certificate and an audit row.
func TestRenewalsComeToAnEnd(t *testing.T) {
	b := newBroker(t)
	n := b.member()
	had := len(must(b.db.Certificates(t.Context(), n.id))(t))
	for range renewBurst {
		n.post(n.path("/renew"), n.renewRequest()).into(new(wire.RenewReply))
	}
	for range 5 {
		n.post(n.path("/renew"), n.renewRequest()).refused(b, 429, "too_many_renewals")
	}
	if got := len(must(b.db.Certificates(t.Context(), n.id))(t)) - had; got != renewBurst {
		t.Errorf("%d certificates, want %d", got, renewBurst)
	}
	if got := b.rows("too_many_renewals"); len(got) != 1 || got[0].Actor != "node:"+n.id {
		t.Errorf("five refusals are the rows %+v", got)
	}
	b.advance(time.Minute)
	n.post(n.path("/renew"), n.renewRequest()).into(new(wire.RenewReply))
}

func TestOneNetworkOfIPv6EnrolsAsOneAddress(t *testing.T) {
	a := &API{c: Config{Now: func() time.Time { return time.Unix(1000, 0) }}, enrollments: newLimiter(enrollRate, enrollBurst, maxAddresses)}
	try := func(from string) error {
		return a.limitEnroll(httptest.NewRecorder(), &http.Request{RemoteAddr: from})
	}
	for i := range enrollBurst {
		if err := try(fmt.Sprintf("[2001:db8::%x]:4000", i)); err != nil {
			t.Fatal(err)
		}
	}
	if err := try("[2001:db8::ffff:1]:4000"); err == nil {
		t.Error("one more of the same network is let through")
	}
	if err := try("[2001:db8:0:1::1]:4000"); err != nil {
		t.Errorf("another network pays for it: %v", err)
	}
}
