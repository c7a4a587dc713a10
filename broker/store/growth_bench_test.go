package store_test

import (
	"crypto/rand"
	"crypto/x509"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/store"
	"github.com/hostler/hostler/broker/store/storetest"
	"github.com/hostler/hostler/broker/trust"
	"github.com/hostler/hostler/pki"
)

// BenchmarkRenewal measures the cost of a renewal: time, and the space left used on SQLite's disk,
// by table with indexes. The chain on record is a real chain.
func BenchmarkRenewal(b *testing.B) {
	url := storetest.URL(b, "sqlite")
	db := storetest.Reopen(b, url, nil)
	n := newMember(b, db, "bench")
	chain := issued(b, db, n)
	pem, spki := string(pki.MarshalCerts(chain...)), chain[0].RawSubjectPublicKeyInfo
	serial := must(db.Certificates(ctx, n.ID))(b)[0].Serial
	before := storetest.OnDisk(b, url)
	b.ResetTimer()
	for i := range b.N {
		next := fmt.Sprintf("%032x", i)
		must(db.RecordRenewal(ctx, store.Renewal{
			NodeID: n.ID, Epoch: 1, OldSerial: serial, PublicKeyDigest: pki.Digest(spki), TrustVersion: n.TrustVersion,
			Cert:   store.IssuedCert{Serial: next, PEM: pem, PublicKey: spki, NotBefore: db.Now(), NotAfter: db.Now().Add(24 * time.Hour)},
			Report: store.NodeReport{AgentVersion: n.AgentVersion, TaskTypes: n.TaskTypes, Digest: n.ReportDigest},
		}))(b)
		serial = next
	}
	b.StopTimer()
	ok(b, db.Close())
	after := storetest.OnDisk(b, url)
	for _, table := range []string{"certificates", "audit_logs"} {
		b.ReportMetric(float64(after[table].Bytes-before[table].Bytes)/float64(b.N), table+"-B/op")
	}
}

// issued is a chain as a broker issues it to a node.
func issued(b *testing.B, db *store.DB, n broker.Node) []*x509.Certificate {
	b.Helper()
	dir := filepath.Join(b.TempDir(), "keys")
	ok(b, trust.Make(dir, trust.MakeOptions{Now: db.Now()}))
	authority := must(trust.Open(ctx, trust.Options{Dir: dir, DB: db, Now: db.Now}))(b)
	key := must(pki.GenerateKey(pki.Ed25519))(b)
	id := pki.NodeIdentity{NodeID: pki.NewNodeID(rand.Reader), Epoch: n.Epoch} // the store accepts any name, a certificate does not
	raw := must(pki.NewCSR(key))(b)
	csr := must(pki.ParseCSR(raw))(b)
	_, chain, err := authority.IssueNode(csr, id, db.Now(), 24*time.Hour)
	ok(b, err)
	return chain
}
