package servertest

import (
	"bytes"
	"crypto"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/pki"
	"github.com/hostler/hostler/taskcatalog"
	"github.com/hostler/hostler/taskcatalog/wire"
)

// Node is a node as the broker sees one: Node speaks the wire protocol, and the test chooses its
// answers.
type Node struct {
	pki.NodeIdentity
	Hostname string
	Trust    *pki.TrustBundle

	b      *Broker
	key    crypto.Signer
	client *http.Client
	more   []wire.Delivery // came together with a delivery that Next returned
}

// OnRecord makes sites of these names, unless they exist or the name is empty. The sites are
// disabled, so that nobody asks their MAAS, which does not exist.
func (b *Broker) OnRecord(t testing.TB, names ...string) {
	t.Helper()
	for _, name := range names {
		if name == "" || b.Ask(t, b.Token, http.MethodGet, "/maas-sites/"+name, nil).Status == http.StatusOK {
			continue
		}
		Must[api.Site](t, b, http.MethodPost, "/maas-sites", map[string]any{
			"name": name, "region_code": name, "status": "disabled", "api_base_url": "http://" + name + ".invalid:5240/MAAS/",
			"pxe_iface": "ens19", "pxe_vlan_vid": 46, "node_pxe_iface": "eno8303",
		})
	}
}

// NewNode creates a node record and enrols the node, and creates its site's record if needed. The
// node is enrolling; its first request makes the broker ask for the baseline (see Settle).
func (b *Broker) NewNode(t testing.TB, c api.NodeCreate) *Node {
	t.Helper()
	b.OnRecord(t, c.Site)
	boot := Must[api.NodeBootstrap](t, b, http.MethodPost, "/nodes", c)
	return b.Enroll(t, boot.Token, c.Hostname)
}

// Enroll enrols with a token, over a connection with a pinned root, as a machine does.
func (b *Broker) Enroll(t testing.TB, token, hostname string) *Node {
	t.Helper()
	return b.EnrollMachine(t, token, hostname, "")
}

// H100s are the facts of a machine with n H100 GPUs, whose agent does not look for disks.
func H100s(n int) *taskcatalog.Facts {
	f := &taskcatalog.Facts{Keys: map[string]string{"gpu.vendor": "nvidia"}}
	memory := uint64(85520809984)
	for i := range n {
		f.GPUs = append(f.GPUs, taskcatalog.GPUFacts{
			Vendor: "nvidia", Index: i, UUID: fmt.Sprintf("GPU-%08x", i), Serial: fmt.Sprintf("16400%05d", i),
			PCIAddress: fmt.Sprintf("0000:%02x:00.0", 0x1b+i), Name: "NVIDIA H100 80GB HBM3", MemoryBytes: &memory,
		})
	}
	return f
}

// EnrollMachine is Enroll for a machine that knows its MAAS system id. Without facts the machine
// has eight H100.
func (b *Broker) EnrollMachine(t testing.TB, token, hostname, systemID string, facts ...*taskcatalog.Facts) *Node {
	t.Helper()
	var hardware *taskcatalog.Facts
	can := map[string]string{}
	switch {
	case len(facts) > 0:
		hardware = facts[0]
	case systemID != "":
		hardware = H100s(8)
	}
	if hardware != nil {
		can = hardware.Keys
	}
	key, err := pki.GenerateKey(pki.Ed25519)
	if err != nil {
		t.Fatal(err)
	}
	csr, err := pki.NewCSR(key)
	if err != nil {
		t.Fatal(err)
	}
	n := &Node{Hostname: hostname, b: b}
	n.client = &http.Client{Transport: &http.Transport{TLSClientConfig: pki.PinnedConfig(b.RootSHA256(), "127.0.0.1", b.Now)}}
	var reply wire.EnrollReply
	n.must(t, http.MethodPost, "/internal/v1/nodes/enroll", wire.EnrollRequest{
		Token: token, CSR: string(csr), AgentVersion: "test", TaskTypes: taskcatalog.IDs(),
		Capabilities: can, Hostname: hostname, MAASSystemID: systemID, Facts: hardware, Now: b.Now(),
	}, &reply)
	n.NodeIdentity = pki.NodeIdentity{NodeID: reply.NodeID, Epoch: reply.NodeEpoch}
	if n.Trust, err = pki.FirstBundle([]byte(reply.TrustBundle), b.Now()); err != nil {
		t.Fatal(err)
	}
	n.adopt(t, key, reply.Certificate)
	return n
}

// At is the same node towards another replica, with connections of its own.
func (n *Node) At(t testing.TB, b *Broker) *Node {
	t.Helper()
	there := *n
	there.b = b
	transport := &http.Transport{TLSClientConfig: n.TLS()}
	there.client = &http.Client{Transport: transport}
	t.Cleanup(transport.CloseIdleConnections)
	return &there
}

// adopt makes the node use a key that the broker has certified.
func (n *Node) adopt(t testing.TB, key crypto.Signer, chain string) (leaf *x509.Certificate) {
	t.Helper()
	cert := tls.Certificate{PrivateKey: key}
	for rest := []byte(chain); len(bytes.TrimSpace(rest)) > 0; {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block != nil {
			cert.Certificate = append(cert.Certificate, block.Bytes)
		} else {
			t.Fatal("the certificate is no PEM")
		}
	}
	var err error
	if cert.Leaf, err = x509.ParseCertificate(cert.Certificate[0]); err != nil {
		t.Fatal(err)
	}
	n.client.CloseIdleConnections()
	n.key, n.client = key, &http.Client{Transport: &http.Transport{TLSClientConfig: pki.ClientConfig(n.Trust.Roots(n.b.Now()), &cert, n.b.Now)}}
	t.Cleanup(n.client.CloseIdleConnections)
	return cert.Leaf
}

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
	n.Progress(t, d, wire.ProgressRequest{TotalSteps: 1, CurrentStepName: "rotate_identity", StepStatus: "running", StepStartedAt: n.b.Now()})
	digest, err := pki.PublicKeyDigest(key.Public())
	if err != nil {
		t.Fatal(err)
	}
	n.Finish(t, d, task, taskcatalog.OutcomeSucceeded, taskcatalog.RotateIdentityResult{
		Serial: pki.Serial(leaf), KeySHA256: strings.TrimPrefix(digest, "sha256:"), NotAfter: leaf.NotAfter.UTC(),
	}, taskcatalog.Report{})
}

// Settle answers the broker's request for a baseline, so that the node is active.
func (n *Node) Settle(t testing.TB) *Node {
	t.Helper()
	d, task := n.Next(t)
	if task.Type != "node.validate_clean" {
		t.Fatalf("the first task is %s, want node.validate_clean", task.Type)
	}
	baseline := taskcatalog.Baseline{TakenAt: n.b.Now().UTC(), Processes: []string{"/usr/sbin/sshd"}}
	baseline.Inventory.NICs = []string{"0c:42:a1:00:00:01"}
	digest, err := baseline.Digest()
	if err != nil {
		t.Fatal(err)
	}
	n.Finish(t, d, task, taskcatalog.OutcomeSucceeded, taskcatalog.ValidateCleanResult{BaselineDigest: digest, Baseline: &baseline}, taskcatalog.Report{})
	return n
}

// Next waits for the next task and verifies it as a node does.
func (n *Node) Next(t testing.TB) (wire.Delivery, *taskcatalog.Task) {
	t.Helper()
	if len(n.more) == 0 {
		Eventually(t, "a task", func() bool {
			var found wire.WaitReply
			n.must(t, http.MethodGet, n.path("/tasks/wait?lanes=exclusive,concurrent"), nil, &found)
			n.more = found.Tasks
			return len(n.more) > 0
		})
	}
	d := n.more[0]
	n.more = n.more[1:]
	return d, n.Verified(t, d)
}

// Verified is the task of a delivery, verified as a node does.
func (n *Node) Verified(t testing.TB, d wire.Delivery) *taskcatalog.Task {
	t.Helper()
	env, err := pki.ParseEnvelope([]byte(d.Envelope))
	if err != nil {
		t.Fatal(err)
	}
	task, err := n.Trust.VerifyTask(env, n.b.Now())
	if err != nil {
		t.Fatal(err)
	}
	return task
}

// Progress reports progress of a task.
func (n *Node) Progress(t testing.TB, d wire.Delivery, p wire.ProgressRequest) wire.ProgressReply {
	t.Helper()
	p.Attempt = d.Attempt
	var reply wire.ProgressReply
	n.must(t, http.MethodPost, n.path("/tasks/"+d.TaskID+"/progress"), p, &reply)
	return reply
}

// Mint asks for a secret for a task; code is the code of a refusal.
func (n *Node) Mint(t testing.TB, d wire.Delivery, credentialType string) (reply wire.MintReply, code string) {
	t.Helper()
	status, raw := n.do(t, http.MethodPost, n.path("/tasks/"+d.TaskID+"/credentials/mint"), wire.MintRequest{Attempt: d.Attempt, CredentialType: credentialType})
	var p wire.Problem
	if status/100 != 2 {
		if err := json.Unmarshal(raw, &p); err != nil {
			t.Fatal(err)
		}
		return reply, string(p.Code)
	}
	if err := taskcatalog.DecodeStrict(raw, &reply); err != nil {
		t.Fatal(err)
	}
	return reply, ""
}

// Finish ends a task with evidence signed by the node's key.
func (n *Node) Finish(t testing.TB, d wire.Delivery, task *taskcatalog.Task, outcome taskcatalog.Outcome, result any, report taskcatalog.Report) {
	t.Helper()
	n.finish(t, d, task, wire.ResultRequest{Outcome: outcome}, result, report)
}

// Fail ends a failed task with a code and a message.
func (n *Node) Fail(t testing.TB, d wire.Delivery, task *taskcatalog.Task, code taskcatalog.Code, message string) {
	t.Helper()
	n.finish(t, d, task, wire.ResultRequest{Outcome: taskcatalog.OutcomeFailed, Code: code, Message: message}, nil, taskcatalog.Report{})
}

func (n *Node) finish(t testing.TB, d wire.Delivery, task *taskcatalog.Task, req wire.ResultRequest, result any, report taskcatalog.Report) {
	t.Helper()
	var raw []byte
	digest := ""
	if result != nil {
		var err error
		if raw, err = taskcatalog.Encode(result); err != nil {
			t.Fatal(err)
		}
		digest = pki.Digest(raw)
	}
	now := n.b.Now().UTC()
	evidence, err := pki.SignEvidence(taskcatalog.Evidence{
		TaskID: task.TaskID, TaskDigest: pki.Digest([]byte(d.Envelope)), NodeID: n.NodeID, NodeEpoch: n.Epoch, BootID: "boot",
		Nonce: task.Nonce, StartedAt: now, FinishedAt: now, AgentVersion: "test", Outcome: req.Outcome, Code: req.Code,
		ResultDigest: digest, Report: report,
	}, n.key)
	if err != nil {
		t.Fatal(err)
	}
	req.Attempt, req.Result, req.Evidence = d.Attempt, json.RawMessage(raw), string(evidence)
	if collected, ok := result.(taskcatalog.DiagnosticsResult); ok {
		req.Archive = collected.Archive
	}
	n.must(t, http.MethodPost, n.path("/tasks/"+d.TaskID+"/result"), req, nil)
}

// Try makes a request below the node's path and returns its status and the code of a refusal. err
// is set if there was no answer.
func (n *Node) Try(method, path string) (status int, code string, err error) {
	req, err := http.NewRequest(method, n.b.AgentURL()+n.path(path), nil)
	if err != nil {
		return 0, "", err
	}
	res, err := n.client.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer func() { _ = res.Body.Close() }()
	raw, err := io.ReadAll(res.Body)
	var p wire.Problem
	if err == nil && res.StatusCode/100 != 2 && json.Unmarshal(raw, &p) == nil {
		code = string(p.Code)
	}
	return res.StatusCode, code, err
}

func (n *Node) path(rest string) string { return "/internal/v1/nodes/" + n.NodeID + rest }

func (n *Node) must(t testing.TB, method, path string, body, into any) {
	t.Helper()
	status, raw := n.do(t, method, path, body)
	if status/100 != 2 {
		t.Fatalf("%s %s: %d %s", method, path, status, raw)
	}
	if into == nil || status == http.StatusNoContent {
		return
	}
	if err := taskcatalog.DecodeStrict(raw, into); err != nil {
		t.Fatalf("%s %s: %v", method, path, err)
	}
}

func (n *Node) do(t testing.TB, method, path string, body any) (int, []byte) {
	t.Helper()
	var reader io.Reader
	if body != nil {
		raw, err := taskcatalog.Encode(body)
		if err != nil {
			t.Fatal(err)
		}
		reader = bytes.NewReader(raw)
	}
	req, err := http.NewRequestWithContext(t.Context(), method, n.b.AgentURL()+path, reader)
	if err != nil {
		t.Fatal(err)
	}
	res, err := n.client.Do(req)
	if err != nil {
		t.Fatalf("%s %s: %v", method, path, err)
	}
	defer func() { _ = res.Body.Close() }()
	raw, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, raw
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
		CSR: string(csr), AgentVersion: version, TaskTypes: taskcatalog.IDs(), Capabilities: map[string]string{}, Agent: build, TrustVersion: n.Trust.Version,
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
		CSR: string(csr), AgentVersion: "test", TaskTypes: taskcatalog.IDs(), Capabilities: map[string]string{}, TrustVersion: n.Trust.Version,
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

// Offered returns the deliveries for the node at this moment, without waiting for more.
func (n *Node) Offered(t testing.TB) []wire.Delivery {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, n.b.AgentURL()+n.path("/tasks/wait?lanes=exclusive,concurrent"), nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set(wire.HeaderPrefer, wire.PreferNoWait)
	res, err := n.client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	raw, err := io.ReadAll(res.Body)
	var found wire.WaitReply
	if err == nil && res.StatusCode != http.StatusNoContent {
		err = taskcatalog.DecodeStrict(raw, &found)
	}
	if err != nil || res.StatusCode/100 != 2 {
		t.Fatalf("%d %s, %v", res.StatusCode, raw, err)
	}
	return found.Tasks
}
