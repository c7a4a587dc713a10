package nodeapi

import (
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/store"
	"github.com/hostler/hostler/broker/store/storetest"
	"github.com/hostler/hostler/pki"
	"github.com/hostler/hostler/pki/pkitest"
	"github.com/hostler/hostler/taskcatalog/wire"
)

// try asks for a route of the table as a node.
func (n *testNode) try(method, pattern, id string) *answer {
	n.b.t.Helper()
	path := strings.NewReplacer("{id}", id, "{task_id}", "t-1", "{digest}", strings.Repeat("0", 64)).Replace(pattern)
	if method == http.MethodGet {
		return n.get(path + "?lanes=")
	}
	return n.post(path, []byte("{}"))
}

// All routes but two need a certificate. Each is tried with each kind of invalid certificate.
func TestEachRouteRefusesEachBadCertificate(t *testing.T) {
	b := newBroker(t)
	n, other := b.member(), b.member()
	n.post(n.path("/renew"), n.renewRequest()).into(new(wire.RenewReply))
	stranger := b.machine()
	needed := 0
	for _, route := range routes {
		if route.admit == anyone {
			continue
		}
		needed++
		t.Run(route.path, func(t *testing.T) {
			b.advance(time.Minute)
			stranger.try(route.method, route.path, n.id).refused(b, 401, "certificate_required")
			other.try(route.method, route.path, n.id).refused(b, 403, "wrong_node")
			if row := b.audited("wrong_node"); row.Actor != "node:"+other.id {
				t.Errorf("the audit log names %s, want the node that tried", row.Actor)
			}
		})
	}
	if needed != 6 {
		t.Errorf("%d routes need a certificate, want 6: has one lost its check?", needed)
	}
	b.advance(DefaultCertLife)
	for _, route := range routes {
		if route.admit != member && route.admit != polling {
			continue
		}
		t.Run(route.path+" with an expired certificate", func(t *testing.T) {
			b.advance(time.Minute)
			n.try(route.method, route.path, n.id).refused(b, 403, "certificate_expired")
		})
	}
}

func TestAnExpiredCertificateIsRefusedOnAConnectionThatIsStillOpen(t *testing.T) {
	b := newBroker(t)
	n := b.member()
	n.post(n.path("/tasks/t-1/progress"), wire.ProgressRequest{}) // the connection exists now
	b.advance(DefaultCertLife + time.Second)
	n.get(n.path("/tasks/wait?lanes=")).refused(b, 403, "certificate_expired")
}

func TestACertificateOfAStrangerIsShutOut(t *testing.T) {
	b := newBroker(t)
	n := b.member()
	foreign := pkitest.NewAt(t, b.clock.Now()).Enroll(t, pki.NodeIdentity{NodeID: n.id, Epoch: 1}, time.Hour)
	n.connect(&foreign.Cert)
	n.get(n.path("/tasks/wait?lanes=")).shutOut(b, "certificate_unknown_authority")
}

func TestAServerCertificateIsNoNodes(t *testing.T) {
	b := newBroker(t)
	n := b.member()
	server := must(b.trust.ServerCertificate(nil))(t)
	n.connect(server)
	n.get(n.path("/tasks/wait?lanes=")).shutOut(b, "certificate_wrong_usage")
}

func TestADeniedCertificateIsRefusedAtOnce(t *testing.T) {
	b := newBroker(t)
	n := b.member()
	n.post(n.path("/renew"), n.renewRequest()).into(new(wire.RenewReply)) // the connection exists now
	must0(t, b.db.Deny(t.Context(), admin, pki.Serial(n.cert.Leaf), "stolen"))
	eventually(t, "the deny list knows", func() bool { return b.deny.denied(pki.Serial(n.cert.Leaf)) })
	n.post(n.path("/renew"), n.renewRequest()).refused(b, 403, "certificate_denied")

	n.connect(n.cert)
	n.post(n.path("/renew"), n.renewRequest()).shutOut(b, "certificate_denied")
	if row := b.audited("certificate_denied"); row.Subject != "node/"+n.id {
		t.Errorf("the audit log names %s", row.Subject)
	}
}

// resuming gives the node one connection after another. Each resumes the session of the connection
// before, if the broker allows it. ask makes a request and returns the status of the answer.
func (n *testNode) resuming(b *testBroker) (next func() (resumed bool, ask func(method, path string) (string, error))) {
	cache := tls.NewLRUClientSessionCache(1)
	return func() (bool, func(string, string) (string, error)) {
		b.t.Helper()
		config := pki.PinnedConfig(b.trust.RootSHA256(), "127.0.0.1", b.clock.Now)
		config.ClientSessionCache = cache
		config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return n.cert, nil }
		conn := must(tls.Dial("tcp", b.addr, config))(b.t)
		b.t.Cleanup(func() { _ = conn.Close() })
		return conn.ConnectionState().DidResume, func(method, path string) (string, error) {
			_, err := fmt.Fprintf(conn, "%s %s HTTP/1.1\r\nHost: broker\r\nContent-Length: 0\r\n\r\n", method, n.path(path))
			if err != nil {
				return "", err
			}
			line := make([]byte, 12)
			_, err = conn.Read(line)
			return string(line), err
		}
	}
}

// good is a request that gets as far as its query.
const good = "/tasks/wait?lanes=nothing"

// A resumed session skips VerifyPeerCertificate; VerifyConnection sees it.
func TestAResumedSessionOfADeniedCertificateIsRefused(t *testing.T) {
	b := newBroker(t)
	n := b.member()
	next := n.resuming(b)
	for again := range 2 {
		resumed, ask := next()
		if got, err := ask("GET", good); got != "HTTP/1.1 422" || resumed != (again == 1) {
			t.Fatalf("connection %d: resumed %v, %q (%v)", again+1, resumed, got, err)
		}
	}
	must0(t, b.db.Deny(t.Context(), admin, pki.Serial(n.cert.Leaf), "stolen"))
	eventually(t, "the deny list knows", func() bool { return b.deny.denied(pki.Serial(n.cert.Leaf)) })
	resumed, ask := next()
	if !resumed {
		t.Fatal("the session was not resumed: the test shows nothing")
	}
	if got, err := ask("GET", good); err == nil {
		t.Errorf("a resumed session of a denied certificate got in: %q", got)
	}
	b.audited("certificate_denied")
}

// A session that outlives its certificate gives no more than the certificate: a new session begins,
// good only for a renewal.
func TestASessionOfAnExpiredCertificateIsNotResumed(t *testing.T) {
	b := newBroker(t)
	n := b.member()
	next := n.resuming(b)
	for again := range 2 {
		resumed, ask := next()
		if got, err := ask("GET", good); got != "HTTP/1.1 422" || resumed != (again == 1) {
			t.Fatalf("connection %d: resumed %v, %q (%v)", again+1, resumed, got, err)
		}
	}
	b.advance(DefaultCertLife + time.Second)
	resumed, ask := next()
	if got, err := ask("GET", good); resumed || got != "HTTP/1.1 403" {
		t.Errorf("resumed %v, %q (%v)", resumed, got, err)
	}
}

// The keys of sessions belong to one process. A session of another broker with the same keys and
// the same database, as before a restart, is worthless here and only costs a whole handshake.
func TestASessionOfAnotherBrokerIsBegunAnew(t *testing.T) {
	b := newBroker(t)
	n := b.member()
	next := n.resuming(b)
	if _, ask := next(); true {
		must(ask("GET", good))(t)
	}
	other := must(New(t.Context(), b.c))(t)
	server, listener := other.Server(), must(net.Listen("tcp", "127.0.0.1:0"))(t)
	go func() { _ = server.ServeTLS(listener, "", "") }()
	t.Cleanup(func() { _ = server.Close() })
	b.addr = listener.Addr().String() // the session belongs to the name, which is the same
	resumed, ask := next()
	if got, err := ask("GET", good); resumed || got != "HTTP/1.1 422" {
		t.Errorf("resumed %v, %q (%v)", resumed, got, err)
	}
}

func TestAnOldCertificateIsRefusedAfterReEnrolment(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, clock *storetest.Clock) {
		b := newBrokerOn(t, db, clock)
		old := b.member()
		old.post(old.path("/renew"), old.renewRequest()).into(new(wire.RenewReply))

		_, token := b.reissue(old.id)
		n := b.machine()
		n.enroll(token)
		if n.epoch != 2 {
			t.Fatalf("epoch %d, want 2", n.epoch)
		}
		b.advance(recheckEvery)
		old.post(old.path("/renew"), old.renewRequest()).refused(b, 403, "epoch_superseded")

		n.post(n.path("/renew"), n.renewRequest()).into(new(wire.RenewReply))
		eventually(t, "the deny list knows", func() bool { return b.deny.denied(pki.Serial(old.cert.Leaf)) })
		old.connect(old.cert)
		old.get(old.path("/tasks/wait?lanes=nothing")).shutOut(b, "certificate_denied")
	})
}

// Neither a deny list that is two seconds old nor a record that is a minute old lets an earlier
// enrolment in again.
func TestAnEarlierEpochIsRefusedBeforeTheDenyListIsRead(t *testing.T) {
	b := newBroker(t)
	old := b.member()
	old.post(old.path("/renew"), old.renewRequest()).into(new(wire.RenewReply))
	b.stop()
	_, token := b.reissue(old.id)
	n := b.machine()
	n.enroll(token)
	n.post(n.path("/renew"), n.renewRequest()).into(new(wire.RenewReply))
	if b.deny.denied(pki.Serial(old.cert.Leaf)) {
		t.Fatal("the deny list knows already: the test shows nothing")
	}
	old.post(old.path("/renew"), old.renewRequest()).refused(b, 403, "epoch_superseded")
	old.get(old.path("/tasks/wait?lanes=")).refused(b, 403, "epoch_superseded")
}

func (b *testBroker) reissue(id string) (string, string) {
	b.t.Helper()
	secret := "hsn_" + strings.Repeat("r", 20) + fmt.Sprint(b.clock.Now().UnixNano())
	must0(b.t, b.db.IssueToken(b.t.Context(), admin, id, pki.HashToken(secret), b.clock.Now().Add(time.Hour), "disk replaced"))
	return id, secret
}

func TestARemovedNodeIsRefused(t *testing.T) {
	b := newBroker(t)
	n := b.member()
	n.post(n.path("/renew"), n.renewRequest()).into(new(wire.RenewReply))
	_, err := b.db.Transition(t.Context(), admin, n.id, store.Change{To: broker.Deleted, By: broker.OwnerRemoval, Reason: "sold"})
	must0(t, err)
	eventually(t, "the deny list knows", func() bool { return b.deny.denied(pki.Serial(n.cert.Leaf)) })
	n.post(n.path("/renew"), n.renewRequest()).refused(b, 403, "certificate_denied")
}

func TestABrokerThatCannotReadTheDenyListAnswersNobody(t *testing.T) {
	b := newBroker(t)
	n := b.member()
	b.stop() // nobody reads the deny list any more
	b.clock.Advance(denyListGrace)
	n.get(n.path("/tasks/wait?lanes=nothing")).refused(b, 422, "bad_lanes")
	b.clock.Advance(time.Second)
	for _, route := range routes {
		a := n.try(route.method, route.path, n.id)
		if a.status != http.StatusServiceUnavailable || a.header.Get("Retry-After") == "" {
			t.Errorf("%s: status %d, want 503 and when to come back", route.path, a.status)
		}
	}
	must0(t, b.readDenyList(t.Context()))
	n.get(n.path("/tasks/wait?lanes=nothing")).refused(b, 422, "bad_lanes")
}

func TestWhatIsNoRouteIsNone(t *testing.T) {
	b := newBroker(t)
	n := b.member()
	for _, path := range []string{"/", "/internal/v1/nodes/" + n.id, "/internal/v1/nodes//renew", "/api/v1/admin/nodes", "/internal/v1/packages/sha256/" + strings.Repeat("0", 64) + "/.."} {
		if a := n.get(path); a.status/100 == 2 || a.status/100 == 5 {
			t.Errorf("%s: status %d", path, a.status)
		}
	}
}

// An expired certificate may renew for a while, so it stays denied for that time. Afterwards the
// certificate opens nothing, denied or not.
func TestADeniedCertificateNeverRenews(t *testing.T) {
	b := newBroker(t)
	n := b.member()
	serial, end := pki.Serial(n.cert.Leaf), n.cert.Leaf.NotAfter.Add(DefaultRenewGrace)
	must0(t, b.db.Deny(t.Context(), admin, serial, "stolen"))
	b.advance(end.Sub(b.clock.Now()))
	if !b.deny.denied(serial) {
		t.Error("it is not denied while it could renew")
	}
	n.connect(n.cert)
	n.post(n.path("/renew"), n.renewRequest()).shutOut(b, "certificate_denied")
	b.clock.Advance(time.Second)
	must0(t, b.readDenyList(t.Context()))
	n.connect(n.cert)
	n.post(n.path("/renew"), n.renewRequest()).refused(b, 403, "renew_grace_over")
}
