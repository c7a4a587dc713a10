package adminapi

import (
	"context"
	"slices"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/certificate"
	"github.com/hostler/hostler/broker/store"
	"github.com/hostler/hostler/pki"
)

// listAllocationCertificates lists the certificates of the turnovers that ended an allocation. Nodes,
// sites and runs are left out: the tenant gets no more than the receipt says.
func (a *API) listAllocationCertificates(ctx context.Context, in *projectAllocationInput) (*api.AllocationCertificateList, error) {
	found, err := a.allocation(ctx, in.Project, in.Allocation)
	if err != nil {
		return nil, err
	}
	all, err := a.c.DB.AllocationCertificates(ctx, found)
	if err != nil {
		return nil, err
	}
	return &api.AllocationCertificateList{Items: resources(all, func(c store.CleanCertificate) api.AllocationCertificate {
		return api.AllocationCertificate{CertificateID: c.ID, Digest: c.Digest, MeetsPolicy: c.MeetsPolicy, IssuedAt: c.IssuedAt}
	})}, nil
}

type allocationReceiptInput struct {
	ProjectInput
	AllocationInput
	CertificateInput
}

// showAllocationReceipt returns the receipt of a certificate of an allocation. The certificate itself
// names nodes, operators and other tenants, and cannot be shortened: it is signed as a whole. The first
// request signs the receipt, and all requests get that file. A certificate of another allocation is
// looked for among those of this one, and is therefore answered like one that never was.
func (a *API) showAllocationReceipt(ctx context.Context, in *allocationReceiptInput) (*api.AllocationReceipt, error) {
	found, err := a.allocation(ctx, in.Project, in.Allocation)
	if err != nil {
		return nil, err
	}
	all, err := a.c.DB.AllocationCertificates(ctx, found)
	if err != nil {
		return nil, err
	}
	if !slices.ContainsFunc(all, func(c store.CleanCertificate) bool { return c.ID == in.Certificate }) {
		return nil, broker.Errorf(broker.NotFound, "certificate_not_found",
			"allocation %s has no certificate %q (see hostler allocation certificate %s)", found.ID, in.Certificate, found.ID)
	}
	kept, is, err := a.c.DB.Receipt(ctx, in.Certificate, found.ID)
	if err == nil && !is {
		kept, err = a.makeReceipt(ctx, in.Certificate, found)
	}
	if err != nil {
		return nil, err
	}
	return &api.AllocationReceipt{
		CertificateID: kept.CertificateID, Digest: kept.Digest, IssuedAt: kept.IssuedAt, File: string(kept.File),
	}, nil
}

// makeReceipt signs and keeps the receipt of a certificate for an allocation. The tenant is not told why
// there is none, because the reason may quote the certificate. Code: receipt_none.
func (a *API) makeReceipt(ctx context.Context, certificateID string, of broker.Allocation) (store.Receipt, error) {
	c, err := a.c.DB.CleanCertificate(ctx, certificateID)
	if err != nil {
		return store.Receipt{}, err
	}
	made := store.Receipt{CertificateID: c.ID, AllocationID: of.ID}
	made.File, err = a.signReceipt(ctx, c, func(r *certificate.Report, now time.Time) (*certificate.Receipt, error) {
		made.IssuedAt = now
		receipt, err := certificate.ReceiptFor(r, of.ID, now)
		if err == nil && receipt.Tenant != of.ProjectID { // a user by hand, of another name
			err = broker.Errorf(broker.Refused, "allocation_none", "the allocation's user was of another tenant")
		}
		return receipt, err
	})
	if err != nil && broker.AsError(err).Kind == broker.Refused {
		return store.Receipt{}, broker.Errorf(broker.Refused, "receipt_none",
			"there is no receipt of certificate %s for allocation %s: no account of the allocation was on that node, or the certificate cannot be verified (ask the platform's operators, with both ids)",
			c.ID, of.ID)
	}
	if err != nil {
		return store.Receipt{}, err
	}
	made.Digest = pki.Digest(made.File)
	return a.c.DB.KeepReceipt(ctx, callerOf(ctx).actor(), made)
}
