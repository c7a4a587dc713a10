package adminapi

import (
	"context"
	"slices"
	"strings"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/chain"
	"github.com/hostler/hostler/broker/turnover"
	turnoverrecords "github.com/hostler/hostler/broker/turnover/records"
	"github.com/hostler/hostler/taskcatalog"
)

type startDecommissionInput struct {
	NodeInput
	RequestKey
	Body api.DecommissionStart
}

// startDecommission begins a turnover of a node.
func (a *API) startDecommission(ctx context.Context, in *startDecommissionInput) (*api.Decommission, error) {
	o := order{in.Body, in.IdempotencyKey, "/nodes/" + in.Node + "/decommission", nil}
	return a.turnOver(ctx, o, in.Node, in.Body.ProfileID, requestOf(in.Body))
}

func requestOf(b api.DecommissionStart) turnover.Request {
	return turnover.Request{
		Mode: turnover.Mode(b.Mode), StorageCleanup: b.StorageCleanup, Erase: b.Erase, Image: b.Image, ForceRelease: b.ForceRelease,
		Ends: b.ForceAllocations, RemoveRecord: b.RemoveMAASRecord, Reason: b.Reason,
	}
}

type startCleanupInput struct {
	NodeInput
	RequestKey
	Body api.StorageCleanupStart
}

// startStorageCleanup begins a run that empties and checks a node's storage.
func (a *API) startStorageCleanup(ctx context.Context, in *startCleanupInput) (*api.Decommission, error) {
	o := order{in.Body, in.IdempotencyKey, "/nodes/" + in.Node + "/storage-cleanup", nil}
	return a.turnOver(ctx, o, in.Node, in.Body.ProfileID, cleanupOf(in.Body))
}

func cleanupOf(b api.StorageCleanupStart) turnover.Request {
	return turnover.Request{
		Mode: turnover.StorageCleanup, StorageCleanup: b.Scope, ForceRelease: b.ForceRelease, Ends: b.ForceAllocations,
		Reason: b.Reason,
	}
}

func (a *API) turnOver(ctx context.Context, o order, ref, profile string, req turnover.Request) (*api.Decommission, error) {
	var t tenanted
	o.refused = func(ctx context.Context, err error) error {
		return a.refusedTurnover(ctx, []tenanted{t}, "node/"+t.node.ID, req.Reason, err)
	}
	r, err := a.beginOne(ctx, o, turnoverKinds, func() (s chain.Start, err error) {
		if t, err = a.turnoverOf(ctx, ref, profile, req); err != nil {
			return s, err
		}
		return t.start, checkVacant([]tenanted{t})
	})
	if err != nil {
		return nil, err
	}
	out := decommissionResource(r)
	return &out, nil
}

func (a *API) starts() *turnoverrecords.Starts {
	return &turnoverrecords.Starts{DB: a.c.DB, Runs: a.c.Runs}
}

// tenanted is a node to be turned over, with the planned run and the node's tenants.
type tenanted struct {
	node   broker.Node
	policy broker.Policy
	state  turnover.Turnover
	start  chain.Start
	live   []broker.Occupant
	past   *broker.Occupant // the node's last allocation; nil: there was none
	clean  bool             // certified clean since then
}

// turnoverOf works out the first state of a run, and the allocations on its node.
func (a *API) turnoverOf(ctx context.Context, ref, profile string, req turnover.Request) (t tenanted, err error) {
	if t.node, err = a.node(ctx, ref); err != nil {
		return t, err
	}
	at, err := a.starts().Place(ctx, t.node, profile)
	if err != nil {
		return t, err
	}
	who := callerOf(ctx)
	req.RequestedBy, req.Reason = who.Name, strings.TrimSpace(taskcatalog.Clean(req.Reason, 500))
	if t.live, err = a.c.DB.Occupants(ctx, t.node.ID); err != nil {
		return t, err
	}
	t.live = slices.DeleteFunc(t.live, func(l broker.Occupant) bool { return !l.Live() })
	req.Ends = allocationsToEnd(t.live, req)
	state, locks, err := turnover.New(t.node, at, req)
	if err != nil {
		return t, err
	}
	t.policy, t.state = at.Policy, state
	t.start = turnoverrecords.NewStart(t.node, state, locks,
		turnoverrecords.Requester{Name: who.Name, Role: string(who.Role), CorrelationID: who.correlationID})
	t.past, t.clean, err = a.c.DB.LastOccupant(ctx, t.node.ID)
	return t, err
}

// kept names the allocations on the node that the run may not end.
func (t tenanted) kept() (names []string) {
	for _, l := range t.live {
		if !slices.Contains(t.state.Ends, l.ID) {
			names = append(names, l.Describe())
		}
	}
	return names
}

// allocationsToEnd returns the live allocations of a node that a request may end: none without
// ForceRelease, else the allocations that the request names, or all if the request has no list.
func allocationsToEnd(live []broker.Occupant, req turnover.Request) (ends []string) {
	for _, l := range live {
		if req.ForceRelease && (req.Ends == nil || slices.Contains(req.Ends, l.ID)) {
			ends = append(ends, l.ID)
		}
	}
	return ends
}

// checkVacant refuses turnovers while a node has an allocation that the request may not end. The
// refusal names all such allocations. Code: allocation_live.
func checkVacant(all []tenanted) error {
	var taken []error
	for _, t := range all {
		if err := broker.OccupantsLive(t.node, t.live, t.state.Ends...); err != nil {
			taken = append(taken, err)
		}
	}
	switch len(taken) {
	case 0:
		return nil
	case 1:
		return taken[0]
	}
	return errTenantsOnNodes(all, len(taken))
}

// mostNamed is the number of nodes that a refusal names one by one, so that its text stays bounded.
const mostNamed = 25

func errTenantsOnNodes(all []tenanted, taken int) error {
	var names []string
	for _, t := range all {
		on := t.kept()
		if len(on) == 0 || len(names) == mostNamed {
			continue
		}
		names = append(names, "node "+t.node.ID+" ("+t.node.Hostname+"): allocation "+strings.Join(on, ", "))
	}
	more := ""
	if taken > len(names) {
		more = "; and more"
	}
	return broker.Errorf(broker.Refused, "allocation_live",
		"cannot turn over these nodes: tenants are on %d of them (end the allocations first, or use --force-release with a reason, which takes the nodes away from the tenants): %s%s", taken, strings.Join(names, "; "), more)
}

// refusedTurnover audits a refused turnover: one row for each node with a tenant, else one row for
// the subject.
func (a *API) refusedTurnover(ctx context.Context, all []tenanted, subject, reason string, err error) error {
	if e := broker.AsError(runError(err)); e.Code != "allocation_live" {
		return a.refusedStart(subject, reason)(ctx, err)
	}
	for _, t := range all {
		if taken := broker.OccupantsLive(t.node, t.live, t.state.Ends...); taken != nil {
			a.auditDenial(ctx, "turnover.refused", "node/"+t.node.ID, reason, broker.AsError(taken))
		}
	}
	return err
}
