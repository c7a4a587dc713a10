package records

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/chain"
	"github.com/hostler/hostler/broker/onboarding"
	"github.com/hostler/hostler/broker/store"
	"github.com/hostler/hostler/broker/turnover"
)

// Starts begins turnovers.
type Starts struct {
	DB   *store.DB
	Runs *chain.Engine
}

// Requester is the requester of a turnover.
type Requester struct{ Name, Role, CorrelationID string }

// Place is the node's site with the policy of a profile of its site; empty: the site's default. A
// node without a MAAS site has the default policy. Codes: site_not_found, profile_not_found,
// sku_not_found.
func (s *Starts) Place(ctx context.Context, n broker.Node, profile string) (at turnover.Place, err error) {
	at.Policy = broker.DefaultPolicy()
	if n.Site == "" && profile == "" {
		return at, nil
	}
	site, err := s.DB.Site(ctx, n.Site)
	if err != nil && broker.AsError(err).Kind == broker.NotFound && profile == "" {
		return at, nil
	}
	if err != nil {
		return at, err
	}
	if profile == "" {
		profile = site.DefaultProfileID
	}
	if at.Profile, err = s.DB.Profile(ctx, site.ID, profile); err != nil {
		return at, err
	}
	at.Site, at.Policy = site, site.PolicyOf(at.Profile)
	if n.SKU != "" {
		if at.SKU, err = s.DB.SKU(ctx, n.SKU); err != nil {
			return at, err
		}
	}
	at.Adopted, err = s.adopted(ctx, n)
	return at, err
}

// adopted reports whether an adoption run bound the node to a machine that somebody else had
// deployed. A machine's id written on the record by a person does not count as an adoption.
func (s *Starts) adopted(ctx context.Context, n broker.Node) (bool, error) {
	id, err := s.DB.MadeByRun(ctx, n.ID)
	if err != nil || id == "" {
		return false, err
	}
	r, err := s.DB.Run(ctx, id)
	return r.Kind == onboarding.AdoptionKind, err
}

// NewStart is the start of a run, with all facts known.
func NewStart(n broker.Node, t turnover.Turnover, locks []string, by Requester) chain.Start {
	return chain.Start{
		Kind: t.Mode.Kind(), Site: cmp.Or(t.Site, broker.NoSite), Subject: n.Hostname, State: t, Locks: locks,
		RequestedBy: by.Name, Role: by.Role, Reason: t.Reason, CorrelationID: by.CorrelationID,
	}
}

// Start implements reconcile.Decommissioner: the node leaves the fleet, and its machine is given
// back. No allocation is ended for that: the run takes the node only in the judged state and
// without live allocations. The first stage checks the status and the allocations again in the
// transaction that takes the node. Codes: node_moved, allocation_live.
func (s *Starts) Start(ctx context.Context, judged broker.Node, id, reason string) (runID string, err error) {
	n, err := s.DB.Node(ctx, judged.ID)
	switch {
	case err != nil:
		return "", err
	case n.Status != judged.Status || n.Epoch != judged.Epoch || n.MAASSystemID != judged.MAASSystemID || n.Site != judged.Site ||
		n.TurnoverOwed:
		return "", broker.Errorf(broker.Refused, "node_moved",
			"cannot take node %s out of the fleet: the node was %s, and is now %s (the next check judges it again)", n.ID, judged.Status,
			n.Status)
	}
	all, err := s.DB.SettledOccupants(ctx, n.ID)
	if err != nil {
		return "", err
	}
	if err := broker.OccupantsLive(n, slices.DeleteFunc(all, func(a broker.Occupant) bool { return !a.Live() })); err != nil {
		return "", err
	}
	at, err := s.Place(ctx, n, "")
	if err != nil {
		return "", err
	}
	t, locks, err := turnover.New(n, at, turnover.Request{
		Mode: turnover.FullDecommission, Reason: reason, RequestedBy: broker.System.Name,
		From: judged.Status,
	})
	if err != nil {
		return "", err
	}
	start := NewStart(n, t, locks, Requester{Name: broker.System.Name})
	start.ID = id
	_, err = s.Runs.Start(ctx, start)
	return id, ignoreExists(err)
}

// ignoreExists ignores the refusal of a run that was begun before with a lost answer.
func ignoreExists(err error) error {
	if no, refused := errors.AsType[*chain.Refused](err); refused && no.Code == "run_exists" {
		return nil
	}
	return err
}
