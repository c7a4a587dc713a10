package certificate_test

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hostler/hostler/broker/certificate"
	"github.com/hostler/hostler/taskcatalog"
)

// Issued certificates keep their meaning for ever: these files are in the repository, and each
// version verifies them and renders the same pages.
func TestWhatWasIssuedStaysWhatItIs(t *testing.T) {
	w := newWorld(t)
	golden(t, "trust.json", w.trustFile())
	trust := must(certificate.ReadTrust(w.trustFile()))(t)
	full := w.issue(w.clean(gpu("GPU-1", "1650001"), gpu("GPU-2", "1650002")))
	short := w.issue(w.fallen())
	files := map[string][]byte{"clean": full, "short": short, "attestation": must(certificate.Attest(w.attestation(), w.statement))(t)}
	files["attested"] = w.issue(w.attested())
	issued := w.clean(gpu("GPU-1", "1650001"))
	issued.Issuer = example()
	files["issuer"] = w.issue(issued)
	for name, of := range map[string][]byte{"attested-receipt": files["attested"], "receipt": full, "short-receipt": short, "issuer-receipt": files["issuer"]} {
		receipt := must(certificate.ReceiptOf(w.verify(of), w.now))(t)
		if name != "issuer-receipt" { // the others are older than a receipt's policy
			receipt.Policy = nil
		}
		files[name] = must(certificate.IssueReceipt(receipt, w.statement))(t)
	}
	for name, file := range files {
		golden(t, name+".json", file)
		r := must(certificate.Verify(file, trust, w.now))(t)
		golden(t, name+".html", must(certificate.Page(r))(t))
		golden(t, name+".report.json", append(must(taskcatalog.Encode(withoutProofs(r)))(t), '\n'))
		if want := name == "clean" || name == "receipt" || strings.HasPrefix(name, "attest") || strings.HasPrefix(name, "issuer"); r.Holds() != want {
			t.Errorf("%s holds is %v: %v", name, r.Holds(), r.Remarks)
		}
	}
}

// Newer certificates list more parts as not covered; an older certificate keeps its list, and
// holds.
func TestACertificateFromBeforeStillHolds(t *testing.T) {
	w := newWorld(t)
	c := w.clean(gpu("GPU-1", "1650001"))
	certificate.Complete(c)
	c.NotCovered = slices.DeleteFunc(c.NotCovered, func(n certificate.NotCovered) bool { return slices.Contains(certificate.NeverCoveredOfDisks, n) })
	file := must(certificate.Forge(c, w.statement))(t)
	r := must(certificate.Verify(file, must(certificate.ReadTrust(w.trustFile()))(t), w.now))(t)
	if !r.Holds() || len(r.Clean.NotCovered) != len(certificate.NeverCovered) {
		t.Errorf("it holds is %v: %v, %v", r.Holds(), r.Remarks, r.Clean.NotCovered)
	}
	now := must(certificate.Verify(w.issue(w.clean(gpu("GPU-1", "1650001"))), must(certificate.ReadTrust(w.trustFile()))(t), w.now))(t)
	for _, n := range certificate.NeverCoveredOfDisks {
		if !slices.Contains(now.Clean.NotCovered, n) {
			t.Errorf("the certificate does not state that %s is not covered", n.Part)
		}
		if receipt := must(certificate.ReceiptOf(now, w.now))(t); !slices.Contains(receipt.NotCovered, n) {
			t.Errorf("its receipt does not say that %s is not covered", n.Part)
		}
	}
}

func withoutProofs(r *certificate.Report) *certificate.Report {
	if r.Clean != nil {
		for i := range r.Clean.Tasks {
			r.Clean.Tasks[i].Proof = nil
		}
	}
	return r
}

func (w *world) attestation() *certificate.Attestation {
	return &certificate.Attestation{
		ID: "c-3", Node: certificate.AttestedNode{ID: w.node.NodeID, Hostname: "gpu-07", Site: "dc1"},
		Device: certificate.AttestedPart{Kind: certificate.KindDisk, Serial: "WD-99", Model: "WDC"}, Method: certificate.MethodDestroyed,
		Witness: "Bo Witness", By: "alice", Reason: "it answers no command", IssuedAt: w.now.Add(-time.Minute),
	}
}

// A page is self-contained: it loads nothing and runs nothing, whatever a node has reported.
func TestAPageIsOneDocumentWithoutScript(t *testing.T) {
	w := newWorld(t)
	page := must(certificate.Page(w.verify(w.issue(w.fallen()))))(t)
	for _, bad := range []string{"<script", "<b>WDC", "http://", "https://", "src=", "href=", "\x1b"} {
		if bytes.Contains(page, []byte(bad)) {
			t.Errorf("the page has %q in it", bad)
		}
	}
	for _, good := range []string{"&lt;script&gt;", `\x1b[2J`, "default-src 'none'", "not clean", "device_missing"} {
		if !bytes.Contains(page, []byte(good)) {
			t.Errorf("the page has no %q in it", good)
		}
	}
}

// The tenant's receipt has no name of the operator's in it.
func TestAReceiptHasNoInternalNames(t *testing.T) {
	w := newWorld(t)
	c := w.fallen()
	c.ID = "run-17.2" // as a turnover names it
	r := w.verify(w.issue(c))
	receipt := must(certificate.ReceiptOf(r, w.now))(t)
	file := must(certificate.IssueReceipt(receipt, w.statement))(t)
	report := w.verify(file)
	said := append(must(taskcatalog.Encode(report.Receipt))(t), must(certificate.Page(report))(t)...)
	for _, internal := range []string{
		"gpu-07", "dc1", w.node.NodeID, "run-17", "alice", "h100.80g.8gpu", "CZ1234", "t-scrub", "t-validate", "mallory", "0.1.0", "ops-team", "/proc/mounts",
		"tenant left", "12 words", "tpm", "drain_node",
	} {
		if !bytes.Contains(must(taskcatalog.Encode(c))(t), []byte(internal)) {
			t.Errorf("the certificate itself has no %q", internal)
		}
		if bytes.Contains(said, []byte(internal)) {
			t.Errorf("the receipt names %q", internal)
		}
	}
	for _, known := range []string{"alloc-42", "example", "1650001", "WD-99", r.Digest, "device_missing", "maas_token_not_rotated", "rootkit_not_excluded"} {
		if !bytes.Contains(said, []byte(known)) {
			t.Errorf("the receipt does not name %q", known)
		}
	}
}

func TestThereIsNoReceiptWithoutAnAllocation(t *testing.T) {
	w := newWorld(t)
	c := w.clean(gpu("GPU-1", "1"))
	c.Allocation = nil
	_, err := certificate.ReceiptOf(w.verify(w.issue(c)), w.now)
	wantCode(t, "receipt", err, certificate.CodeIncomplete)
}
