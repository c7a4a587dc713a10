package adminapi

import (
	"context"
	"encoding/json"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/certificate"
	"github.com/hostler/hostler/broker/store"
	"github.com/hostler/hostler/pki"
)

// CertificateInput names a clean certificate.
type CertificateInput struct {
	Certificate string `path:"certificate" maxLength:"128"`
}

type certificatesInput struct {
	Node   string `query:"node_id" maxLength:"253" doc:"an id, a hostname or site/hostname"`
	Cursor string `query:"cursor" maxLength:"128"`
	Limit  int    `query:"limit" minimum:"0" maximum:"1000"`
}

func (a *API) listCertificates(ctx context.Context, in *certificatesInput) (*api.CleanCertificateList, error) {
	sites, err := visibleSites(callerOf(ctx), "")
	if err != nil {
		return nil, err
	}
	f := store.CleanFilter{Sites: sites, After: in.Cursor, Limit: pageLimit(in.Limit)}
	if in.Node != "" {
		n, err := a.node(ctx, in.Node)
		if err != nil {
			return nil, err
		}
		f.NodeID = n.ID
	}
	page, next, err := a.c.DB.CleanCertificates(ctx, f)
	if err != nil {
		return nil, err
	}
	out := &api.CleanCertificateList{Items: []api.CleanCertificate{}, Next: next}
	for _, c := range page {
		out.Items = append(out.Items, cleanResource(c))
	}
	return out, nil
}

// certificate finds a certificate of a site that the caller may see.
func (a *API) certificate(ctx context.Context, id string) (store.CleanCertificate, error) {
	c, err := a.c.DB.CleanCertificate(ctx, id)
	if err == nil && !callerOf(ctx).MaySee(c.Site) {
		err = broker.Errorf(broker.NotFound, "certificate_not_found", "there is no clean certificate %q (see hostler certificate list)", id)
	}
	return c, err
}

func (a *API) showCertificate(ctx context.Context, in *CertificateInput) (*api.CleanCertificate, error) {
	c, err := a.certificate(ctx, in.Certificate)
	if err != nil {
		return nil, err
	}
	out := cleanResource(c)
	out.File = string(c.File)
	return &out, nil
}

// issueReceipt signs the tenant's version of a certificate. The receipt names nothing that belongs
// to the operator. Each call makes a new receipt, with the content of the certificate.
func (a *API) issueReceipt(ctx context.Context, in *CertificateInput) (*api.CleanCertificate, error) {
	c, err := a.certificate(ctx, in.Certificate)
	if err != nil {
		return nil, err
	}
	file, err := a.signReceipt(ctx, c, certificate.ReceiptOf)
	if err != nil {
		return nil, err
	}
	out := cleanResource(c)
	out.File, out.Digest = string(file), pki.Digest(file)
	e := broker.AuditEntry{Actor: callerOf(ctx).actor().Name, Action: "certificate.receipt", Subject: "certificate/" + c.ID}
	if e.After, err = json.Marshal(map[string]string{"certificate": c.Digest, "receipt": out.Digest}); err != nil {
		return nil, err
	}
	if err := a.c.DB.Audit(ctx, e); err != nil {
		return nil, err
	}
	return &out, nil
}

// receiptMaker makes a receipt of a verified certificate.
type receiptMaker func(*certificate.Report, time.Time) (*certificate.Receipt, error)

// signReceipt signs a receipt of a certificate. Codes: certificate_unbelievable, allocation_none,
// receipt_unbelievable.
func (a *API) signReceipt(ctx context.Context, c store.CleanCertificate, of receiptMaker) ([]byte, error) {
	bundle, _ := a.c.Trust.Bundle()
	report, err := certificate.Verify(c.File, bundle, a.c.Now())
	if err != nil {
		return nil, broker.Errorf(broker.Refused, "certificate_unbelievable",
			"cannot make a receipt of certificate %s: the stored certificate does not verify: %v", c.ID, err)
	}
	receipt, err := of(report, a.c.Now())
	if err != nil {
		return nil, broker.Errorf(broker.Refused, "allocation_none",
			"cannot make a receipt of certificate %s: the certificate is about no allocation", c.ID)
	}
	signer, err := a.c.Trust.StatementSigner(ctx)
	if err != nil {
		return nil, err
	}
	file, err := certificate.IssueReceipt(receipt, signer)
	if err != nil {
		return nil, err
	}
	if _, err := certificate.Verify(file, bundle, a.c.Now()); err != nil {
		return nil, broker.Errorf(broker.Refused, "receipt_unbelievable",
			"cannot return the receipt of certificate %s: the tenant could not verify the receipt: %v", c.ID, err)
	}
	return file, nil
}

func cleanResource(c store.CleanCertificate) api.CleanCertificate {
	return api.CleanCertificate{
		CertificateID: c.ID, DecommissionID: c.RunID, NodeID: c.NodeID, NodeEpoch: c.NodeEpoch, Site: c.Site, Mode: c.Mode,
		AllocationID: c.AllocationID,
		MeetsPolicy:  c.MeetsPolicy, Shortfalls: c.Shortfalls, Digest: c.Digest, IssuedAt: c.IssuedAt, ValidUntil: c.ValidUntil,
	}
}
