package certificate

import (
	"cmp"
	"slices"
	"strings"

	"github.com/hostler/hostler/taskcatalog"
)

// GradeStandard names the standard that defines the grades of disks. Revision 1 lists methods for
// each type of media, and the table of methods follows that list. Revision 2 keeps the grades and
// leaves the methods to IEEE 2883.
const GradeStandard = "NIST SP 800-88 Rev. 1"

// Title is the heading of a document: the kind and the verdict. An insufficient document never
// has the heading of a clean document.
func (r *Report) Title() string {
	switch {
	case r.Attestation != nil:
		return "A person's statement, not a measurement"
	case r.Receipt != nil:
		return "Receipt: what became of your data (" + r.verdictWord() + ")"
	}
	return "Turnover certificate: " + r.verdictWord()
}

func (r *Report) verdictWord() string {
	switch {
	case r.Holds():
		return "clean"
	case r.CleanWhenIssued():
		return "clean when issued"
	}
	return "not clean"
}

// CleanWhenIssued reports whether age is the only objection to the document. An archived
// certificate is read in this state: the statement about its day stands.
func (r *Report) CleanWhenIssued() bool {
	return len(r.Remarks) == 1 && r.Remarks[0].Code == CodeStale
}

// Outcome is the verdict in words for people. A present device without treatment is never shown
// as clean.
func (d *Device) Outcome() string {
	return outcome(d.Attestation != "", d.Found, d.Method, d.Verdict)
}

// Outcome is the verdict in words for people, as of a certificate's device.
func (d *ReceiptDevice) Outcome() string { return outcome(d.Attested, d.Found, d.Method, d.Verdict) }

func outcome(attested, found bool, m Method, v taskcatalog.Verdict) string {
	switch {
	case attested:
		return "attested"
	case found && m == MethodNone && v != taskcatalog.VerdictNotClean:
		return "present, not cleaned"
	}
	return plain(string(v))
}

// StorageGrade is the grade of a disk's treatment. The standard grades storage media; GPUs and
// NICs have no grade.
func (d *Device) StorageGrade() string { return storageGrade(d.Kind, d.Method.Grade()) }

// StorageGrade is the grade of a disk's treatment, as of a certificate's device.
func (d *ReceiptDevice) StorageGrade() string { return storageGrade(d.Kind, d.Grade) }

func storageGrade(kind string, g Grade) string {
	if kind != KindDisk {
		return ""
	}
	return string(g)
}

// LeftOut is how much of a GPU's or disk's capacity was not covered, in bytes.
func (d *ReceiptDevice) LeftOut() uint64 {
	if d.CoveredBytes == nil || d.OfBytes == nil {
		return 0
	}
	return *d.OfBytes - min(*d.OfBytes, *d.CoveredBytes)
}

// ProofWord says whether a task can be checked by the file alone. A task without influence on the
// verdict has no evidence in the file, whether or not the node signed any.
func (t *Task) ProofWord() string {
	if t.Proof != nil {
		return "signed by the node, verified"
	}
	return "not in this file"
}

// Words for people about the parts left out by a GPU scrub or an erase.
var leftOut = map[string]string{
	"reserved_by_driver": "reserved by the driver, not counted in the percentage",
	"not_free":           "in use by the driver's own contexts, the scrub's among them",
	"not_allocatable":    "free in pieces smaller than 2 MiB, which cannot be allocated",
	"not_asked_for":      "not asked for",
}

// Words is the reason for people. An unknown reason is shown as signed.
func (e Exclusion) Words() string { return cmp.Or(leftOut[e.Reason], plain(e.Reason)) }

// Words says for people where a machine was examined from.
func (e Environment) Words() string {
	switch e {
	case TenantOS:
		return "the operating system that the tenant used"
	case FreshOS:
		return "an operating system installed after the tenant's access ended"
	case AttestedOS:
		return "an operating system whose start was measured"
	}
	return string(e)
}

// ExaminedFrom tells the tenant where the machine was examined from.
func (r *Receipt) ExaminedFrom() string { return r.Environment.toTenant() }

func (e Environment) toTenant() string {
	switch e {
	case TenantOS:
		return "the operating system that you used"
	case FreshOS:
		return "an operating system installed after your access ended"
	}
	return e.Words()
}

// Words tells people the policy's requirements.
func (p *Policy) Words() string { return p.words(Environment.Words) }

// ToTenant tells the tenant the operator's requirements.
func (p *Policy) ToTenant() string { return p.words(Environment.toTenant) }

func (p *Policy) words(environment func(Environment) string) string {
	asks := []string{"examination from " + environment(p.Environment) + ", or better"}
	if p.DiskGrade == GradeNone {
		asks = append(asks, "no particular grade of a disk")
	} else {
		asks = append(asks, "disks of the grade "+string(p.DiskGrade)+", or better")
	}
	if p.GPUReset {
		asks = append(asks, "proof that each GPU was reset")
	}
	if !p.GPUUnverified {
		asks = append(asks, "verified GPUs")
	}
	if p.RootNeedsFreshOS {
		asks = append(asks, "a new operating system after a tenant who had root")
	}
	text := "It asks for: " + strings.Join(asks, "; ") + "."
	if len(p.ReportOnly) > 0 {
		text += " Reported and not counted: " + strings.Join(p.ReportOnly, ", ") + "."
	}
	return text
}

// clone is a copy of the policy for a receipt, which is tidied separately.
func (p Policy) clone() *Policy {
	p.ReportOnly = slices.Clone(p.ReportOnly)
	return &p
}

// plain turns a wire name into words.
func plain(s string) string { return strings.ReplaceAll(s, "_", " ") }
