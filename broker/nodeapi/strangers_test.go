package nodeapi

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/store"
	"github.com/hostler/hostler/pki"
	"github.com/hostler/hostler/pki/pkitest"
)

// address is one of 6,000 networks.
func address(i int) string { return fmt.Sprintf("10.%d.%d.9:4711", i/250, i%250) }

func (b *testBroker) auditRows() int {
	b.t.Helper()
	return len(must(b.db.ListAudit(b.t.Context(), store.AuditFilter{Limit: 100000}))(b.t))
}

// TestNobodyFillsTheAuditLogFromManyAddresses asks every route without a certificate, and presents
// certificates of a foreign CA, from thousands of networks.
func TestNobodyFillsTheAuditLogFromManyAddresses(t *testing.T) {
	b := newBroker(t)
	handler, had := b.Handler(), b.auditRows()
	path := strings.NewReplacer("{id}", "n-one", "{task_id}", "t-one", "{session_id}", "ts-one", "{digest}", strings.Repeat("0", 64))
	own := pkitest.NewAt(t, b.clock.Now())
	theirs := must(x509.ParseCertificates(slices.Concat(own.NewNode(t).Cert.Certificate...)))(t)
	bad := 0
	for i := range 6000 {
		for _, r := range routes {
			req := httptest.NewRequest(r.method, path.Replace(r.path), strings.NewReader(`{}`))
			req.RemoteAddr = address(i)
			handler.ServeHTTP(httptest.NewRecorder(), req)
		}
		if i%10 == 0 { // for nodes that do not exist, by a foreign CA
			from := must(net.ResolveTCPAddr("tcp", address(i)))(t)
			if b.verifyConnection(tls.ConnectionState{PeerCertificates: theirs}, from) == nil {
				t.Fatal("a certificate of somebody's own is taken")
			}
			bad++
		}
	}
	must0(t, b.db.FlushStrangers(t.Context()))
	b.advance(store.StrangersEvery)
	must0(t, b.db.SummariseStrangers(t.Context()))
	kinds := map[string]int{}
	for _, e := range must(b.db.ListAudit(t.Context(), store.AuditFilter{Limit: 100000}))(t) {
		kinds[e.Action+" "+e.Code]++
		if kinds[e.Action+" "+e.Code] > 2 {
			t.Errorf("%s %s is in the audit log more than twice", e.Action, e.Code)
		}
	}
	if got := b.auditRows() - had; got < 4 || got > 12 {
		t.Errorf("%d requests and %d certificates left %d rows: %v", 6000*len(routes), bad, got, kinds)
	}
}

// A holder of a node's key can use any address.
func TestARefusedNodeIsARowAMinuteWhereverItAsksFrom(t *testing.T) {
	b := newBroker(t)
	n := b.member()
	had := b.auditRows()
	for i := range 500 {
		c := n.asks(t.Context())
		c.r.RemoteAddr = address(i)
		c.peer = &pki.Peer{NodeIdentity: pki.NodeIdentity{NodeID: n.id, Epoch: n.epoch}, Cert: n.cert.Leaf}
		b.problem(c, broker.Errorf(broker.Forbidden, "wrong_node", "no"))
	}
	if got := b.auditRows() - had; got != 1 {
		t.Errorf("500 refusals of one node are %d rows", got)
	}
	must0(t, b.db.Deny(t.Context(), admin, pki.Serial(n.cert.Leaf), "test"))
	b.advance(0)
	shown := must(x509.ParseCertificates(slices.Concat(n.cert.Certificate...)))(t)
	had = b.auditRows()
	for i := range 500 {
		from := must(net.ResolveTCPAddr("tcp", address(i)))(t)
		if b.verifyConnection(tls.ConnectionState{PeerCertificates: shown}, from) == nil {
			t.Fatal("a denied certificate is taken")
		}
	}
	if got := b.auditRows() - had; got != 1 {
		t.Errorf("500 connections with a denied certificate are %d rows", got)
	}
}
