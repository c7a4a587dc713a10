package certificate_test

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"crypto/x509"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/hostler/hostler/broker/certificate"
	"github.com/hostler/hostler/pki"
	"github.com/hostler/hostler/taskcatalog"
)

var update = flag.Bool("update", false, "write the goldens anew")

// world is a broker's keys and a machine with them. Everything derives from names, so that each
// issue gives the same bytes. The keys are public: they must never be trusted.
type world struct {
	t         testing.TB
	now       time.Time
	statement pki.Signer
	trust     *pki.TrustBundle
	ca        *pki.CA
	node      pki.NodeIdentity
}

// march is when everything happens.
var march = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

const otherNode = "n-zzzzzzzzzzzzzzzz"

func newWorld(t testing.TB) *world {
	t.Helper()
	const year = 365 * 24 * time.Hour
	w := &world{t: t, now: march, node: pki.NodeIdentity{NodeID: "n-abcdefghijklmnop", Epoch: 3}}
	serials := &counter{}
	root := must(pki.NewRoot(serials, key("root"), "example root", w.now.Add(-year), 10*year))(t)
	w.ca = must(pki.NewCA([]*x509.Certificate{root}, key("root")))(t)
	w.ca.Rand = serials
	w.statement = must(pki.NewSigner(key("statement")))(t)
	w.trust = &pki.TrustBundle{Version: 4, IssuedAt: w.now.Add(-year), Keys: []pki.BundleKey{pki.NewBundleRoot(root)}}
	for _, use := range []pki.KeyUse{pki.UseTask, pki.UseTrust, pki.UseStatement} {
		w.trust.Keys = append(w.trust.Keys, must(pki.NewBundleKey(use, key(string(use)).Public(), w.now.Add(-year), w.now.Add(year)))(t))
	}
	return w
}

// trustFile is the output of "trust show -o json", as far as a verifier reads it.
func (w *world) trustFile() []byte {
	w.t.Helper()
	raw := must(json.MarshalIndent(map[string]any{
		"version": w.trust.Version, "issued_at": w.trust.IssuedAt, "keys": w.trust.Keys, "ca_sha256": w.trust.Keys[0].ID, "bundle": "{}",
	}, "", "  "))(w.t)
	return append(raw, '\n')
}

// enrolled is the certificate of a node with a named key.
func (w *world) enrolled(id pki.NodeIdentity, keyName string, at time.Time) *x509.Certificate {
	w.t.Helper()
	csr := must(pki.ParseCSR(must(pki.NewCSR(key(keyName)))(w.t)))(w.t)
	return must(w.ca.IssueNode(csr, id, at, 24*time.Hour))(w.t)
}

// prove is a task that ran from three minutes before at until at, with its proof.
func (w *world) prove(id, typ string, at time.Time, report taskcatalog.Report, result any) certificate.Task {
	w.t.Helper()
	return w.proveAs(w.node, "node", w.now.Add(-2*time.Hour), id, typ, at, report, result)
}

func (w *world) proveAs(who pki.NodeIdentity, keyName string, certified time.Time, id, typ string, at time.Time, report taskcatalog.Report, result any, edit ...func(*taskcatalog.Evidence)) certificate.Task {
	w.t.Helper()
	task := certificate.Task{
		ID: id, Type: typ, Version: 1, Outcome: taskcatalog.OutcomeSucceeded, Digest: pki.Digest([]byte("task " + id)),
		Proof: &certificate.Proof{Certificate: w.enrolled(who, keyName, certified).Raw},
	}
	ev := taskcatalog.Evidence{
		TaskID: id, TaskDigest: task.Digest, NodeID: who.NodeID, NodeEpoch: who.Epoch, BootID: "0b1d",
		Nonce: "bm9uY2U", StartedAt: at.Add(-3 * time.Minute), FinishedAt: at, AgentVersion: "0.1.0", Outcome: task.Outcome, Report: report,
	}
	if result != nil {
		raw := must(taskcatalog.Encode(result))(w.t)
		task.Proof.Result, ev.ResultDigest = string(raw), pki.Digest(raw)
	}
	for _, e := range edit {
		e(&ev)
	}
	envelope := must(pki.SignEvidence(ev, key(keyName)))(w.t)
	task.Proof.Evidence, task.EvidenceDigest = string(envelope), pki.Digest(envelope)
	return task
}

var (
	total, reserved, covered uint64 = 80 << 30, 1 << 30, 78 << 30
	zero                     uint64
)

func gpu(uuid, serial string) taskcatalog.GPUScrubbed {
	return taskcatalog.GPUScrubbed{
		Vendor: "nvidia", UUID: uuid, Serial: serial, PCIAddress: "0000:01:00.0", Name: "NVIDIA H100 80GB HBM3", Verdict: taskcatalog.VerdictClean,
		Assurance:  taskcatalog.GPUAssurance{Overwrite: taskcatalog.OverwriteVerified, Reset: taskcatalog.ResetProven},
		TotalBytes: &total, ReservedBytes: &reserved, CoveredBytes: &covered, MismatchedWords: &zero, RemainingWords: &zero,
		ReadBackBytes: &reserved, ProbedBytes: &covered, ProbedNonZeroWords: &zero,
		Excluded: []taskcatalog.GPUExclusion{{Reason: "no block of 2 MiB was free", Bytes: total - reserved - covered}},
	}
}

func baseline(gpus []taskcatalog.GPUScrubbed) []taskcatalog.BaselineGPU {
	var out []taskcatalog.BaselineGPU
	for _, g := range gpus {
		out = append(out, taskcatalog.BaselineGPU{Vendor: g.Vendor, UUID: g.UUID, Serial: g.Serial, Name: g.Name})
	}
	return out
}

func purged() taskcatalog.ErasedDisk {
	return taskcatalog.ErasedDisk{
		Name: "nvme0n1", Serial: "S6ABNE0T", WWN: "eui.36344630529042690025384500000001", Model: "SAMSUNG MZQL2", SizeBytes: int64(total),
		Asked: certificate.MethodNVMeSanitizeCrypt, Method: certificate.MethodNVMeSanitizeCrypt, Verification: taskcatalog.OverwriteVerified,
		CoveredBytes: total, OfBytes: total, ReadBackBytes: 8 << 20, Verdict: taskcatalog.VerdictClean,
	}
}

func erased(disks ...taskcatalog.ErasedDisk) taskcatalog.DiskEraseResult {
	return taskcatalog.DiskEraseResult{Disks: disks}
}

func expected(rows []certificate.Device) []certificate.Device {
	for i := range rows {
		rows[i].Expected = true
	}
	return rows
}

// looked are the checks of a whole inspection: all were made, except the given.
func looked(but ...taskcatalog.Check) []taskcatalog.Check {
	all := but
	for _, name := range certificate.Always {
		if !slices.ContainsFunc(but, func(c taskcatalog.Check) bool { return c.Name == name }) {
			all = append(all, taskcatalog.Check{Name: name, Made: true})
		}
	}
	return all
}

// clean is a reimaged machine with one disk and these GPUs, without any fault.
func (w *world) clean(gpus ...taskcatalog.GPUScrubbed) *certificate.Clean {
	w.t.Helper()
	at := func(minutes int) time.Time { return w.now.Add(time.Duration(minutes) * time.Minute) }
	scrub := taskcatalog.GPUScrubResult{
		Verdict: taskcatalog.VerdictClean, GPUs: gpus,
		Assurance: taskcatalog.GPUAssurance{Overwrite: taskcatalog.OverwriteVerified, Reset: taskcatalog.ResetProven},
	}
	erase := erased(purged())
	report := taskcatalog.Report{Verdict: taskcatalog.VerdictClean, Checks: looked()}
	c := &certificate.Clean{
		ID: "c-1", Environment: certificate.FreshOS,
		Node: certificate.Node{
			ID: w.node.NodeID, Epoch: w.node.Epoch, Hostname: "gpu-07", Site: "dc1", SKU: "h100.80g.8gpu", Serial: "CZ1234",
			IdentitySince: at(-120),
		},
		Run:        certificate.Run{ID: "run-17", Mode: "reimage", Reason: "the tenant left", StartedAt: at(-180)},
		Allocation: &certificate.Allocation{ID: "alloc-42", Tenant: "example", HadRoot: true, ReleasedAt: at(-190)},
		Validation: certificate.Validation{TaskID: "t-validate", Verdict: taskcatalog.VerdictClean, ChecksMade: len(certificate.Always)},
		Policy: certificate.Policy{
			Version: "7", Environment: certificate.TenantOS, RootNeedsFreshOS: true, DiskGrade: certificate.GradeClear, GPUReset: true,
		},
		Software: []certificate.Software{{Name: "hostler-broker", Version: "0.1.0"}, {Name: "hostler-agent", Version: "0.1.0"}},
		Tasks: []certificate.Task{
			w.prove("t-erase", "node.disk_erase", at(-60), taskcatalog.Report{}, erase),
			w.prove("t-scrub", "node.gpu_scrub", at(-50), taskcatalog.Report{Verdict: taskcatalog.VerdictClean}, scrub),
			w.prove("t-validate", "node.validate_clean", at(-40), report, nil),
			{ID: "t-drain", Type: "node.drain", Version: 1, Outcome: taskcatalog.OutcomeSucceeded, Digest: pki.Digest([]byte("drain"))},
		},
		FinishedAt: at(-40), IssuedAt: at(-39), ValidUntil: at(30 * 24 * 60),
	}
	c.Devices = append(certificate.GPUs("t-scrub", baseline(gpus), scrub, taskcatalog.Report{Verdict: taskcatalog.VerdictClean}), expected(certificate.Disks("t-erase", erase))...)
	c.Devices = append(c.Devices, certificate.Device{
		Kind: certificate.KindNIC, UUID: "0c:42:a1:00:00:01", Expected: true, Found: true,
		Method: certificate.MethodNone, Verification: "none", Verdict: taskcatalog.VerdictClean,
	})
	return c
}

// fallen is a soft reset with every shortfall that a certificate can state.
func (w *world) fallen() *certificate.Clean {
	w.t.Helper()
	residue := gpu("GPU-2", "1650002")
	residue.Verdict, residue.Code, residue.Message = taskcatalog.VerdictNotClean, taskcatalog.CodeGPUScrubIncomplete, "12 words are not what was written"
	stranger := gpu("GPU-9", "1650009")
	gone := gpu("GPU-3", "1650003")
	c := w.clean(gpu("GPU-1", "1650001"), residue, stranger)
	c.ID, c.Run.Mode, c.Environment = "c-2", "soft_reset", certificate.TenantOS
	c.Devices[2].Expected = false
	c.Devices = append(c.Devices, certificate.GPUs("t-scrub", baseline([]taskcatalog.GPUScrubbed{gone}), taskcatalog.GPUScrubResult{}, taskcatalog.Report{})...)
	frozen := purged()
	frozen.Serial, frozen.WWN, frozen.Model = "WD-99", "naa.5000cca200000063", "<b>WDC</b> & co"
	frozen.Asked, frozen.Method, frozen.ReadBackBytes = certificate.MethodATAEnhancedErase, certificate.MethodOverwrite, frozen.OfBytes
	frozen.Attempts = []taskcatalog.EraseAttempt{{Method: frozen.Asked, Code: taskcatalog.CodeATAFrozen, Message: "its security is frozen"}}
	erase := erased(purged(), frozen)
	c.Tasks[0] = w.prove("t-erase", "node.disk_erase", w.now.Add(-time.Hour), taskcatalog.Report{}, erase)
	c.Devices = append(c.Devices, expected(certificate.Disks("t-erase", erase))[1])
	finding := taskcatalog.Finding{Check: "users", Subject: "mallory\x1b[2J", Detail: "<script>alert(1)</script>", NextAction: "reimage"}
	c.Findings = []taskcatalog.Finding{finding}
	c.Validation = certificate.Validation{
		TaskID: "t-validate", Verdict: taskcatalog.VerdictNotClean, ChecksMade: len(certificate.Always) - 1,
		ChecksNotMade: []taskcatalog.Check{{Name: "mounts", Reason: "/proc/mounts cannot be read"}},
	}
	c.Tasks[2] = w.prove("t-validate", "node.validate_clean", w.now.Add(-40*time.Minute), taskcatalog.Report{
		Verdict: taskcatalog.VerdictNotClean, Findings: c.Findings,
		Checks: looked(c.Validation.ChecksNotMade[0]),
	}, nil)
	c.Downgrades = []certificate.Downgrade{
		{Device: "WD-99", Asked: certificate.MethodATAEnhancedErase, Did: certificate.MethodOverwrite, Reason: "gpu-07 was needed by ops-team"},
		{Device: "S6ABNE0T", Asked: certificate.MethodNVMeSanitizeBlock, Did: certificate.MethodNVMeSanitizeCrypt, Reason: "block erase is not supported", AcceptedBy: "alice", Because: "as good"},
	}
	c.Exposures = []certificate.Exposure{{Code: certificate.ExposureMAASToken, Message: "MAAS keeps the token of gpu-07 while it is Deployed"}}
	c.NotCovered = []certificate.NotCovered{{Part: "tpm", Reason: "the TPM of gpu-07 is locked"}}
	c.Overrides = []certificate.Override{{Stage: "drain_node", By: "alice", Reason: "the agent of gpu-07 hangs", At: w.now.Add(-100 * time.Minute)}}
	return c
}

func (w *world) issue(c *certificate.Clean) []byte {
	w.t.Helper()
	return must(certificate.Issue(c, w.statement))(w.t)
}

func (w *world) verify(file []byte) *certificate.Report {
	w.t.Helper()
	return must(certificate.Verify(file, w.trust, w.now))(w.t)
}

func key(name string) ed25519.PrivateKey {
	seed := sha256.Sum256([]byte("hostler example: " + name))
	return ed25519.NewKeyFromSeed(seed[:])
}

// counter is the source of serial numbers.
type counter struct{ n byte }

func (c *counter) Read(b []byte) (int, error) {
	for i := range b {
		b[i] = 0
	}
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

// golden compares the output with a file.
func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if want := must(os.ReadFile(path))(t); !bytes.Equal(got, want) {
		t.Errorf("%s is not what it was (go test -update, and read the difference):\n%.2000s", path, got)
	}
}

func wantCode(t *testing.T, what string, err error, want taskcatalog.Code) {
	t.Helper()
	if got := taskcatalog.CodeOf(err, ""); got != want {
		t.Errorf("%s: %v (%s), want %s", what, err, got, want)
	}
}
