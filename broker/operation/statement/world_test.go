package statement_test

import (
	"crypto/ed25519"
	"crypto/sha256"
	"crypto/x509"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/hostler/hostler/broker/operation/statement"
	"github.com/hostler/hostler/pki"
	"github.com/hostler/hostler/taskcatalog"
)

// world is a broker's keys and a node with them, all derived from names. They must never be trusted.
type world struct {
	t     testing.TB
	now   time.Time
	key   pki.Signer
	trust *pki.TrustBundle
	ca    *pki.CA
	node  pki.NodeIdentity
}

func newWorld(t testing.TB) *world {
	t.Helper()
	const year = 365 * 24 * time.Hour
	w := &world{t: t, now: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC), node: pki.NodeIdentity{NodeID: "n-abcdefghijklmnop", Epoch: 3}}
	serials := &counter{}
	root := must(pki.NewRoot(serials, key("root"), "example root", w.now.Add(-year), 10*year))(t)
	w.ca = must(pki.NewCA([]*x509.Certificate{root}, key("root")))(t)
	w.ca.Rand = serials
	w.key = must(pki.NewSigner(key("statement")))(t)
	w.trust = &pki.TrustBundle{Version: 4, IssuedAt: w.now.Add(-year), Keys: []pki.BundleKey{pki.NewBundleRoot(root)}}
	for _, use := range []pki.KeyUse{pki.UseTask, pki.UseTrust, pki.UseStatement} {
		w.trust.Keys = append(w.trust.Keys, must(pki.NewBundleKey(use, key(string(use)).Public(), w.now.Add(-year), w.now.Add(year)))(t))
	}
	return w
}

// result is what the node says of a task, with one row.
func result(status taskcatalog.StepStatus, digest string) taskcatalog.OperationResult {
	return taskcatalog.OperationResult{
		OperationID: "op-1", Operation: "model.artifact.stage@v1", DefinitionDigest: sum("definition"), InputsDigest: sum("inputs"),
		Steps: []taskcatalog.OperationStep{{
			ID: "pull", StepRecord: taskcatalog.StepRecord{StepKind: "artifact.pull_blob", AttemptNumber: 1, Status: status, DurationMS: 1200},
			Output: "/var/lib/models/w.bin", Digest: digest, Bytes: 200 << 20,
		}},
	}
}

// prove is a task that ended at a minute, with its proof.
func (w *world) prove(id string, minute int, outcome taskcatalog.Outcome, code taskcatalog.Code, result any, edit ...func(*taskcatalog.Evidence)) statement.Task {
	w.t.Helper()
	csr := must(pki.ParseCSR(must(pki.NewCSR(key("node")))(w.t)))(w.t)
	cert := must(w.ca.IssueNode(csr, w.node, w.now.Add(-2*time.Hour), 24*time.Hour))(w.t)
	at := w.now.Add(time.Duration(minute) * time.Minute)
	ev := taskcatalog.Evidence{
		TaskID: id, TaskDigest: sum("task " + id), NodeID: w.node.NodeID, NodeEpoch: w.node.Epoch, BootID: "0b1d", Nonce: "bm9uY2U",
		StartedAt: at.Add(-3 * time.Minute), FinishedAt: at, AgentVersion: "0.1.0", Outcome: outcome, Code: code,
	}
	task := statement.Task{ID: id, NodeID: w.node.NodeID, Digest: ev.TaskDigest, Outcome: outcome, Code: code, Proof: &statement.Proof{Certificate: cert.Raw}}
	if result != nil {
		raw := must(taskcatalog.Encode(result))(w.t)
		task.Proof.Result, ev.ResultDigest = string(raw), pki.Digest(raw)
	}
	for _, e := range edit {
		e(&ev)
	}
	task.Proof.Evidence = string(must(pki.SignEvidence(ev, key("node")))(w.t))
	return task
}

// staged is an operation that failed once and succeeded in its retry.
func (w *world) staged() statement.Operation {
	w.t.Helper()
	return statement.Operation{
		OperationID: "op-1", Operation: "model.artifact.stage@v1", DefinitionDigest: sum("definition"), InputsDigest: sum("inputs"),
		ProjectID: "p-1", AllocationID: "alc-1", Attempt: 1, NodeIDs: []string{w.node.NodeID}, Status: statement.Succeeded,
		Tasks: []statement.Task{
			w.prove("t-1", -30, taskcatalog.OutcomeFailed, taskcatalog.CodeStepFailed, result(taskcatalog.StepFailed, "")),
			w.prove("t-2", -10, taskcatalog.OutcomeSucceeded, "", result(taskcatalog.StepSucceeded, sum("content"))),
		},
		RequestedAt: w.now.Add(-time.Hour), FinishedAt: w.now.Add(-10 * time.Minute), IssuedAt: w.now.Add(-9 * time.Minute),
	}
}

func sum(of string) string { return pki.Digest([]byte(of)) }

func key(name string) ed25519.PrivateKey {
	seed := sha256.Sum256([]byte("hostler example: " + name))
	return ed25519.NewKeyFromSeed(seed[:])
}

// counter is the source of serial numbers.
type counter struct{ n byte }

func (c *counter) Read(b []byte) (int, error) {
	clear(b)
	c.n++
	b[len(b)-1] = c.n
	return len(b), nil
}

func must[T any](v T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func code(err error) string {
	if err == nil {
		return ""
	}
	return strings.TrimSpace(string(taskcatalog.CodeOf(err, "without a code")))
}

// trustFile is the output of hostler trust show -o json, as far as a verifier reads it.
func (w *world) trustFile() []byte {
	w.t.Helper()
	raw := must(json.MarshalIndent(map[string]any{"version": w.trust.Version, "issued_at": w.trust.IssuedAt, "keys": w.trust.Keys}, "", "  "))(w.t)
	return append(raw, '\n')
}
