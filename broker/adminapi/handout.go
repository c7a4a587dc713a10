package adminapi

import (
	"context"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/api"
)

// handout says whether a node may be handed to a tenant, without knowledge of the tenant.
func (a *API) handout(ctx context.Context, n broker.Node) (*api.Handout, error) {
	h, err := a.c.DB.Handout(ctx, n)
	if err != nil {
		return nil, err
	}
	out := &api.Handout{Reasons: []api.HandoutReason{}}
	for _, r := range h.Reasons("", "") {
		out.Reasons = append(out.Reasons, api.HandoutReason{Code: r.Code, Message: r.Message, NextAction: r.Next})
	}
	out.MayBeHandedOut = len(out.Reasons) == 0
	if c := h.Certificate; c != nil {
		out.Certificate = &api.HandoutCertified{
			CertificateID: c.ID, MeetsPolicy: c.MeetsPolicy, Shortfalls: c.Shortfalls,
			IssuedAt: c.IssuedAt, ValidUntil: c.ValidUntil,
		}
	}
	return out, nil
}
