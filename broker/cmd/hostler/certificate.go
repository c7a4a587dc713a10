package main

import (
	"cmp"
	"context"
	"errors"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/certificate"
	"github.com/hostler/hostler/broker/cmd/hostler/render"
	"github.com/hostler/hostler/pki"
	"github.com/hostler/hostler/taskcatalog"
)

func certificateCommand(a *app) *cobra.Command {
	return noun("certificate", "list, download and check the signed certificates of turnovers",
		"  hostler certificate verify gpu-07.json --trust trust.json",
		certificateListCommand(a), certificateGetCommand(a), certificateVerifyCommand(a), certificateAttestCommand(a))
}

func certificateVerifyCommand(a *app) *cobra.Command {
	var trustFile, at, page string
	var archive bool
	c := &cobra.Command{
		Use: "verify FILE|-", Short: "check a turnover certificate, a receipt or an attestation", Args: exactly("FILE|-"),
		Long: `Check a turnover certificate, a receipt or an attestation. With --trust the check
needs no network and no broker: the file contains the evidence signed by the node,
and the trust file contains the keys. hostler trust show -o json prints the trust
file; obtain it over another channel than the certificate. Without --trust the
broker supplies the keys.

A certificate permits handing out the machine until its valid_until. For an auditor
who reads it later, --archive accepts a certificate that was clean when it was
issued.

Exit status: 0 authentic, clean and not past valid_until (with --archive: clean when
issued); 1 nothing in the file can be trusted, the error's code says why; 2 a file
cannot be read or written; 3 authentic, but a device is missing or not clean, the
certificate does not meet its policy, or (without --archive) it is past valid_until.`,
		Example: "  hostler trust show -o json > trust.json\n  hostler certificate verify gpu-07.json --trust trust.json\n  hostler certificate verify gpu-07.json --trust trust.json --at 2026-03-01 --html gpu-07.html\n  hostler certificate verify gpu-07.json --trust trust.json --archive",
		RunE: func(c *cobra.Command, args []string) error {
			now := a.now()
			asOf, err := a.timeFlag("at", at)
			if err != nil {
				return err
			}
			if asOf.IsZero() {
				asOf = now
			}
			file, err := a.readUpTo(pki.MaxStatement, args[0])
			if err != nil {
				return err
			}
			trust, err := a.trustOf(c.Context(), trustFile)
			if err != nil {
				return err
			}
			r, err := certificate.VerifyAsOf(file, trust, asOf, now)
			if err != nil {
				return verificationError(err)
			}
			if page != "" {
				if err := writeHTML(page, r); err != nil {
					return unwritten(err)
				}
			}
			if err := a.show(r, []string{r.Sentence()}, func(p *render.Page) { certificatePage(p, r, trust) }); err != nil {
				return unwritten(err)
			}
			if r.Holds() || archive && r.CleanWhenIssued() {
				return nil
			}
			first := r.Remarks[0]
			if r.CleanWhenIssued() {
				return broker.Errorf(broker.Refused, string(first.Code),
					"the certificate is authentic and %s (--archive accepts a certificate that was clean when issued)", r.Sentence())
			}
			return broker.Errorf(broker.Refused, string(first.Code), "the certificate is authentic, but not acceptable: %s (%d in all)",
				first.Message, len(r.Remarks))
		},
	}
	c.Flags().StringVar(&trustFile, "trust", "", "read the trusted keys from `FILE`, not from the broker")
	c.Flags().StringVar(&at, "at", "", "judge the certificate as of `TIME`: a date, RFC 3339, or an age such as 24h")
	c.Flags().StringVar(&page, "html", "", "also write an HTML page to `FILE`")
	c.Flags().BoolVar(&archive, "archive", false, "accept a certificate that was clean when issued, even past its valid_until")
	return c
}

// trustOf reads the trusted keys from a file, or asks the broker.
func (a *app) trustOf(ctx context.Context, path string) (*pki.TrustBundle, error) {
	if path == "-" {
		return nil, usage("cannot read the trust file from stdin (give a file name)")
	}
	var raw []byte
	var err error
	if path != "" {
		raw, err = a.readUpTo(pki.MaxEnvelope, path)
	} else {
		raw, err = a.fetchTrust(ctx)
	}
	if err != nil {
		return nil, err
	}
	trust, err := certificate.ReadTrust(raw)
	if err != nil {
		return nil, broker.Errorf(broker.Invalid, "trust_invalid", "%v", err)
	}
	return trust, nil
}

func (a *app) fetchTrust(ctx context.Context) ([]byte, error) {
	remote, err := a.connect()
	if err != nil {
		return nil, err
	}
	t, err := remote.Trust(ctx)
	if err != nil {
		return nil, err
	}
	return taskcatalog.Encode(t)
}

// verificationError is the error for a file that fails verification.
func verificationError(err error) error {
	var e *taskcatalog.Error
	if errors.As(err, &e) {
		return broker.Errorf(broker.Internal, string(e.Code), "%s", e.Message)
	}
	return err
}

// unwritten is the error for a page or output that cannot be written. The exit status is not 1,
// because 1 means that nothing in the certificate can be believed.
func unwritten(err error) error {
	return broker.Errorf(broker.Invalid, "output_failed", "the certificate is authentic, but the result cannot be written: %v", err)
}

func certificatePage(p *render.Page, r *certificate.Report, trust *pki.TrustBundle) {
	p.Title(r.Title())
	p.Fields("verdict", r.Sentence())
	if i := r.Issuer(); i != nil {
		p.Fields("issuer", i.Organisation, "contact", i.Contact, "trust file", i.TrustURL)
	}
	switch {
	case r.Clean != nil:
		cleanPage(p, r.Clean)
	case r.Receipt != nil:
		receiptPage(p, r.Receipt)
	case r.Attestation != nil:
		t := r.Attestation
		p.Fields("part", t.Device.Kind+" "+cmp.Or(t.Device.Serial, t.Device.UUID), "model", t.Device.Model, "was", string(t.Method),
			"says", t.Witness,
			"recorded by", t.By, "reason", t.Reason, "node", t.Node.Hostname+" ("+t.Node.ID+")", "site", t.Node.Site)
	}
	rows := [][]string{}
	for _, m := range r.Remarks {
		rows = append(rows, []string{string(m.Code), m.Subject, m.Message})
	}
	against := "What speaks against it"
	if r.CleanWhenIssued() {
		against = "Since it was issued"
	}
	resultTable(p, against, render.Kept("CODE", "SUBJECT", "MESSAGE"), rows)
	p.Title("Signature")
	p.Fields("file", r.Digest, "issued", render.Time(r.IssuedAt), "by statement key", r.KeyID,
		"of trust bundle", "version "+strconv.FormatInt(trust.Version, 10),
		"judged as of", render.Time(r.JudgedAsOf), "verified", render.Time(r.VerifiedAt))
}

// gradeHead is the heading of the grade column, with the standard of the grades.
const gradeHead = "GRADE (" + certificate.GradeStandard + ")"

func cleanPage(p *render.Page, c *certificate.Clean) {
	allocation := "none"
	if g := c.Allocation; g != nil {
		allocation = g.ID
		if g.Tenant != "" {
			allocation += " of " + g.Tenant
		}
		if g.HadRoot {
			allocation += ", with root"
		}
	}
	machine := strings.ReplaceAll(string(c.Validation.Verdict), "_", " ") + ", " + strconv.Itoa(c.Validation.ChecksMade) +
		" checks made, " + strconv.Itoa(len(c.Validation.ChecksNotMade)) + " not made"
	for i, check := range c.Validation.NotApplicable {
		machine += []string{", not applicable ", " "}[min(i, 1)] + check.Name
	}
	p.Fields("certificate", c.ID, "node", c.Node.Hostname+" ("+c.Node.ID+")",
		"its key", "certified after "+render.Time(c.Node.IdentitySince)+", registration "+strconv.FormatInt(c.Node.Epoch, 10)+" of this machine",
		"site", c.Node.Site,
		"turnover", c.Run.Mode+" ("+c.Run.ID+")", "from", render.Time(c.Run.StartedAt), "until", render.Time(c.FinishedAt),
		"allocation", allocation,
		"examined from", c.Environment.Words(), "policy", "version "+c.Policy.Version, "good until", render.Time(c.ValidUntil),
		"whole machine", machine)
	devices, downgrades, overrides, tasks := [][]string{}, [][]string{}, [][]string{}, [][]string{}
	for _, d := range c.Devices {
		devices = append(devices, []string{
			d.Kind, d.Name(), render.YesNo(d.Expected), found(d.Found, d.Attestation != ""), string(d.Method), d.StorageGrade(),
			certificate.Covered(d.CoveredBytes, d.OfBytes), d.Verification, d.Reset, d.Outcome(), d.Model,
		})
	}
	resultTable(p, "Devices", []render.Column{
		render.Keep("KIND"), render.Keep("SERIAL OR UUID"), render.Keep("EXPECTED"), render.Keep("FOUND"),
		render.Keep("METHOD"), render.Keep(gradeHead), render.Main("COVERED"), render.Main("VERIFIED"),
		render.More("RESET"), render.Keep("VERDICT"), render.Aside("MODEL"),
	}, devices)
	words := [][]string{}
	for _, w := range c.Attested {
		s := w.Statement
		words = append(words, []string{
			s.Device.Kind, cmp.Or(s.Device.Serial, s.Device.UUID), string(s.Method), s.Witness, s.By,
			render.Time(s.IssuedAt), s.ID, s.Reason,
		})
	}
	resultTable(p, "Gone, by a person's word, which no machine has signed", []render.Column{
		render.Keep("KIND"), render.Keep("SERIAL OR UUID"), render.Keep("WAS"), render.Keep("SAYS"),
		render.Main("RECORDED BY"), render.Aside("AT"), render.Main("STATEMENT"), render.Keep("REASON"),
	}, words)
	for _, d := range c.Downgrades {
		downgrades = append(downgrades, []string{
			d.Device, string(d.Asked), string(d.Did), d.AcceptedBy,
			strings.TrimSpace(d.Reason + " " + d.Because),
		})
	}
	resultTable(p, "Downgrades", []render.Column{
		render.Keep("DEVICE"), render.Keep("ASKED FOR"), render.Keep("DONE"), render.Main("ACCEPTED BY"),
		render.Keep("WHY"),
	}, downgrades)
	for _, o := range c.Overrides {
		overrides = append(overrides, []string{o.Stage, o.By, render.Time(o.At), o.Reason})
	}
	resultTable(p, "Stages that a person skipped", []render.Column{
		render.Keep("STAGE"), render.Main("BY"), render.Main("AT"), render.Keep("WHY"),
	}, overrides)
	exposuresPage(p, c.Exposures, c.NotCovered)
	for _, t := range c.Tasks {
		tasks = append(tasks, []string{t.ID, t.Type + "@" + strconv.Itoa(t.Version), string(t.Outcome), t.ProofWord(), t.EvidenceDigest})
	}
	resultTable(p, "Evidence", []render.Column{
		render.ID("TASK"), render.Keep("TYPE"), render.Keep("OUTCOME"), render.More("EVIDENCE"),
		render.Aside("DIGEST"),
	}, tasks)
}

// found says whether a part was there, or whether a person attests for it.
func found(there, attested bool) string {
	if attested {
		return "attested"
	}
	return render.YesNo(there)
}

func receiptPage(p *render.Page, r *certificate.Receipt) {
	policy := "not stated in this file"
	if r.Policy != nil {
		policy = r.Policy.ToTenant()
	}
	p.Fields("your allocation", r.AllocationID, "tenant", r.Tenant, "your access ended", render.Time(r.ReleasedAt),
		"cleaned until", render.Time(r.FinishedAt),
		"examined from", r.ExaminedFrom(), "operator's policy", policy, "counted as clean until", render.Time(r.ValidUntil),
		"certificate", r.CertificateDigest)
	rows := [][]string{}
	for _, d := range r.Devices {
		name := d.Serial
		if name == "" {
			name = d.UUID
		}
		rows = append(rows, []string{
			d.Kind, name, found(d.Found, d.Attested), string(d.Method), d.StorageGrade(), certificate.Covered(d.CoveredBytes,
				d.OfBytes), d.Verification, d.Outcome(), d.Model,
		})
	}
	resultTable(p, "Devices", []render.Column{
		render.Keep("KIND"), render.Keep("SERIAL OR UUID"), render.Keep("FOUND"), render.Keep("METHOD"),
		render.Keep(gradeHead), render.Main("COVERED"), render.Main("VERIFIED"), render.Keep("VERDICT"),
		render.Aside("MODEL"),
	}, rows)
	exposuresPage(p, r.Exposures, r.NotCovered)
}

func exposuresPage(p *render.Page, exposures []certificate.Exposure, not []certificate.NotCovered) {
	rows := [][]string{}
	for _, e := range exposures {
		rows = append(rows, []string{string(e.Code), e.Message})
	}
	resultTable(p, "Exposures", render.Kept("CODE", "MESSAGE"), rows)
	rows = [][]string{}
	for _, n := range not {
		rows = append(rows, []string{n.Part, n.Reason})
	}
	resultTable(p, "Not covered", render.Kept("PART", "WHY"), rows)
}
