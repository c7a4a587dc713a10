package adminapi

import (
	"context"
	"encoding/json"
	"slices"
	"strings"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/certificate"
	"github.com/hostler/hostler/broker/chain"
	"github.com/hostler/hostler/broker/store"
	"github.com/hostler/hostler/broker/turnover"
	"github.com/hostler/hostler/taskcatalog"
)

type acceptDowngradeInput struct {
	DecommissionInput
	Body api.DowngradeAccept
}

// acceptDowngrade records an operator's acceptance of a downgrade that the run's last certificate
// names. The run's next certificate carries the acceptance.
func (a *API) acceptDowngrade(ctx context.Context, in *acceptDowngradeInput) (*api.DowngradeAccepted, error) {
	r, err := a.run(ctx, turnoverKinds, in.Decommission)
	if err != nil {
		return nil, err
	}
	const action = "certificate.accept_downgrade"
	reason, err := a.reasonFor(ctx, in.Body.Reason, action, "run/"+r.ID, "accept a downgrade in run "+r.ID)
	if err != nil {
		return nil, err
	}
	d, seen, err := a.downgradeOf(ctx, r, in.Body.Device)
	if err == nil {
		var kept store.AcceptedDowngrade
		kept, err = a.c.DB.AcceptDowngrade(ctx, callerOf(ctx).actor(), store.AcceptedDowngrade{
			RunID: r.ID, NodeID: nodeOf(r), CertificateID: seen, Device: d.Device, Asked: string(d.Asked), Did: string(d.Did),
			Reason: reason,
		})
		if err == nil {
			return &api.DowngradeAccepted{
				DecommissionID: kept.RunID, NodeID: kept.NodeID, CertificateID: kept.CertificateID, Device: kept.Device, Asked: kept.Asked,
				Did:        kept.Did,
				AcceptedBy: kept.By, Reason: kept.Reason, AcceptedAt: kept.At,
			}, nil
		}
	}
	if e := broker.AsError(err); e.Kind == broker.Refused || e.Kind == broker.NotFound {
		a.auditDenial(ctx, action, "run/"+r.ID, reason, e)
	}
	return nil, err
}

// downgradeOf finds a device's downgrade on the last certificate of a run. Codes:
// certificate_missing, and the codes of downgradeNamed.
func (a *API) downgradeOf(ctx context.Context, r chain.Record, device string) (d certificate.Downgrade, seen string, err error) {
	var s turnover.Turnover
	_ = json.Unmarshal(r.State, &s) // a state of another version has no certificate
	if s.Issued == "" {
		return d, "", broker.Errorf(broker.Refused, "certificate_missing",
			"cannot accept a downgrade in run %s: the run has no certificate yet, which would list the downgrades", r.ID)
	}
	c, err := a.certificate(ctx, s.Issued)
	if err != nil {
		return d, "", err
	}
	bundle, _ := a.c.Trust.Bundle()
	report, err := certificate.Verify(c.File, bundle, a.c.Now())
	if err != nil {
		return d, "", broker.Errorf(broker.Refused, "certificate_unbelievable",
			"cannot accept a downgrade in run %s: the stored certificate %s does not verify: %v", r.ID, c.ID, err)
	}
	d, err = downgradeNamed(report.Clean.Downgrades, c.ID, device)
	return d, c.ID, err
}

// downgradeNamed finds the device's downgrade that nobody has accepted. Codes: downgrade_unknown,
// downgrade_accepted.
func downgradeNamed(all []certificate.Downgrade, id, device string) (certificate.Downgrade, error) {
	device = strings.TrimSpace(device)
	var names []string
	accepted := false
	for _, d := range all {
		switch same := strings.EqualFold(d.Device, device); {
		case same && d.AcceptedBy == "":
			return d, nil
		case same:
			accepted = true
		case d.AcceptedBy == "" && !slices.Contains(names, d.Device):
			names = append(names, d.Device)
		}
	}
	shown, none := taskcatalog.Clean(device, 128), certificate.Downgrade{}
	switch {
	case accepted:
		return none, broker.Errorf(broker.Refused, "downgrade_accepted",
			"cannot accept a downgrade of %q: the downgrade is already accepted in certificate %s", shown, id)
	case len(names) == 0:
		return none, broker.Errorf(broker.NotFound, "downgrade_unknown",
			"cannot accept a downgrade of %q: certificate %s lists no downgrade that is not accepted yet", shown, id)
	}
	return none, broker.Errorf(broker.NotFound, "downgrade_unknown",
		"cannot accept a downgrade of %q: certificate %s lists downgrades of %s", shown, id,
		taskcatalog.Clean(strings.Join(names[:min(len(names), mostNamed)], ", "), 1000))
}
