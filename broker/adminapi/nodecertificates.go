package adminapi

import (
	"context"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/store"
	"github.com/hostler/hostler/taskcatalog"
)

func (a *API) listNodeCertificates(ctx context.Context, in *nodePageInput) (*api.NodeCertificateList, error) {
	n, err := a.node(ctx, in.Node)
	if err != nil {
		return nil, err
	}
	out, err := a.certificatesOf(ctx, n)
	if err != nil {
		return nil, err
	}
	return out, cut(in.PageInput, &out.Items, &out.Next, func(c api.NodeCertificate) string { return c.Serial })
}

type denyCertificateInput struct {
	NodeInput
	Serial string `path:"serial" maxLength:"64"`
	Body   api.ReasonBody
}

// denyNodeCertificate denies one certificate. The node and its other certificates stay as
// they are. Codes: certificate_not_found, reason_missing.
func (a *API) denyNodeCertificate(ctx context.Context, in *denyCertificateInput) (*api.NodeCertificateList, error) {
	n, err := a.node(ctx, in.Node)
	if err != nil {
		return nil, err
	}
	reason, err := a.reasonFor(ctx, in.Body.Reason, "certificate.deny", "node/"+n.ID, "deny a certificate of node "+n.ID)
	if err != nil {
		return nil, err
	}
	c, err := a.c.DB.Certificate(ctx, in.Serial)
	if broker.AsError(err).Kind == broker.NotFound || err == nil && c.NodeID != n.ID {
		// One text for both cases, so that the answer does not reveal whether another node has the
		// certificate.
		no := broker.Errorf(broker.NotFound, "certificate_not_found",
			"cannot deny certificate %q: node %s has no such certificate (see hostler node certificate list %s)",
			taskcatalog.Clean(in.Serial, 64), n.ID, n.ID)
		a.auditDenial(ctx, "certificate.deny", "node/"+n.ID, reason, no)
		return nil, no
	}
	if err != nil {
		return nil, err
	}
	if err := a.c.DB.Deny(ctx, callerOf(ctx).actor(), c.Serial, store.DenyOperator+reason); err != nil {
		return nil, err
	}
	return a.certificatesOf(ctx, n)
}

func (a *API) certificatesOf(ctx context.Context, n broker.Node) (*api.NodeCertificateList, error) {
	all, err := a.c.DB.Certificates(ctx, n.ID)
	if err != nil {
		return nil, err
	}
	out := &api.NodeCertificateList{NodeID: n.ID, Hostname: n.Hostname, Items: []api.NodeCertificate{}}
	newest, now := -1, a.c.Now()
	for i, c := range all {
		state := certificateState(c, n, now)
		if state == "valid" || state == "expired" { // an expired certificate can still be renewed
			newest = i // the store lists the oldest first
		}
		out.Items = append(out.Items, api.NodeCertificate{
			Serial: c.Serial, State: state, Epoch: c.Epoch, Key: c.PublicKeyDigest,
			IssuedAt: c.IssuedAt, NotBefore: c.NotBefore, NotAfter: c.NotAfter, DeniedAt: c.DeniedAt, Reason: c.DenyReason,
		})
	}
	if newest >= 0 {
		out.Items[newest].Newest = true
	}
	return out, nil
}

func certificateState(c store.Certificate, n broker.Node, now time.Time) string {
	switch {
	case !c.DeniedAt.IsZero():
		return "denied"
	case c.Epoch != n.Epoch:
		return "superseded"
	case now.After(c.NotAfter):
		return "expired"
	}
	return "valid"
}
