package pki_test

import (
	"bytes"
	"crypto"
	"crypto/ed25519"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hostler/hostler/pki"
	"github.com/hostler/hostler/taskcatalog"
)

// vectors is one authority, made from nothing but the names of its keys, with one
// document of each kind. Its keys are public: they must never be trusted.
type vectors struct {
	now             time.Time
	keys            map[string]pki.Signer
	signed          map[string]bool // every payload that sign has signed, after its type
	root, issuing   *x509.Certificate
	server, node    *x509.Certificate
	csr             []byte
	bundle, rotated []byte // version 1; version 2, signed by both trust keys
	task, evidence  []byte
	first, second   *pki.TrustBundle
	identity        pki.NodeIdentity
	taskPayload     taskcatalog.Task
}

func makeVectors(t testing.TB) *vectors {
	t.Helper()
	v := &vectors{now: time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC), keys: map[string]pki.Signer{}, signed: map[string]bool{}}
	for _, name := range []string{"root", "issuing", "server", "node", "task", "trust", "next-trust", "statement"} {
		seed := sha256.Sum256([]byte("hostler test vector: " + name))
		v.keys[name] = must[pki.Signer](t)(pki.NewSigner(ed25519.NewKeyFromSeed(seed[:])))
	}
	serials := &counter{}
	key := func(name string) crypto.Signer { return v.keys[name].Key }
	const year = 365 * 24 * time.Hour

	v.root = must[*x509.Certificate](t)(pki.NewRoot(serials, key("root"), "vector root", v.now, 10*year))
	rootCA := must[*pki.CA](t)(pki.NewCA([]*x509.Certificate{v.root}, key("root")))
	v.issuing = must[*x509.Certificate](t)(pki.NewIssuing(serials, rootCA, key("issuing").Public(), "vector issuing CA", v.now, 5*year))
	ca := must[*pki.CA](t)(pki.NewCA([]*x509.Certificate{v.issuing, v.root}, key("issuing")))
	ca.Rand = serials
	v.server = must[*x509.Certificate](t)(ca.IssueServer(key("server").Public(), []string{"broker.example", "localhost"}, []net.IP{net.IPv4(127, 0, 0, 1).To4()}, v.now, year))
	v.identity = pki.NodeIdentity{NodeID: pki.NewNodeID(serials), Epoch: 2}
	v.csr = must[[]byte](t)(pki.NewCSR(key("node")))
	v.node = must[*x509.Certificate](t)(ca.IssueNode(must[*x509.CertificateRequest](t)(pki.ParseCSR(v.csr)), v.identity, v.now, 24*time.Hour))

	entry := func(use pki.KeyUse, name string) pki.BundleKey {
		return must[pki.BundleKey](t)(pki.NewBundleKey(use, key(name).Public(), v.now.Add(-pki.Backdate), v.now.Add(year)))
	}
	v.first = &pki.TrustBundle{Version: 1, IssuedAt: v.now, Keys: []pki.BundleKey{
		entry(pki.UseTask, "task"), entry(pki.UseTrust, "trust"), entry(pki.UseStatement, "statement"), pki.NewBundleRoot(v.root),
	}}
	v.second = &pki.TrustBundle{Version: 2, IssuedAt: v.now.Add(time.Hour), Keys: append(slices.Clone(v.first.Keys), entry(pki.UseTrust, "next-trust"))}
	v.bundle = must[[]byte](t)(pki.SignBundle(*v.first, v.keys["trust"]))
	v.rotated = must[[]byte](t)(pki.SignBundle(*v.second, v.keys["trust"], v.keys["next-trust"]))

	v.taskPayload = taskAt(v.now)
	v.taskPayload.NodeID, v.taskPayload.NodeEpoch = v.identity.NodeID, v.identity.Epoch
	v.task = v.sign(t, pki.PayloadTask, v.taskPayload, "task")
	evidence := taskcatalog.Evidence{
		TaskID: "t-1", TaskDigest: pki.Digest(v.task), NodeID: v.identity.NodeID, NodeEpoch: v.identity.Epoch,
		BootID: "00000000-0000-4000-8000-000000000000", Nonce: v.taskPayload.Nonce,
		StartedAt: v.now.Add(time.Second), FinishedAt: v.now.Add(2 * time.Second), AgentVersion: "0.1.0", Outcome: taskcatalog.OutcomeSucceeded,
		Report: taskcatalog.Report{Verdict: taskcatalog.VerdictClean},
	}
	v.sign(t, pki.PayloadEvidence, evidence, "node")
	v.evidence = must[[]byte](t)(pki.SignEvidence(evidence, key("node")))
	return v
}

// sign signs a payload: text as it is, anything else as JSON.
func (v *vectors) sign(t testing.TB, kind string, payload any, names ...string) []byte {
	t.Helper()
	text, ok := payload.(string)
	if !ok {
		text = string(must[[]byte](t)(taskcatalog.Encode(payload)))
	}
	var signers []pki.Signer
	for _, name := range names {
		signers = append(signers, v.keys[name])
	}
	v.signed[kind+text] = true
	return must[[]byte](t)(pki.Sign(kind, []byte(text), signers...))
}

// refused is a document that must not be taken, and why.
type refused struct {
	Name     string           `json:"name"`
	Kind     string           `json:"kind"` // task, bundle (after version 1), evidence, csr
	Code     taskcatalog.Code `json:"code"`
	Document string           `json:"document"`
}

func (v *vectors) refusals(t testing.TB) []refused {
	sign := func(kind string, payload any, names ...string) string {
		return string(v.sign(t, kind, payload, names...))
	}
	changed := func(raw []byte, change func(*wire)) string { return string(edit(t, raw, change)) }
	dropped := *v.second
	dropped.Keys = slices.DeleteFunc(slices.Clone(v.second.Keys), func(k pki.BundleKey) bool { return k.Use == pki.UseTask })
	rolledBack := *v.second
	rolledBack.Version = 1
	return []refused{
		{"payload changed", "task", pki.CodeBadSignature, changed(v.task, func(w *wire) { w.Payload = flip(t, w.Payload) })},
		{"signature changed", "task", pki.CodeBadSignature, changed(v.task, func(w *wire) { w.Signatures[0].Sig = flip(t, w.Signatures[0].Sig) })},
		{"type changed", "task", pki.CodeWrongPayloadType, changed(v.task, func(w *wire) { w.PayloadType = pki.PayloadInToto })},
		{"signed by the trust key", "task", pki.CodeUnknownKey, sign(pki.PayloadTask, `{}`, "trust")},
		{"signed by a node", "task", pki.CodeUnknownKey, sign(pki.PayloadTask, `{}`, "node")},
		{"duplicate key in the payload", "task", pki.CodeMalformed, sign(pki.PayloadTask, `{"node_id":"a","node_id":"b"}`, "task")},
		{"wrong-case key in the payload", "task", pki.CodeMalformed, sign(pki.PayloadTask, `{"NODE_ID":"a"}`, "task")},
		{"unknown key in the payload", "task", pki.CodeMalformed, sign(pki.PayloadTask, `{"shell":"reboot"}`, "task")},
		{"trailing data in the payload", "task", pki.CodeMalformed, sign(pki.PayloadTask, `{} {}`, "task")},
		{"wrong-case key", "task", pki.CodeMalformed, strings.Replace(string(v.task), "payloadType", "PayloadType", 1)},
		{"trailing data", "task", pki.CodeMalformed, string(v.task) + "{}"},
		{"line break in base64", "task", pki.CodeMalformed, changed(v.task, func(w *wire) { w.Payload = w.Payload[:4] + "\n" + w.Payload[4:] })},
		{"unpadded base64", "task", pki.CodeMalformed, changed(v.task, func(w *wire) { w.Signatures[0].Sig = strings.TrimRight(w.Signatures[0].Sig, "=") })},
		{"no signature", "task", pki.CodeMalformed, changed(v.task, func(w *wire) { w.Signatures = w.Signatures[:0] })},
		{"signed by the next trust key alone", "bundle", pki.CodeTrustKeyUnknown, sign(pki.PayloadTrustBundle, v.second, "next-trust")},
		{"signed by the task key", "bundle", pki.CodeTrustKeyUnknown, sign(pki.PayloadTrustBundle, v.second, "task")},
		{"same version, other content", "bundle", pki.CodeTrustVersionNotNewer, sign(pki.PayloadTrustBundle, &rolledBack, "trust")},
		{"no task key left", "bundle", pki.CodeTrustUseWithoutKey, sign(pki.PayloadTrustBundle, &dropped, "trust")},
		{"signed by the task key", "evidence", pki.CodeUnknownKey, sign(pki.PayloadEvidence, `{}`, "task")},
		{"a task", "evidence", pki.CodeWrongPayloadType, sign(pki.PayloadTask, `{}`, "node")},
		{"trailing data", "csr", pki.CodeMalformed, string(v.csr) + "x"},
	}
}

// files returns what testdata/vectors holds.
func (v *vectors) files(t testing.TB) map[string][]byte {
	encode := func(value any) []byte {
		var out bytes.Buffer
		enc := json.NewEncoder(&out)
		enc.SetEscapeHTML(false)
		enc.SetIndent("", "  ")
		if err := enc.Encode(value); err != nil {
			t.Fatal(err)
		}
		return out.Bytes()
	}
	type keyVector struct {
		Seed   string `json:"seed"`
		ID     string `json:"id"`
		Digest string `json:"digest"`
	}
	keys := map[string]keyVector{}
	for name, s := range v.keys {
		keys[name] = keyVector{hex.EncodeToString(s.Key.(ed25519.PrivateKey).Seed()), s.ID, must[string](t)(pki.PublicKeyDigest(s.Key.Public()))}
	}
	return map[string][]byte{
		"keys.json": encode(keys),
		"facts.json": encode(map[string]any{
			"now": v.now, "ca_sha256": pki.Fingerprint(v.root), "node_serial": pki.Serial(v.node), "task_digest": pki.Digest(v.task),
			"node_uri": pki.NodeURI(v.identity.NodeID, v.identity.Epoch).String(), "enroll_token": "hsn_example", "enroll_token_hash": pki.HashToken("hsn_example"),
		}),
		"root.pem": pki.MarshalCerts(v.root), "issuing.pem": pki.MarshalCerts(v.issuing),
		"server.pem": pki.MarshalCerts(v.server), "node.pem": pki.MarshalCerts(v.node), "node.csr": v.csr,
		"bundle-1.json": v.bundle, "bundle-2.json": v.rotated, "task.json": v.task, "evidence.json": v.evidence,
		"refused.json": encode(v.refusals(t)),
	}
}

// What leaves the process stays as it is: an older node must read what a newer broker
// signs. If this fails, either the change is a mistake or it needs a new version.
func TestVectorsAreUnchanged(t *testing.T) {
	files := makeVectors(t).files(t)
	for name, want := range files {
		path := filepath.Join("testdata", "vectors", name)
		if *update {
			writeFile(t, path, want)
		}
		if got, err := os.ReadFile(path); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s differs from what is made now (%v); run with -update and read the diff", path, err)
		}
	}
	for _, f := range must[[]os.DirEntry](t)(os.ReadDir("testdata/vectors")) {
		if _, ok := files[f.Name()]; !ok {
			t.Errorf("testdata/vectors/%s belongs to no vector", f.Name())
		}
	}
}

// What was written once is read from its files, without the code that made it.
func TestVectorsAreRead(t *testing.T) {
	read := func(name string) []byte {
		return must[[]byte](t)(os.ReadFile(filepath.Join("testdata", "vectors", name)))
	}
	certs := func(name string) *x509.Certificate {
		return must[[]*x509.Certificate](t)(pki.ParseCerts(read(name)))[0]
	}
	now := makeVectors(t).now
	node, issuing, root := certs("node.pem"), certs("issuing.pem"), certs("root.pem")

	first := must[*pki.TrustBundle](t)(pki.FirstBundle(read("bundle-1.json"), now))
	second := must[*pki.TrustBundle](t)(first.Accept(read("bundle-2.json"), now))
	if second.Version != 2 {
		t.Errorf("version %d came out", second.Version)
	}
	task := must[*taskcatalog.Task](t)(readTask(second, read("task.json"), now))
	evidence := must[*taskcatalog.Evidence](t)(pki.VerifyEvidence(read("evidence.json"), node.PublicKey))
	if evidence.TaskID != task.TaskID || evidence.TaskDigest != pki.Digest(read("task.json")) {
		t.Errorf("the evidence is about %s, %s", evidence.TaskID, evidence.TaskDigest)
	}
	peer := must[*pki.Peer](t)(pki.VerifyNodePeer(stateOf(node, issuing, root), second.Roots(now), now, nobody))
	if peer.NodeID != task.NodeID || peer.Epoch != task.NodeEpoch {
		t.Errorf("the node is %+v, the task is for %s", peer.NodeIdentity, task.NodeID)
	}

	var attacks []refused
	if err := json.Unmarshal(read("refused.json"), &attacks); err != nil || len(attacks) == 0 {
		t.Fatalf("no attacks in refused.json: %v", err)
	}
	for _, attack := range attacks {
		t.Run(attack.Kind+"/"+attack.Name, func(t *testing.T) {
			raw := []byte(attack.Document)
			var err error
			switch attack.Kind {
			case "task":
				_, err = readTask(first, raw, now)
			case "bundle":
				_, err = first.Accept(raw, now)
			case "evidence":
				_, err = pki.VerifyEvidence(raw, node.PublicKey)
			case "csr":
				_, err = pki.ParseCSR(raw)
			default:
				t.Fatalf("no reader for %q", attack.Kind)
			}
			wantCode(t, err, attack.Code)
		})
	}
}

func writeFile(t testing.TB, path string, raw []byte) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, raw, 0o644); err != nil {
		t.Fatal(err)
	}
}

// The documents of the vectors are the seeds of the fuzz targets.
func TestFuzzCorpusIsCommitted(t *testing.T) {
	v := makeVectors(t)
	seeds := map[string][][]byte{
		"FuzzEnvelope":    {v.task, v.evidence},
		"FuzzTrustBundle": {v.bundle, v.rotated, must[[]byte](t)(pki.EncodeBundle(v.first))},
		"FuzzCSR":         {v.csr, csrPEM(t, v.keys["node"].Key, x509.CertificateRequest{DNSNames: []string{"localhost"}})},
	}
	target := map[string]string{"task": "FuzzEnvelope", "evidence": "FuzzEnvelope", "bundle": "FuzzTrustBundle", "csr": "FuzzCSR"}
	for _, r := range v.refusals(t) {
		seeds[target[r.Kind]] = append(seeds[target[r.Kind]], []byte(r.Document))
	}
	for name, list := range seeds {
		for i, seed := range list {
			path := filepath.Join("testdata", "fuzz", name, fmt.Sprintf("vector-%02d", i))
			want := fmt.Appendf(nil, "go test fuzz v1\n[]byte(%q)\n", seed)
			if *update {
				writeFile(t, path, want)
			}
			if got, err := os.ReadFile(path); err != nil || !bytes.Equal(got, want) {
				t.Errorf("%s is not the seed that the vectors give (%v); run with -update", path, err)
			}
		}
	}
}
