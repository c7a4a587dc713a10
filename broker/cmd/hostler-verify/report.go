package main

import (
	"cmp"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/hostler/hostler/broker/certificate"
	"github.com/hostler/hostler/pki"
)

// printReport writes the most important facts: the verdict, the issuer of the document, the result
// of each device, the remarks, and the limits. The page of --html has everything. Verify has
// refused text with control characters.
func printReport(out io.Writer, r *certificate.Report, trust *pki.TrustBundle) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	row := func(name, value string) {
		if value != "" {
			fmt.Fprintf(w, "%s\t%s\n", name, value)
		}
	}
	fmt.Fprintln(w, r.Title())
	row("verdict", r.Sentence())
	if i := r.Issuer(); i != nil {
		row("issuer", i.Organisation)
		row("contact", i.Contact)
		row("trust file", i.TrustURL)
	}
	switch {
	case r.Clean != nil:
		c := r.Clean
		row("certificate", c.ID)
		row("machine", c.Node.Hostname+" ("+c.Node.ID+")")
		if c.Allocation != nil {
			row("allocation", c.Allocation.ID)
		}
		row("examined from", c.Environment.Words())
		row("good until", stamp(c.ValidUntil))
		for i := range c.Devices {
			d := &c.Devices[i]
			row(d.Kind, d.Name()+": "+string(d.Method)+", "+d.Outcome())
		}
	case r.Receipt != nil:
		c := r.Receipt
		row("your allocation", c.AllocationID)
		row("examined from", c.ExaminedFrom())
		if c.Policy != nil {
			row("operator's policy", c.Policy.ToTenant())
		}
		row("counted clean until", stamp(c.ValidUntil))
		row("certificate", c.CertificateDigest)
		for i := range c.Devices {
			d := &c.Devices[i]
			row(d.Kind, cmp.Or(d.Serial, d.UUID)+": "+string(d.Method)+", "+d.Outcome())
		}
	case r.Attestation != nil:
		a := r.Attestation
		row("part", a.Device.Kind+" "+cmp.Or(a.Device.Serial, a.Device.UUID))
		row("was", string(a.Method))
		row("witness", a.Witness)
		row("recorded by", a.By)
	}
	for _, m := range r.Remarks {
		row(string(m.Code), m.Message)
	}
	exposures, notCovered := limits(r)
	for _, e := range exposures {
		row("exposure", string(e.Code)+": "+e.Message)
	}
	for _, n := range notCovered {
		row("not covered", n.Part+": "+n.Reason)
	}
	row("issued", stamp(r.IssuedAt))
	row("file", r.Digest)
	row("signed by", fmt.Sprintf("statement key %s of trust bundle version %d", r.KeyID, trust.Version))
	return w.Flush()
}

// limits are the exposures that a tenant may still have or know, and the subjects that the document
// does not cover. Without both, "clean" would be misread. A person's statement has neither.
func limits(r *certificate.Report) ([]certificate.Exposure, []certificate.NotCovered) {
	switch {
	case r.Clean != nil:
		return r.Clean.Exposures, r.Clean.NotCovered
	case r.Receipt != nil:
		return r.Receipt.Exposures, r.Receipt.NotCovered
	}
	return nil, nil
}

func stamp(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05Z") }
