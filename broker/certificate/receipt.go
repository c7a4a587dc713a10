package certificate

import (
	"cmp"
	"slices"
	"time"

	"github.com/hostler/hostler/pki"
	"github.com/hostler/hostler/taskcatalog"
)

// Receipt is the tenant's version of a certificate: the treatment of the devices that held the
// tenant's data. The issuer is the only name of the operator in a receipt: no node, host, site,
// run, task, person, path or message, only codes. Devices have the names that the tenant could
// read. A tenant in doubt asks for the certificate, named by digest.
type Receipt struct {
	CertificateDigest string             `json:"certificate_digest"` // of the file
	Issuer            *Issuer            `json:"issuer,omitempty"`   // the certificate's
	AllocationID      string             `json:"allocation_id"`
	Tenant            string             `json:"tenant,omitempty"`
	ReleasedAt        time.Time          `json:"released_at,omitzero"`
	Environment       Environment        `json:"environment"`
	Policy            *Policy            `json:"policy,omitempty"` // the operator's requirements; absent in older receipts
	Devices           []ReceiptDevice    `json:"devices"`
	Downgrades        []ReceiptDowngrade `json:"downgrades"`
	Exposures         []Exposure         `json:"exposures"`
	NotCovered        []NotCovered       `json:"not_covered"`
	Verdict           Verdict            `json:"verdict"`
	FinishedAt        time.Time          `json:"finished_at"`
	CertifiedAt       time.Time          `json:"certified_at"` // when the certificate was issued
	IssuedAt          time.Time          `json:"issued_at"`
	ValidUntil        time.Time          `json:"valid_until"`
}

// ReceiptDevice is a device as the tenant knew it.
type ReceiptDevice struct {
	Kind         string              `json:"kind"`
	Serial       string              `json:"serial,omitempty"`
	UUID         string              `json:"uuid,omitempty"`
	Model        string              `json:"model,omitempty"`
	Found        bool                `json:"found"`
	Method       Method              `json:"method"`
	Grade        Grade               `json:"grade"`
	Verification string              `json:"verification"`
	CoveredBytes *uint64             `json:"covered_bytes,omitzero"`
	OfBytes      *uint64             `json:"of_bytes,omitzero"`
	Verdict      taskcatalog.Verdict `json:"verdict"`
	// Attested: a person states the absence of the device. The certificate names the person.
	Attested bool `json:"attested,omitzero"`
}

// ReceiptDowngrade is a downgrade: a weaker method than requested.
type ReceiptDowngrade struct {
	Device   string `json:"device"`
	Asked    Method `json:"asked"`
	Did      Method `json:"did"`
	Accepted bool   `json:"accepted"`
}

// ReceiptOf makes the receipt of a verified certificate for its last allocation, issued at now:
// another statement key may be in force by then. Code: certificate_incomplete.
func ReceiptOf(r *Report, now time.Time) (*Receipt, error) {
	if r.Clean == nil || r.Clean.Allocation == nil {
		return nil, refuse(CodeIncomplete, "cannot make a receipt: the certificate is about no allocation")
	}
	return receiptOf(r, *r.Clean.Allocation, now), nil
}

// ReceiptFor makes the receipt for one of the allocations that a verified certificate names. The
// receipt names that allocation and its tenant alone. Code: certificate_incomplete.
func ReceiptFor(r *Report, allocationID string, now time.Time) (*Receipt, error) {
	if r.Clean != nil {
		if a := r.Clean.Allocation; a != nil && a.ID == allocationID {
			return receiptOf(r, *a, now), nil
		}
		for _, a := range r.Clean.Earlier {
			if a.ID == allocationID {
				return receiptOf(r, a, now), nil
			}
		}
	}
	return nil, refuse(CodeIncomplete, "cannot make a receipt: the certificate is not about allocation %s", taskcatalog.Clean(allocationID, 100))
}

func receiptOf(r *Report, a Allocation, now time.Time) *Receipt {
	c := r.Clean
	out := &Receipt{
		CertificateDigest: r.Digest, Issuer: c.Issuer,
		AllocationID: a.ID, Tenant: a.Tenant, ReleasedAt: a.ReleasedAt,
		Environment: c.Environment, Policy: c.Policy.clone(), NotCovered: slices.Clone(NeverCovered), FinishedAt: c.FinishedAt,
		CertifiedAt: c.IssuedAt, IssuedAt: now.UTC(), ValidUntil: c.ValidUntil,
		Verdict: Verdict{MeetsPolicy: c.Verdict.MeetsPolicy},
	}
	for _, n := range NeverCoveredOfDisks {
		if slices.Contains(c.NotCovered, n) {
			out.NotCovered = append(out.NotCovered, n)
		}
	}
	for _, d := range c.Devices {
		if d.Kind != KindNIC {
			out.Devices = append(out.Devices, ReceiptDevice{
				Kind: d.Kind, Serial: d.Serial, UUID: d.UUID, Model: d.Model, Found: d.Found, Method: d.Method, Grade: d.Method.Grade(),
				Verification: d.Verification, CoveredBytes: d.CoveredBytes, OfBytes: d.OfBytes, Verdict: d.Verdict,
				Attested: d.Attestation != "",
			})
		}
	}
	for _, d := range c.Downgrades {
		out.Downgrades = append(out.Downgrades, ReceiptDowngrade{d.Device, d.Asked, d.Did, d.AcceptedBy != ""})
	}
	for _, e := range c.Exposures {
		out.Exposures = append(out.Exposures, Exposure{Code: e.Code, Message: meaning(e.Code)})
	}
	for _, s := range c.Verdict.Shortfalls {
		out.Verdict.Shortfalls = append(out.Verdict.Shortfalls, Remark{Code: s.Code, Message: meaning(s.Code)})
	}
	tidy(out)
	return out
}

// IssueReceipt signs a receipt and returns the file.
func IssueReceipt(r *Receipt, signer pki.Signer) ([]byte, error) { return sign(r, signer) }

func (r *Receipt) kind() string        { return PredicateReceipt }
func (r *Receipt) issuedAt() time.Time { return r.IssuedAt }

// about is the certificate.
func (r *Receipt) about() (name, sum string, err error) {
	if !digestForm.MatchString(r.CertificateDigest) {
		return "", "", refuse(CodeIncomplete, "cannot use receipt: the receipt names no certificate")
	}
	return "certificate", r.CertificateDigest[len("sha256:"):], nil
}

func (r *Receipt) check() error {
	if !name.MatchString(r.AllocationID) || !r.Issuer.valid() || r.Policy != nil && !r.Policy.valid() || environments[r.Environment] == 0 ||
		r.Verdict.MeetsPolicy != (len(r.Verdict.Shortfalls) == 0) || !r.ValidUntil.After(r.CertifiedAt) ||
		r.IssuedAt.Before(r.CertifiedAt) || r.CertifiedAt.IsZero() ||
		len(r.Devices) > maxDevices || len(r.Downgrades) > maxList || len(r.Exposures) > maxList {
		return refuse(CodeIncomplete, "cannot use receipt: the receipt is incomplete, or contradicts itself")
	}
	return nil
}

func meaning(code taskcatalog.Code) string {
	return cmp.Or(meanings[code], "the certificate says what it is")
}

// meanings are the sentences for codes, for readers who must not see more.
var meanings = map[taskcatalog.Code]string{
	CodeNoDevices:         "it is not known what the machine is made of",
	CodeDeviceMissing:     "a device that was expected was not found",
	CodeDeviceUnexpected:  "a device was found that was not expected",
	CodeDeviceNotClean:    "a device was not clean, or could not be looked at",
	CodeDeviceUnproven:    "nothing that the machine has signed says that a device is clean",
	CodeBelowPolicy:       "a disk was erased by a weaker method than is asked for",
	CodeUnverified:        "what was done to a device was not verified",
	CodeResetUnproven:     "a GPU's reset is not proven",
	CodeDowngrade:         "a weaker method was used than was asked for",
	CodeEnvironment:       "the machine was looked at in a weaker environment than is asked for",
	CodeRootNeedsFreshOS:  "root was given to the tenant, and the machine was not reimaged since",
	CodeNotValidated:      "no look at the whole machine came to clean",
	CodeCheckNotMade:      "a check was not made",
	CodeFinding:           "something was found that a clean machine does not have",
	CodeValidationSkipped: "a stage was overridden that never may be",

	taskcatalog.CodeDiskSmaller:          "a disk is smaller than it was, so that not all of it was erased",
	taskcatalog.CodeDiskNoSize:           "a disk cannot be read or written as it is formatted, so that it was not erased",
	taskcatalog.CodeDiskNotSystem:        "a disk is said to be the system's, and the record says otherwise",
	taskcatalog.CodeDiskRoleUnrecorded:   "a disk is said to be the system's, and nobody has recorded whether it is",
	taskcatalog.CodeDiskTransportDiffers: "a disk is said not to be the machine's own, and the record says otherwise",
	taskcatalog.CodeDiskNotLocal:         "a disk is not the machine's own, and nothing was done to it",

	ExposureMAASToken:    "a credential that the machine uses towards its installer was not changed",
	ExposureRootkit:      rootkit.Message,
	ExposureBaseline:     "the operator has changed, after a tenant could have, what the machine is compared with",
	ExposureAgent:        selfInspectionExposure.Message,
	ExposureAcceptedGone: "a device has left the machine since, and the operator has accepted that",
	ExposureReportedOnly: "something below the operating system differs from what it was, or could not be looked at, and the operator lets it pass",
}
