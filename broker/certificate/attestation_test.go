package certificate_test

import (
	"strings"
	"testing"
	"time"

	"github.com/hostler/hostler/broker/certificate"
	"github.com/hostler/hostler/pki"
	"github.com/hostler/hostler/taskcatalog"
)

// word is a person's statement as a certificate carries it.
func (w *world) word() certificate.Attested {
	w.t.Helper()
	a := w.attestation()
	a.IssuedAt = w.now.Add(-2 * time.Hour)
	file := must(certificate.Attest(a, w.statement))(w.t)
	return certificate.Attested{Digest: pki.Digest(file), Statement: *a}
}

// attested is a clean machine with one missing disk, attested by a person.
func (w *world) attested() *certificate.Clean {
	c := w.clean(gpu("GPU-1", "1650001"))
	c.Attest(w.word())
	return c
}

func TestAPartThatIsGoneIsAttestedAndNotMissing(t *testing.T) {
	w := newWorld(t)
	missing := func(c *certificate.Clean) {
		c.Devices = append(c.Devices, certificate.Device{
			Kind: certificate.KindDisk, Serial: "WD-99", Model: "WDC", Expected: true, Method: certificate.MethodNone, Verification: "none",
			Verdict: taskcatalog.VerdictInconclusive,
		})
	}
	c := w.clean(gpu("GPU-1", "1650001"))
	missing(c)
	if r := w.verify(w.issue(c)); r.Holds() || r.Remarks[0].Code != certificate.CodeDeviceMissing {
		t.Fatalf("without a word it is %v", r.Remarks)
	}
	c = w.clean(gpu("GPU-1", "1650001"))
	missing(c)
	c.Attest(w.word())
	r := w.verify(w.issue(c))
	d := r.Clean.Devices[len(r.Clean.Devices)-1]
	if !r.Holds() || d.Found || d.Method != certificate.MethodDestroyed || d.Attestation == "" || d.Verdict != taskcatalog.VerdictInconclusive || len(r.Clean.Devices) != 4 {
		t.Fatalf("%v, %+v", r.Remarks, d)
	}
	if a := r.Clean.Attested[0].Statement; a.StatementOf != "person" || a.Witness != "Bo Witness" {
		t.Errorf("%+v", a)
	}
	page := string(must(certificate.Page(r))(t))
	for _, said := range []string{"What people state", "Bo Witness", "no machine has signed", "attested"} {
		if !strings.Contains(page, said) {
			t.Errorf("the page does not say %q", said)
		}
	}
	receipt := must(certificate.ReceiptOf(r, w.now))(t)
	if got := receipt.Devices[len(receipt.Devices)-1]; !got.Attested || got.Found || got.Grade != certificate.GradeDestroy {
		t.Errorf("the receipt has %+v", got)
	}
	file := w.verify(must(certificate.IssueReceipt(receipt, w.statement))(t))
	if said := string(must(certificate.Page(file))(t)); strings.Contains(said, "Bo Witness") || !strings.Contains(said, "a person&#39;s word") && !strings.Contains(said, "a person's word") {
		t.Error("the receipt's page names the witness, or does not say that it is a word")
	}
}

// A person's statement never overrides a result that the machine has signed, and covers only the
// part and the node that it names.
func TestAWordIsForOnePartOfOneNode(t *testing.T) {
	w := newWorld(t)
	there := w.clean(gpu("GPU-1", "1650001"))
	word := w.word()
	word.Statement.Device.Serial = there.Devices[1].Serial
	there.Attest(word)
	if d := there.Devices[1]; !d.Found || d.Attestation != "" || len(there.Attested) != 0 {
		t.Errorf("a word stands against a disk that was found: %+v", d)
	}
	for name, row := range map[string]struct {
		change func(c *certificate.Clean)
		code   taskcatalog.Code
	}{
		"of another node":          {func(c *certificate.Clean) { c.Attested[0].Statement.Node.ID = otherNode }, certificate.CodeAttestationWrong},
		"of another disk":          {func(c *certificate.Clean) { c.Attested[0].Statement.Device.Serial = "WD-98" }, certificate.CodeAttestationWrong},
		"of a GPU":                 {func(c *certificate.Clean) { c.Attested[0].Statement.Device.Kind = certificate.KindGPU }, certificate.CodeAttestationWrong},
		"by a uuid of another":     {func(c *certificate.Clean) { c.Attested[0].Statement.Device.UUID = "naa.1" }, certificate.CodeAttestationWrong},
		"of something else done":   {func(c *certificate.Clean) { c.Attested[0].Statement.Method = certificate.MethodRemoved }, certificate.CodeAttestationWrong},
		"of tomorrow":              {func(c *certificate.Clean) { c.Attested[0].Statement.IssuedAt = c.IssuedAt.Add(time.Second) }, certificate.CodeAttestationWrong},
		"of another file":          {func(c *certificate.Clean) { c.Attested[0].Digest = pki.Digest(nil) }, certificate.CodeAttestationWrong},
		"twice":                    {func(c *certificate.Clean) { c.Attested = append(c.Attested, c.Attested[0]) }, certificate.CodeAttestationWrong},
		"left out":                 {func(c *certificate.Clean) { c.Attested = nil }, certificate.CodeAttestationWrong},
		"without a witness":        {func(c *certificate.Clean) { c.Attested[0].Statement.Witness = "" }, certificate.CodeIncomplete},
		"by one's own word":        {func(c *certificate.Clean) { c.Attested[0].Statement.Witness = "ALICE" }, certificate.CodeIncomplete},
		"not marked as a person's": {func(c *certificate.Clean) { c.Attested[0].Statement.StatementOf = "machine" }, certificate.CodeIncomplete},
		"300 of them":              {func(c *certificate.Clean) { c.Attested = make([]certificate.Attested, 300) }, pki.CodeTooLarge},
	} {
		c := w.attested()
		row.change(c)
		_, err := certificate.Issue(c, w.statement)
		wantCode(t, name, err, row.code)
	}
}
