package nodeapi

import (
	"bytes"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/store"
	"github.com/hostler/hostler/broker/store/storetest"
	"github.com/hostler/hostler/pki"
	"github.com/hostler/hostler/taskcatalog"
	"github.com/hostler/hostler/taskcatalog/wire"
)

const enrollPath = "/internal/v1/nodes/enroll"

func TestEnrolmentMakesAMemberThatMayPoll(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, clock *storetest.Clock) {
		b := newBrokerOn(t, db, clock)
		id, token := b.create(store.NewNode{})
		n := b.machine()
		n.enroll(token)
		if n.id != id || n.epoch != 1 {
			t.Errorf("enrolled as %s at epoch %d, want %s at 1", n.id, n.epoch, id)
		}
		leaf := n.cert.Leaf
		if got := leaf.NotAfter.Sub(b.clock.Now()); got != DefaultCertLife {
			t.Errorf("certificate for %v, want %v", got, DefaultCertLife)
		}
		rec := must(b.db.Node(t.Context(), id))(t)
		if rec.Status != broker.Enrolling || rec.TrustVersion != 1 {
			t.Errorf("node is %s with trust version %d", rec.Status, rec.TrustVersion)
		}
		n.post(n.path("/renew"), n.renewRequest()).into(new(wire.RenewReply))
	})
}

func TestALostAnswerIsGivenAgain(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, clock *storetest.Clock) {
		b := newBrokerOn(t, db, clock)
		_, token := b.create(store.NewNode{})
		n := b.machine()
		var lost, again wire.EnrollReply
		n.post(enrollPath, n.enrollRequest(token)).into(&lost)
		b.advance(2 * time.Hour) // the token has expired meanwhile
		n.post(enrollPath, n.enrollRequest(token)).into(&again)
		if again.Certificate != lost.Certificate || again.NodeID != lost.NodeID || again.NodeEpoch != lost.NodeEpoch {
			t.Error("the second answer is another one")
		}
		thief := b.machine()
		thief.post(enrollPath, thief.enrollRequest(token)).refused(b, http.StatusConflict, "token_used")

		n.take(again)
		n.post(n.path("/renew"), n.renewRequest()).into(new(wire.RenewReply))
		n.connect(nil)
		n.post(enrollPath, n.enrollRequest(token)).refused(b, http.StatusConflict, "token_used") // the node was heard
	})
}

func TestTokensThatDoNotEnrol(t *testing.T) {
	b := newBroker(t)
	n := b.machine()

	n.post(enrollPath, n.enrollRequest("hsn_never-issued")).refused(b, http.StatusUnauthorized, "token_unknown")
	n.post(enrollPath, n.enrollRequest("")).refused(b, http.StatusUnauthorized, "token_unknown")

	_, other := b.create(store.NewNode{MAASSystemID: "abc123"})
	n.post(enrollPath, n.enrollRequest(other)).refused(b, http.StatusConflict, "maas_system_mismatch")

	late, token := b.create(store.NewNode{})
	b.advance(time.Hour + time.Second)
	n.post(enrollPath, n.enrollRequest(token)).refused(b, http.StatusConflict, "token_expired")
	must0(t, b.db.ExtendToken(t.Context(), admin, late, b.clock.Now().Add(time.Hour), "booted late"))
	n.enroll(token)
	if n.id != late {
		t.Errorf("enrolled as %s, want %s", n.id, late)
	}
}

func TestATokenIsInNoLog(t *testing.T) {
	b := newBroker(t)
	_, token := b.create(store.NewNode{})
	n := b.machine()
	n.post(enrollPath, n.enrollRequest(token+"x")).refused(b, http.StatusUnauthorized, "token_unknown")
	n.enroll(token)
	for _, row := range must(b.db.ListAudit(t.Context(), store.AuditFilter{Limit: 1000}))(t) {
		if strings.Contains(row.Reason+row.Subject+string(row.Before)+string(row.After), token[:10]) {
			t.Errorf("row %d shows the token: %+v", row.ID, row)
		}
	}
}

func TestBodiesThatAreRefused(t *testing.T) {
	b := newBroker(t)
	_, token := b.create(store.NewNode{})
	n := b.machine()
	good := string(must(taskcatalog.Encode(n.enrollRequest(token)))(t))
	with := func(change func(*wire.EnrollRequest)) string {
		r := n.enrollRequest(token)
		change(&r)
		return string(must(taskcatalog.Encode(r))(t))
	}
	rsaCSR := "-----BEGIN CERTIFICATE REQUEST-----\nMAo=\n-----END CERTIFICATE REQUEST-----\n"
	for _, tt := range []struct {
		name, body string
		status     int
		code       string
	}{
		{"empty", "", 400, "malformed"},
		{"no JSON", "token=x", 400, "malformed"},
		{"a list", "[]", 400, "malformed"},
		{"an unknown key", strings.Replace(good, `{`, `{"admin":true,`, 1), 400, "malformed"},
		{"a key twice", strings.Replace(good, `{`, `{"token":"x",`, 1), 400, "malformed"},
		{"a key in another case", strings.Replace(good, `"token"`, `"Token"`, 1), 400, "malformed"},
		{"data after it", good + "{}", 400, "malformed"},
		{"no UTF-8", strings.Replace(good, "machine", "mach\xffine", 1), 400, "malformed"},
		{"nested deep", strings.Repeat(`{"a":`, 1000) + "1" + strings.Repeat("}", 1000), 400, "malformed"},
		{"too large", strings.Replace(good, "machine", strings.Repeat("m", wire.MaxBody), 1), 413, "too_large"},
		{"no CSR", with(func(r *wire.EnrollRequest) { r.CSR = "" }), 400, "malformed"},
		{"a CSR that is none", with(func(r *wire.EnrollRequest) { r.CSR = rsaCSR }), 400, "malformed"},
		{"two CSRs", with(func(r *wire.EnrollRequest) { r.CSR += r.CSR }), 400, "malformed"},
		{"a task type that is none", with(func(r *wire.EnrollRequest) { r.TaskTypes = []string{"rm -rf /"} }), 400, "malformed"},
		{"too many task types", with(func(r *wire.EnrollRequest) { r.TaskTypes = make([]string, maxTaskTypes+1) }), 400, "malformed"},
		{"a capability that is none", with(func(r *wire.EnrollRequest) { r.Capabilities = map[string]string{"\x1b[2J": "x"} }), 400, "malformed"},
		{"a token of a kilobyte", with(func(r *wire.EnrollRequest) { r.Token = strings.Repeat("t", 1024) }), 400, "malformed"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b.advance(store.StrangersEvery) // so that each refusal gets a row of its own
			n.post(enrollPath, []byte(tt.body)).refused(b, tt.status, tt.code)
			if row := b.audited(tt.code); !row.At.Equal(b.clock.Now()) {
				t.Errorf("the last row is of %v: this one was not audited", row.At)
			}
		})
	}
	b.advance(-b.clock.Now().Sub(must(b.db.Node(t.Context(), nodeOf(t, b)))(t).CreatedAt))
	n.enroll(token) // no refusal has used the token
}

func nodeOf(t *testing.T, b *testBroker) string {
	t.Helper()
	nodes, _, err := b.db.ListNodes(t.Context(), store.NodeFilter{})
	must0(t, err)
	return nodes[0].ID
}

func TestABodyWithoutALengthIsBoundedToo(t *testing.T) {
	b := newBroker(t)
	n := b.machine()
	endless := bytes.NewReader(bytes.Repeat([]byte(" "), wire.MaxBody+1))
	n.do(t.Context(), http.MethodPost, enrollPath, struct{ *bytes.Reader }{endless}).refused(b, 413, "too_large")
}

func TestWhatANodeSaysOfItselfIsCleaned(t *testing.T) {
	b := newBroker(t)
	id, token := b.create(store.NewNode{})
	n := b.machine()
	r := n.enrollRequest(token)
	r.AgentVersion = "1.0\x1b[31m<script>" + strings.Repeat("x", 1000)
	r.Capabilities = map[string]string{"weka": "4\u202e.3\n"}
	n.post(enrollPath, r).into(new(wire.EnrollReply))
	rec := must(b.db.Node(t.Context(), id))(t)
	if strings.ContainsAny(rec.AgentVersion, "\x1b\n") || len(rec.AgentVersion) > maxVersion {
		t.Errorf("agent version %q", rec.AgentVersion)
	}
	if got := rec.Capabilities["weka"]; got != `4\u{202e}.3\x0a` {
		t.Errorf("capability %q", got)
	}
}

func TestOneAddressMayNotKnockForEver(t *testing.T) {
	b := newBroker(t)
	n := b.machine()
	for range enrollBurst {
		b.enrollments.allow("127.0.0.1/32", b.clock.Now())
	}
	a := n.post(enrollPath, n.enrollRequest("hsn_guess"))
	a.refused(b, http.StatusTooManyRequests, "too_many_attempts")
	if a.header.Get("Retry-After") == "" {
		t.Error("it is not said when to try again")
	}
	b.advance(time.Second)
	n.post(enrollPath, n.enrollRequest("hsn_guess")).refused(b, http.StatusUnauthorized, "token_unknown")
}

func TestEqualRefusalsAreWrittenOnceAMinuteWithTheirNumber(t *testing.T) {
	b := newBroker(t)
	n := b.machine()
	rows := func() []store.SealedEntry {
		return must(b.db.ListAudit(t.Context(), store.AuditFilter{Code: "malformed"}))(t)
	}
	for range 5 {
		n.post(enrollPath, []byte("x")).refused(b, 400, "malformed")
	}
	if got := rows(); len(got) != 1 {
		t.Fatalf("%d rows, want 1", len(got))
	}
	must0(t, b.db.FlushStrangers(t.Context()))
	b.advance(store.StrangersEvery)
	must0(t, b.db.SummariseStrangers(t.Context()))
	got := rows()
	if len(got) != 2 || !strings.Contains(got[0].Reason, "127.0.0.1") || !strings.HasPrefix(got[1].Reason, "4 refusals of malformed ") || !strings.HasSuffix(got[1].Reason, "from 127.0.0.0/24 (4)") {
		t.Errorf("rows %+v", got)
	}
}

func TestAP256KeyEnrolsAsWell(t *testing.T) {
	b := newBroker(t)
	_, token := b.create(store.NewNode{})
	n := b.machineWith(must(pki.GenerateKey(pki.P256))(t))
	n.enroll(token)
	n.post(n.path("/renew"), n.renewRequest()).into(new(wire.RenewReply))
}
