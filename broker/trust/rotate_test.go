package trust

import (
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/store"
	"github.com/hostler/hostler/broker/store/storetest"
	"github.com/hostler/hostler/pki"
	"github.com/hostler/hostler/taskcatalog"
)

var admin = broker.Actor{Name: "alice", Role: broker.RolePlatformAdmin}

// bench is a broker's keys and its database.
type bench struct {
	*Authority
	dir   string
	db    *store.DB
	clock *storetest.Clock
}

func newBench(t *testing.T, db *store.DB, clock *storetest.Clock) *bench {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "keys")
	if err := Make(dir, MakeOptions{Now: clock.Now()}); err != nil {
		t.Fatal(err)
	}
	b := &bench{dir: dir, db: db, clock: clock}
	b.reopen(t)
	return b
}

// reopen is a restart of the broker.
func (b *bench) reopen(t *testing.T) {
	t.Helper()
	a, err := Open(t.Context(), b.options())
	if err != nil {
		t.Fatal(err)
	}
	b.Authority = a
}

func (b *bench) options() Options {
	return Options{Dir: b.dir, DB: b.db, Now: b.clock.Now, Advertise: []string{"broker.example", "192.0.2.7"}}
}

// node is an enrolled machine, with the bundle that it believes.
type node struct {
	id     pki.NodeIdentity
	key    *x509.CertificateRequest
	cert   *x509.Certificate
	bundle *pki.TrustBundle
}

func (b *bench) create(t *testing.T, hostname string) (id, token string) {
	t.Helper()
	id = pki.NewNodeID(rand.Reader)
	secret, err := pki.NewEnrollToken(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	_, err = b.db.CreateNode(t.Context(), admin, store.NewNode{
		ID: id, Hostname: hostname, Bootstrap: "command",
		TokenHash: pki.HashToken(secret.Reveal()), TokenExpires: b.clock.Now().Add(time.Hour),
	})
	if err != nil {
		t.Fatal(err)
	}
	return id, secret.Reveal()
}

func (b *bench) enroll(t *testing.T, hostname string) *node {
	t.Helper()
	_, token := b.create(t, hostname)
	key, err := pki.GenerateKey(pki.Ed25519)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := pki.NewCSR(key)
	if err != nil {
		t.Fatal(err)
	}
	csr, err := pki.ParseCSR(raw)
	if err != nil {
		t.Fatal(err)
	}
	digest, err := pki.PublicKeyDigest(key.Public())
	if err != nil {
		t.Fatal(err)
	}
	n := &node{key: csr}
	got, err := b.db.Enroll(t.Context(), store.EnrollInput{
		TokenHash: pki.HashToken(token), PublicKeyDigest: digest, TrustVersion: b.Version(),
		Issue: func(rec broker.Node, epoch int64) (store.IssuedCert, error) {
			n.id = pki.NodeIdentity{NodeID: rec.ID, Epoch: epoch}
			return b.issue(t, n), nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.db.FirstContact(t.Context(), got.Node.ID, got.Node.Epoch, got.Cert.Serial); err != nil {
		t.Fatal(err)
	}
	_, rawBundle := b.Bundle()
	if n.bundle, err = pki.FirstBundle(rawBundle, b.clock.Now()); err != nil {
		t.Fatal(err)
	}
	return n
}

func (b *bench) issue(t *testing.T, n *node) store.IssuedCert {
	t.Helper()
	leaf, chain, err := b.IssueNode(n.key, n.id, b.clock.Now(), 24*time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	n.cert = leaf
	return store.IssuedCert{Serial: pki.Serial(leaf), PEM: string(pki.MarshalCerts(chain...)), PublicKey: leaf.RawSubjectPublicKeyInfo, NotBefore: leaf.NotBefore, NotAfter: leaf.NotAfter}
}

// renew gives the node another certificate for its key.
func (b *bench) renew(t *testing.T, n *node) {
	t.Helper()
	old := pki.Serial(n.cert)
	digest, err := pki.PublicKeyDigest(n.key.PublicKey)
	if err != nil {
		t.Fatal(err)
	}
	_, err = b.db.RecordRenewal(t.Context(), store.Renewal{NodeID: n.id.NodeID, Epoch: n.id.Epoch, OldSerial: old, PublicKeyDigest: digest, Cert: b.issue(t, n), TrustVersion: n.bundle.Version})
	if err != nil {
		t.Fatal(err)
	}
}

// hear gives the node the bundle in force; it takes it and confirms.
func (b *bench) hear(t *testing.T, n *node) {
	t.Helper()
	_, raw := b.Bundle()
	next, err := n.bundle.Accept(raw, b.clock.Now())
	if err != nil {
		t.Fatalf("the node refuses the bundle: %v", err)
	}
	n.bundle = next
	if err := b.db.ConfirmTrust(t.Context(), n.id.NodeID, next.Version); err != nil {
		t.Fatal(err)
	}
}

// ask signs a task for the node as the broker would, and has the node verify it.
func (b *bench) ask(t *testing.T, n *node) (keyID string, err error) {
	t.Helper()
	rec, err := b.db.Node(t.Context(), n.id.NodeID)
	if err != nil {
		t.Fatal(err)
	}
	raw, keyID, err := b.SignTask(t.Context(), taskcatalog.Task{TaskID: "t-1", NodeID: n.id.NodeID, Params: []byte("{}")}, rec.TrustVersion)
	if err != nil {
		return "", err
	}
	env, err := pki.ParseEnvelope(raw)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := n.bundle.VerifyTask(env, b.clock.Now()); err != nil {
		t.Fatalf("the node refuses the task: %v", err)
	}
	return keyID, nil
}

func (b *bench) rotate(t *testing.T, use pki.KeyUse) Rotation {
	t.Helper()
	b.clock.Advance(time.Second)
	r, err := b.Rotate(t.Context(), admin, use, "due")
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func (b *bench) stragglers(t *testing.T) string {
	t.Helper()
	nodes, err := b.Stragglers(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, n := range nodes {
		names = append(names, n.Hostname)
	}
	slices.Sort(names)
	return strings.Join(names, " ")
}

func TestARotationWaitsForEveryNode(t *testing.T) {
	for _, use := range rotatable {
		t.Run(string(use), func(t *testing.T) {
			storetest.Each(t, func(t *testing.T, db *store.DB, clock *storetest.Clock) {
				b := newBench(t, db, clock)
				here, away := b.enroll(t, "here"), b.enroll(t, "away")
				r := b.rotate(t, use)
				if got := b.stragglers(t); got != "away here" {
					t.Fatalf("stragglers: %q, want both", got)
				}
				b.hear(t, here)
				if use == pki.UseRoot {
					b.renew(t, here)
				}
				if got := b.stragglers(t); got != "away" {
					t.Fatalf("stragglers: %q, want the one that is away", got)
				}
				before := b.Version()
				refusedWith(t, b.Finish(t.Context(), admin, nil, "done"), "nodes_not_confirmed")
				refusedWith(t, b.Finish(t.Context(), admin, []string{here.id.NodeID}, "done"), "nodes_not_confirmed")
				refusedWith(t, b.Finish(t.Context(), admin, []string{away.id.NodeID, "n-nobody"}, "done"), "node_not_found")
				if b.Version() != before {
					t.Fatal("a refused finish changed the bundle")
				}
				// Both kinds of nodes take tasks meanwhile.
				for _, n := range []*node{here, away} {
					if _, err := b.ask(t, n); err != nil {
						t.Fatal(err)
					}
				}
				// The one that was away comes back, after a restart of the broker.
				b.reopen(t)
				b.hear(t, away)
				if use == pki.UseRoot {
					b.renew(t, away)
				}
				if err := b.Finish(t.Context(), admin, nil, "done"); err != nil {
					t.Fatal(err)
				}
				if _, open := b.Rotation(); open {
					t.Error("the rotation is still open")
				}
				for _, n := range []*node{here, away} {
					b.hear(t, n)
					if _, err := b.ask(t, n); err != nil {
						t.Error(err)
					}
				}
				inForce, _ := b.Bundle()
				if got := live(inForce, use, clock.Now()); len(got) != 1 || got[0].ID != r.NewID {
					t.Errorf("keys in force: %v, want %s alone", got, r.NewID)
				}
				if _, ok := b.ring.find(use, r.OldID); ok {
					t.Error("the old key is still in the ring")
				}
				if left, _ := filepath.Glob(filepath.Join(b.dir, "*"+r.OldID[:16]+"*")); len(left) > 0 {
					t.Errorf("the old private key is still there: %v", left)
				}
				b.reopen(t)
			})
		})
	}
}

func TestATaskIsSignedWithTheNewestKeyThatItsNodeHasConfirmed(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, clock *storetest.Clock) {
		b := newBench(t, db, clock)
		n := b.enroll(t, "node")
		r := b.rotate(t, pki.UseTask)
		if got, err := b.ask(t, n); err != nil || got != r.OldID {
			t.Errorf("not confirmed: signed with %s (%v), want the old key %s", got, err, r.OldID)
		}
		if got, err := b.ask(t, b.enroll(t, "newcomer")); err != nil || got != r.NewID {
			t.Errorf("enrolled since: signed with %s (%v), want the new key %s", got, err, r.NewID)
		}
		b.hear(t, n)
		if got, err := b.ask(t, n); err != nil || got != r.NewID {
			t.Errorf("confirmed: signed with %s (%v), want the new key %s", got, err, r.NewID)
		}
		if _, got, err := b.SignTask(t.Context(), taskcatalog.Task{NodeID: n.id.NodeID, Params: []byte("{}")}, 0); err != nil || got != r.OldID {
			t.Errorf("never heard: signed with %s (%v), want the key that every bundle names", got, err)
		}
	})
}

func TestANodeThatWasLeftBehindIsAskedToEnrolAgain(t *testing.T) {
	b := onSQLite(t)
	n := b.enroll(t, "away")
	b.rotate(t, pki.UseTask)
	if err := b.Finish(t.Context(), admin, []string{n.id.NodeID}, "gone for good"); err != nil {
		t.Fatal(err)
	}
	_, err := b.ask(t, n)
	refusedWith(t, err, "node_left_behind")
	rows, err := b.db.ListAudit(t.Context(), store.AuditFilter{Action: "trust.bundle", Newest: true, Limit: 1})
	if err != nil || len(rows) != 1 || !strings.Contains(rows[0].Reason, n.id.NodeID) || rows[0].Actor != admin.Name {
		t.Errorf("the audit log does not say who left whom behind: %+v (%v)", rows, err)
	}
}

func TestATaskKeyLeavesOnlyWhenNoOpenTaskCarriesItsSignature(t *testing.T) {
	b := onSQLite(t)
	n := b.enroll(t, "node")
	rec, err := b.db.Node(t.Context(), n.id.NodeID)
	if err != nil {
		t.Fatal(err)
	}
	old, err := b.ask(t, n)
	if err != nil {
		t.Fatal(err)
	}
	task, _, err := b.db.InsertTask(t.Context(), admin, broker.Task{
		ID: "t-1", NodeID: rec.ID, NodeEpoch: rec.Epoch, Type: "node.drain", Version: 1, Params: []byte("{}"), Lane: taskcatalog.LaneExclusive, Class: taskcatalog.ClassMutating,
		Envelope: []byte("{}"), KeyID: old, Status: broker.TaskQueued, IssuedAt: b.clock.Now(), NotAfter: b.clock.Now().Add(time.Hour),
	})
	if err != nil {
		t.Fatal(err)
	}
	b.rotate(t, pki.UseTask)
	b.hear(t, n)
	refusedWith(t, b.Finish(t.Context(), admin, nil, "done"), "key_in_use")
	if _, err := b.db.CancelTask(t.Context(), admin, task.ID, "rotation"); err != nil {
		t.Fatal(err)
	}
	if err := b.Finish(t.Context(), admin, nil, "done"); err != nil {
		t.Fatal(err)
	}
}

func TestANodeMayMissBundles(t *testing.T) {
	b := onSQLite(t)
	n := b.enroll(t, "away")
	b.rotate(t, pki.UseTrust)
	if err := b.Finish(t.Context(), admin, []string{n.id.NodeID}, "away"); err != nil {
		t.Fatal(err)
	}
	b.hear(t, n) // from version 1 to 3 at once, signed by the key that has left
	if n.bundle.Version != 3 {
		t.Errorf("version %d, want 3", n.bundle.Version)
	}
}

func TestOneRotationAtATime(t *testing.T) {
	b := onSQLite(t)
	b.rotate(t, pki.UseTask)
	for _, use := range rotatable {
		_, err := b.Rotate(t.Context(), admin, use, "again")
		refusedWith(t, err, "rotation_open")
	}
	_, err := b.Rotate(t.Context(), admin, pki.UseRelease, "never here")
	refusedWith(t, err, "key_use_unknown")
	if err := b.Finish(t.Context(), admin, nil, "no nodes"); err != nil {
		t.Fatal(err)
	}
	refusedWith(t, b.Finish(t.Context(), admin, nil, "again"), "rotation_none")
}

func TestARetiredStatementKeyStaysForWhatItSigned(t *testing.T) {
	b := onSQLite(t)
	before := b.clock.Now()
	r := b.rotate(t, pki.UseStatement)
	if s, err := b.StatementSigner(t.Context()); err != nil || s.ID != r.NewID {
		t.Errorf("statements are signed with %s (%v), want the new key %s", s.ID, err, r.NewID)
	}
	if err := b.Finish(t.Context(), admin, nil, "done"); err != nil {
		t.Fatal(err)
	}
	bundle, _ := b.Bundle()
	if _, ok := bundle.Key(pki.UseStatement, r.OldID, before); !ok {
		t.Error("what the old key signed before cannot be verified any more")
	}
	if _, ok := bundle.Key(pki.UseStatement, r.OldID, b.clock.Now().Add(time.Hour)); ok {
		t.Error("the old key counts for what is signed from now on")
	}
}

func TestARotationOfTheRootLocksNobodyOut(t *testing.T) {
	b := onSQLite(t)
	n := b.enroll(t, "node")
	oldPin, before := b.RootSHA256(), n.cert
	r := b.rotate(t, pki.UseRoot)
	if b.RootSHA256() != oldPin {
		t.Error("first contacts are told of a root that the broker does not present")
	}
	served := func() *tls.Certificate {
		t.Helper()
		cert, err := b.ServerCertificate(nil)
		if err != nil {
			t.Fatal(err)
		}
		return cert
	}
	verify := func(cert *tls.Certificate, roots *x509.CertPool) error {
		between := x509.NewCertPool()
		for _, der := range cert.Certificate[1:] {
			c, err := x509.ParseCertificate(der)
			if err != nil {
				t.Fatal(err)
			}
			between.AddCert(c)
		}
		_, err := cert.Leaf.Verify(x509.VerifyOptions{Roots: roots, Intermediates: between, DNSName: "broker.example", CurrentTime: b.clock.Now()})
		return err
	}
	if err := verify(served(), n.bundle.Roots(b.clock.Now())); err != nil {
		t.Errorf("a node that has not confirmed cannot verify the broker: %v", err)
	}
	if b.ByNewestCA(n.cert) {
		t.Error("a certificate of the old CA is taken for one of the new")
	}
	b.hear(t, n)
	if got := b.stragglers(t); got != "node" {
		t.Errorf("stragglers %q: a node with a certificate of the old CA has confirmed nothing", got)
	}
	b.renew(t, n)
	if !b.ByNewestCA(n.cert) {
		t.Error("a renewal is not by the new CA")
	}
	for _, cert := range []*x509.Certificate{before, n.cert} {
		if err := b.verifyNode(cert); err != nil {
			t.Errorf("refused in the middle of the rotation: %v", err)
		}
	}
	b.create(t, "not-yet-booted")
	if got := b.stragglers(t); got != "not-yet-booted" {
		t.Errorf("stragglers %q: a node whose user-data pins the old root would be locked out", got)
	}
	left, err := b.Stragglers(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Finish(t.Context(), admin, []string{left[0].ID}, "done"); err != nil {
		t.Fatal(err)
	}
	b.hear(t, n)
	if err := verify(served(), n.bundle.Roots(b.clock.Now())); err != nil || b.RootSHA256() != r.NewID {
		t.Errorf("after the rotation: %v, pin %s", err, b.RootSHA256())
	}
	if err := b.verifyNode(n.cert); err != nil {
		t.Errorf("refused after the rotation: %v", err)
	}
	if err := b.verifyNode(before); taskcatalog.CodeOf(err, "") != pki.CodeCertificateUnknownCA {
		t.Errorf("a certificate of the retired CA: %v", err)
	}
}

func (b *bench) verifyNode(leaf *x509.Certificate) error {
	chain := []*x509.Certificate{leaf}
	for _, k := range b.ring.keys(UseIssuing) {
		more, err := k.certs()
		if err != nil {
			return err
		}
		chain = append(chain, more...)
	}
	_, err := pki.VerifyNodePeer(tls.ConnectionState{PeerCertificates: chain}, b.Roots(), b.clock.Now(), func(string) bool { return false })
	return err
}

func TestAnInterruptedRotationIsTakenUp(t *testing.T) {
	for _, use := range rotatable {
		t.Run(string(use), func(t *testing.T) {
			b := onSQLite(t)
			prepared, err := b.prepare(use) // and the process dies
			if err != nil {
				t.Fatal(err)
			}
			b.reopen(t)
			if r := b.rotate(t, use); r.NewID != prepared.ID {
				t.Errorf("rotates to %s, want %s, which was made already", r.NewID, prepared.ID)
			}
			// Dies again between the new bundle and the end of the old key.
			ring := read(t, b.dir)
			saved := filepath.Join(t.TempDir(), "saved")
			if err := os.CopyFS(saved, os.DirFS(b.dir)); err != nil {
				t.Fatal(err)
			}
			old, _ := b.Rotation()
			if err := b.Finish(t.Context(), admin, nil, "done"); err != nil {
				t.Fatal(err)
			}
			if err := os.RemoveAll(b.dir); err != nil {
				t.Fatal(err)
			}
			if err := os.CopyFS(b.dir, os.DirFS(saved)); err != nil {
				t.Fatal(err)
			}
			closeToOthers(t, b.dir)
			if read(t, b.dir) != ring {
				t.Fatal("the test did not put the old ring back")
			}
			b.reopen(t)
			if _, ok := b.ring.find(use, old.OldID); ok {
				t.Error("the retired key came back")
			}
		})
	}
}

func closeToOthers(t *testing.T, dir string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if err := os.Chmod(f, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func onSQLite(t *testing.T) *bench {
	t.Helper()
	clock := storetest.NewClock()
	return newBench(t, storetest.Open(t, "sqlite", clock.Now), clock)
}
