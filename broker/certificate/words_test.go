package certificate_test

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/hostler/hostler/broker/certificate"
	"github.com/hostler/hostler/taskcatalog"
)

// The heading and the print header of a page state the verdict: no page of an insufficient
// turnover is headed as clean, and age alone is not shown as a fault.
func TestTheHeadingSaysTheVerdict(t *testing.T) {
	w := newWorld(t)
	clean, short := w.issue(w.clean(gpu("GPU-1", "1650001"))), w.issue(w.fallen())
	receipt := func(of []byte) []byte {
		return must(certificate.IssueReceipt(must(certificate.ReceiptOf(w.verify(of), w.now))(t), w.statement))(t)
	}
	later := w.now.AddDate(0, 2, 0)
	for _, c := range []struct {
		file  []byte
		at    time.Time
		title string
		box   string
	}{
		{clean, w.now, "Turnover certificate: clean", "verdict good"},
		{clean, later, "Turnover certificate: clean when issued", "verdict past"},
		{short, w.now, "Turnover certificate: not clean", "verdict bad"},
		{short, later, "Turnover certificate: not clean", "verdict bad"},
		{receipt(clean), w.now, "Receipt: what became of your data (clean)", "verdict good"},
		{receipt(clean), later, "Receipt: what became of your data (clean when issued)", "verdict past"},
		{receipt(short), w.now, "Receipt: what became of your data (not clean)", "verdict bad"},
	} {
		r := must(certificate.Verify(c.file, w.trust, c.at))(t)
		page := must(certificate.Page(r))(t)
		for _, has := range []string{"<title>" + c.title + "</title>", "<h1>" + c.title + "</h1>", c.box} {
			if !bytes.Contains(page, []byte(has)) {
				t.Errorf("%s at %s: the page has no %q", r.Title(), c.at, has)
			}
		}
	}
}

func TestWhatWasNotCleanedIsNotShownAsClean(t *testing.T) {
	for _, c := range []struct {
		device certificate.Device
		want   string
	}{
		{certificate.Device{Found: true, Method: certificate.MethodNone, Verdict: taskcatalog.VerdictClean}, "present, not cleaned"},
		{certificate.Device{Found: true, Method: certificate.MethodNone, Verdict: taskcatalog.VerdictInconclusive}, "present, not cleaned"},
		{certificate.Device{Found: true, Method: certificate.MethodNone, Verdict: taskcatalog.VerdictNotClean}, "not clean"},
		{certificate.Device{Found: true, Method: certificate.MethodOverwrite, Verdict: taskcatalog.VerdictClean}, "clean"},
		{certificate.Device{Found: true, Method: certificate.MethodOverwrite, Verdict: taskcatalog.VerdictInconclusive}, "inconclusive"},
		{certificate.Device{Method: certificate.MethodNone, Verdict: taskcatalog.VerdictInconclusive}, "inconclusive"},
		{certificate.Device{Method: certificate.MethodDestroyed, Attestation: "sha256:", Verdict: taskcatalog.VerdictInconclusive}, "attested"},
	} {
		if got := c.device.Outcome(); got != c.want {
			t.Errorf("%+v is shown as %q, want %q", c.device, got, c.want)
		}
		r := certificate.ReceiptDevice{Found: c.device.Found, Method: c.device.Method, Verdict: c.device.Verdict, Attested: c.device.Attestation != ""}
		if got := r.Outcome(); got != c.want {
			t.Errorf("on a receipt %+v is shown as %q, want %q", r, got, c.want)
		}
	}
}

// SP 800-88 covers storage: no other device shows a grade on a page, though the table of methods
// has a grade for each method.
func TestOnlyStorageIsGraded(t *testing.T) {
	for kind, want := range map[string]string{certificate.KindDisk: "clear", certificate.KindGPU: "", certificate.KindNIC: ""} {
		d := certificate.Device{Kind: kind, Method: certificate.MethodOverwrite}
		r := certificate.ReceiptDevice{Kind: kind, Grade: certificate.GradeClear}
		if d.StorageGrade() != want || r.StorageGrade() != want {
			t.Errorf("%s has the grade %q, and %q on a receipt; want %q", kind, d.StorageGrade(), r.StorageGrade(), want)
		}
	}
}

// An exclusion of a scrub is told in words; an unknown reason is shown as signed.
func TestWhatIsLeftOutIsToldInWords(t *testing.T) {
	for reason, want := range map[string]string{
		"reserved_by_driver": "reserved by the driver", "not_free": "driver's own contexts", "not_allocatable": "cannot be allocated",
		"not_asked_for": "not asked for", "some_other": "some other",
	} {
		if got := (certificate.Exclusion{Reason: reason}).Words(); !strings.Contains(got, want) {
			t.Errorf("%s is told as %q", reason, got)
		}
	}
}

// Wire names stay off the pages.
func TestPagesHaveNoWordsOfOurOwn(t *testing.T) {
	w := newWorld(t)
	page := string(must(certificate.Page(w.verify(w.issue(w.fallen()))))(t))
	for _, ours := range []string{"enrolment", "Looked at in", "Identity", "at least tenant os", "gone on without", "not in the file", "none</td></tr>"} {
		if strings.Contains(page, ours) {
			t.Errorf("the page says %q", ours)
		}
	}
	for _, plain := range []string{"Examined from", "Node's key", "not in this file", certificate.GradeStandard, "not graded", "the driver does not"} {
		if !strings.Contains(page, plain) {
			t.Errorf("the page does not say %q", plain)
		}
	}
}
