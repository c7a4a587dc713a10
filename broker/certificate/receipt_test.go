package certificate_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/hostler/hostler/broker/certificate"
	"github.com/hostler/hostler/taskcatalog"
)

// exposures are the codes of all exposures that the package declares, read from its source, so
// that a new code is found here.
func exposures(t *testing.T) (codes []taskcatalog.Code) {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "clean.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(file, func(n ast.Node) bool {
		spec, is := n.(*ast.ValueSpec)
		if !is || !strings.HasPrefix(spec.Names[0].Name, "Exposure") {
			return true
		}
		code, err := strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value)
		if err != nil {
			t.Fatal(err)
		}
		codes = append(codes, taskcatalog.Code(code))
		return false
	})
	return codes
}

// A tenant reads each exposure in a sentence of its own, without reference to the certificate,
// and never in the operator's words.
func TestATenantIsToldOfEachExposure(t *testing.T) {
	const others = "the certificate says what it is"
	all := append(exposures(t), "not_known_here")
	if len(all) < 6 {
		t.Fatalf("the package has only %v", all)
	}
	c := newWorld(t).clean(gpu("GPU-1", "1650001"))
	c.Exposures = nil
	for _, code := range all {
		c.Exposures = append(c.Exposures, certificate.Exposure{Code: code, Message: "operator's words"})
	}
	r, err := certificate.ReceiptOf(&certificate.Report{Clean: c}, c.IssuedAt)
	if err != nil {
		t.Fatal(err)
	}
	told := map[taskcatalog.Code]string{}
	for _, e := range r.Exposures {
		told[e.Code] = e.Message
	}
	for _, code := range all {
		if says := told[code]; says == "" || strings.Contains(says, "operator's words") || (says == others) != (code == "not_known_here") {
			t.Errorf("of %s the tenant reads %q", code, says)
		}
	}
}

// A certificate names all tenants since the machine was handed out clean. The receipt of each names
// that tenant alone, and there is none of an allocation that the certificate does not name.
func TestAReceiptNamesOneTenantOfSeveral(t *testing.T) {
	w := newWorld(t)
	c := w.clean(gpu("GPU-1", "1650001"))
	c.Allocation = &certificate.Allocation{ID: "alc-last", Tenant: "prj-last", ReleasedAt: w.now.Add(-2 * time.Hour)}
	c.Earlier = []certificate.Allocation{
		{ID: "alc-second", Tenant: "prj-second", ReleasedAt: w.now.Add(-3 * time.Hour)},
		{ID: "alc-first", Tenant: "prj-first", ReleasedAt: w.now.Add(-4 * time.Hour)},
	}
	r := w.verify(w.issue(c))
	all := append([]certificate.Allocation{*c.Allocation}, c.Earlier...)
	for _, mine := range all {
		receipt := must(certificate.ReceiptFor(r, mine.ID, w.now))(t)
		said := must(certificate.IssueReceipt(receipt, w.statement))(t)
		if got := w.verify(said).Receipt; got.AllocationID != mine.ID || got.Tenant != mine.Tenant || !got.ReleasedAt.Equal(mine.ReleasedAt) || got.CertificateDigest != r.Digest {
			t.Errorf("of %s: %+v", mine.ID, got)
		}
		text := string(must(taskcatalog.Encode(w.verify(said).Receipt))(t))
		for _, other := range all {
			if other.ID != mine.ID && (strings.Contains(text, other.ID) || strings.Contains(text, other.Tenant)) {
				t.Errorf("the receipt of %s names %s", mine.ID, other.ID)
			}
		}
	}
	for _, id := range []string{"", "alc-none", "prj-first"} {
		_, err := certificate.ReceiptFor(r, id, w.now)
		wantCode(t, "a receipt of "+id, err, certificate.CodeIncomplete)
	}
	_, err := certificate.ReceiptFor(&certificate.Report{}, "alc-last", w.now)
	wantCode(t, "a receipt of no certificate", err, certificate.CodeIncomplete)
}
