package adminapi

import (
	"context"
	"strings"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/store"
	turnoverrecords "github.com/hostler/hostler/broker/turnover/records"
	"github.com/hostler/hostler/taskcatalog"
)

type attestInput struct {
	NodeInput
	Body api.AttestationPut
}

// attest records a person's statement about a device that no longer runs. A statement that cannot
// be accepted is refused and audited.
func (a *API) attest(ctx context.Context, in *attestInput) (*api.Attestation, error) {
	n, err := a.node(ctx, in.Node)
	if err != nil {
		return nil, err
	}
	nodes := &turnoverrecords.Nodes{DB: a.c.DB, Signer: a.c.Trust, Now: a.c.Now}
	reason := strings.TrimSpace(taskcatalog.Clean(in.Body.Reason, 500))
	kept, err := nodes.Attest(ctx, callerOf(ctx).actor(), n,
		turnoverrecords.PersonStatement{Device: in.Body.Device, Method: in.Body.Method, Witness: in.Body.Witness, Reason: reason})
	if err != nil {
		if e := broker.AsError(err); e.Kind == broker.Refused || e.Kind == broker.Invalid || e.Kind == broker.NotFound {
			a.auditDenial(ctx, "certificate.attest", "node/"+n.ID, reason, e)
		}
		return nil, err
	}
	return attestationResource(kept), nil
}

type attestationInput struct {
	Attestation string `path:"attestation" maxLength:"128"`
}

func (a *API) showAttestation(ctx context.Context, in *attestationInput) (*api.Attestation, error) {
	kept, err := a.c.DB.Attestation(ctx, in.Attestation)
	if err == nil && !callerOf(ctx).MaySee(kept.Site) {
		err = broker.Errorf(broker.NotFound, "certificate_not_found", "there is no attestation %q", taskcatalog.Clean(in.Attestation, 128))
	}
	if err != nil {
		return nil, err
	}
	return attestationResource(kept), nil
}

func attestationResource(a store.Attestation) *api.Attestation {
	return &api.Attestation{
		AttestationID: a.ID, NodeID: a.NodeID, Site: a.Site, Kind: string(a.Kind), Device: a.DeviceID, Digest: a.Digest,
		IssuedAt: a.IssuedAt, File: string(a.File),
	}
}
