package records

import (
	"context"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/certificate"
	"github.com/hostler/hostler/broker/store"
	"github.com/hostler/hostler/broker/taskqueue"
	"github.com/hostler/hostler/broker/turnover"
	"github.com/hostler/hostler/pki"
	"github.com/hostler/hostler/taskcatalog"
)

// Proof implements turnover.Nodes.
func (n *Nodes) Proof(ctx context.Context, taskID string) (turnover.Proof, error) {
	k, err := n.DB.Task(ctx, taskID)
	if err != nil {
		return turnover.Proof{}, err
	}
	out := turnover.Proof{EndedAt: k.EndedAt, Task: certificate.Task{
		ID: k.ID, Type: k.Type, Version: k.Version, Outcome: k.Outcome,
		Digest: k.EnvelopeDigest,
	}}
	if len(k.Evidence) == 0 {
		return out, nil
	}
	out.EvidenceDigest = pki.Digest(k.Evidence)
	signed, err := taskqueue.SignedBy(ctx, n.DB, k)
	if err != nil || signed == nil {
		return out, err
	}
	out.Task.Proof = &certificate.Proof{Certificate: signed, Evidence: string(k.Evidence), Result: string(k.Result)}
	return out, nil
}

// Certify implements turnover.Nodes.
func (n *Nodes) Certify(ctx context.Context, c *certificate.Clean) (certificate.Verdict, error) {
	had, err := n.DB.CleanCertificate(ctx, c.ID)
	switch {
	case err == nil:
		return judged(had), nil
	case broker.AsError(err).Kind != broker.NotFound:
		return certificate.Verdict{}, err
	}
	signer, err := n.Signer.StatementSigner(ctx)
	if err != nil {
		return certificate.Verdict{}, err
	}
	if c.Issuer, err = n.issuer(ctx, c.Node.Site); err != nil {
		return certificate.Verdict{}, err
	}
	c.IssuedAt = n.Now().UTC()
	c.Software = append(c.Software, certificate.Software{Name: "hostler-broker", Version: n.Version})
	file, err := certificate.Issue(c, signer)
	if err != nil {
		return certificate.Verdict{}, err
	}
	row := store.CleanCertificate{
		ID: c.ID, RunID: c.Run.ID, NodeID: c.Node.ID, NodeEpoch: c.Node.Epoch, Site: c.Node.Site, Mode: c.Run.Mode,
		MeetsPolicy: c.Verdict.MeetsPolicy,
		Digest:      pki.Digest(file), IssuedAt: c.IssuedAt, ValidUntil: c.ValidUntil, File: file,
	}
	if c.Allocation != nil {
		row.AllocationID = c.Allocation.ID
	}
	for _, s := range c.Verdict.Shortfalls {
		row.Shortfalls = append(row.Shortfalls, string(s.Code))
	}
	kept, err := n.DB.KeepCleanCertificate(ctx, broker.System, row)
	if err != nil || kept.Digest == row.Digest {
		return c.Verdict, err
	}
	return judged(kept), nil // another broker was faster
}

// issuer is the issuer in the settings of a site; nil: none, or no such site.
func (n *Nodes) issuer(ctx context.Context, site string) (*certificate.Issuer, error) {
	if site == "" {
		return nil, nil
	}
	s, err := n.DB.Site(ctx, site)
	switch {
	case err != nil && broker.AsError(err).Kind == broker.NotFound, err == nil && s.Issuer == broker.Issuer{}:
		return nil, nil
	case err != nil:
		return nil, err
	}
	return &certificate.Issuer{Organisation: s.Issuer.Organisation, Contact: s.Issuer.Contact, TrustURL: s.Issuer.TrustURL}, nil
}

// judged is the verdict of a certificate on record, by its codes.
func judged(c store.CleanCertificate) certificate.Verdict {
	v := certificate.Verdict{MeetsPolicy: c.MeetsPolicy, Shortfalls: []certificate.Remark{}}
	for _, code := range c.Shortfalls {
		v.Shortfalls = append(v.Shortfalls, certificate.Remark{Code: taskcatalog.Code(code), Message: code})
	}
	return v
}
