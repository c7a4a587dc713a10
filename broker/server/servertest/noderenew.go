package servertest

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/hostler/hostler/pki"
	"github.com/hostler/hostler/taskcatalog"
	"github.com/hostler/hostler/taskcatalog/wire"
)

// Rotate carries out a node.rotate_identity: the node has a new key from then on.
func (n *Node) Rotate(t testing.TB, d wire.Delivery, task *taskcatalog.Task) {
	t.Helper()
	key, err := pki.GenerateKey(pki.Ed25519)
	if err != nil {
		t.Fatal(err)
	}
	csr, err := pki.NewCSR(key)
	if err != nil {
		t.Fatal(err)
	}
	var reply wire.RenewReply
	n.must(t, http.MethodPost, n.path("/renew"), wire.RenewRequest{
		CSR: string(csr), AgentVersion: "test", TaskTypes: taskcatalog.IDs(), Capabilities: map[string]string{},
		TrustVersion: n.Trust.Version, RotationTask: task.TaskID,
	}, &reply)
	leaf := n.adopt(t, key, reply.Certificate)
	n.Progress(t, d, wire.ProgressRequest{
		TotalSteps: 1, CurrentStepName: "rotate_identity", StepStatus: "running",
		StepStartedAt: n.b.Now(),
	})
	digest, err := pki.PublicKeyDigest(key.Public())
	if err != nil {
		t.Fatal(err)
	}
	n.Finish(t, d, task, taskcatalog.OutcomeSucceeded, taskcatalog.RotateIdentityResult{
		Serial: pki.Serial(leaf), KeySHA256: strings.TrimPrefix(digest, "sha256:"), NotAfter: leaf.NotAfter.UTC(),
	}, taskcatalog.Report{})
}

// Renew renews the certificate, as a node that runs a given program does. The node keeps using its
// present certificate, which is valid until its end.
func (n *Node) Renew(t testing.TB, version string, build *taskcatalog.AgentBuild) {
	t.Helper()
	csr, err := pki.NewCSR(n.key)
	if err != nil {
		t.Fatal(err)
	}
	n.must(t, http.MethodPost, n.path("/renew"), wire.RenewRequest{
		CSR: string(csr), AgentVersion: version, TaskTypes: taskcatalog.IDs(), Capabilities: map[string]string{}, Agent: build,
		TrustVersion: n.Trust.Version,
	}, nil)
}

// TryRenew renews the certificate and uses the new certificate, or returns the code of the refusal.
func (n *Node) TryRenew(t testing.TB) (code string) {
	t.Helper()
	csr, err := pki.NewCSR(n.key)
	if err != nil {
		t.Fatal(err)
	}
	status, raw := n.do(t, http.MethodPost, n.path("/renew"), wire.RenewRequest{
		CSR: string(csr), AgentVersion: "test", TaskTypes: taskcatalog.IDs(), Capabilities: map[string]string{},
		TrustVersion: n.Trust.Version,
	})
	if status/100 != 2 {
		var p wire.Problem
		if err := json.Unmarshal(raw, &p); err != nil {
			t.Fatal(err)
		}
		return string(p.Code)
	}
	var reply wire.RenewReply
	if err := taskcatalog.DecodeStrict(raw, &reply); err != nil {
		t.Fatal(err)
	}
	n.adopt(t, n.key, reply.Certificate)
	return ""
}
