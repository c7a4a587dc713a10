package certificate

import (
	"slices"
	"time"

	"github.com/hostler/hostler/pki"
	"github.com/hostler/hostler/taskcatalog"
)

// Issue completes a certificate, signs it with the statement key, and returns the file. Issue
// refuses whatever Verify would refuse, with the same codes, so that the issuer already detects
// evidence of another node. c.Verdict then says whether the node may be handed out: an
// insufficient turnover gets its certificate, too.
func Issue(c *Clean, signer pki.Signer) ([]byte, error) {
	c.complete()
	return sign(c, signer)
}

// complete fills in the derived fields.
func (c *Clean) complete() {
	never := NeverCovered
	if slices.ContainsFunc(c.Devices, func(d Device) bool { return d.Kind == KindDisk }) {
		never = slices.Concat(never, NeverCoveredOfDisks)
	}
	for _, n := range never {
		if !slices.Contains(c.NotCovered, n) {
			c.NotCovered = append(c.NotCovered, n)
		}
	}
	if c.Environment == TenantOS && !slices.Contains(c.Exposures, rootkit) {
		c.Exposures = append(c.Exposures, rootkit)
	}
	for _, e := range c.reportedExposures() {
		if !slices.Contains(c.Exposures, e) {
			c.Exposures = append(c.Exposures, e)
		}
	}
	if c.selfInspected() && !slices.Contains(c.Exposures, selfInspectionExposure) {
		c.Exposures = append(c.Exposures, selfInspectionExposure)
	}
	tidy(c)
	c.Verdict = Judge(c)
}

func (c *Clean) kind() string        { return PredicateClean }
func (c *Clean) issuedAt() time.Time { return c.IssuedAt }

// about is the machine: the name of the node, and its devices.
func (c *Clean) about() (name, sum string, err error) {
	devices, err := taskcatalog.Encode(c.Devices)
	if err != nil {
		return "", "", malformed("%v", err)
	}
	return pki.NodeURI(c.Node.ID, c.Node.Epoch).String(), hexSHA256(devices), nil
}
