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
	return turnover.Request{Mode: turnover.Mode(b.Mode), StorageCleanup: b.StorageCleanup, Erase: b.Erase, ForceRelease: b.ForceRelease, Ends: b.ForceAllocations, RemoveRecord: b.RemoveMAASRecord, Reason: b.Reason}
}

type startCleanupInput struct {
	NodeInput
	RequestKey
	Body api.StorageCleanupStart
}

// startStorageCleanup empties a node's storage and looks at it.
func (a *API) startStorageCleanup(ctx context.Context, in *startCleanupInput) (*api.Decommission, error) {
	o := order{in.Body, in.IdempotencyKey, "/nodes/" + in.Node + "/storage-cleanup", nil}
	return a.turnOver(ctx, o, in.Node, in.Body.ProfileID, cleanupOf(in.Body))
}

func cleanupOf(b api.StorageCleanupStart) turnover.Request {
	return turnover.Request{Mode: turnover.StorageCleanup, StorageCleanup: b.Scope, ForceRelease: b.ForceRelease, Ends: b.ForceAllocations, Reason: b.Reason}
}

func (a *API) turnOver(ctx context.Context, o order, ref, profile string, req turnover.Request) (*api.Decommission, error) {
	var t tenanted
	o.refused = func(ctx context.Context, err error) error {
		return a.refusedTurnover(ctx, []tenanted{t}, "node/"+t.node.ID, req.Reason, err)
	}
	r, err := a.beginOne(ctx, o, turnsOver, func() (s chain.Start, err error) {
		if t, err = a.turnoverOf(ctx, ref, profile, req); err != nil {
			return s, err
		}
		return t.start, vacant([]tenanted{t})
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

// tenanted is a node that is to be turned over, the run that would do it, and whose
// the node is.
type tenanted struct {
	node   broker.Node
	policy broker.Policy
	state  turnover.Turnover
	start  chain.Start
	live   []broker.Allocation
	past   *broker.Allocation // who was on it last; nil: nobody was
	clean  bool               // it was certified since
	serial string             // of its chassis
}

// turnoverOf works out the first state of a run, and who is on its node.
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
	if t.live, err = a.c.DB.Allocations(ctx, t.node.ID); err != nil {
		return t, err
	}
	t.live = slices.DeleteFunc(t.live, func(l broker.Allocation) bool { return !l.Live() })
	req.Ends = endsOf(t.live, req)
	state, locks, err := turnover.New(t.node, at, req)
	if err != nil {
		return t, err
	}
	t.policy, t.state = at.Policy, state
	t.start = turnoverrecords.Of(t.node, state, locks, turnoverrecords.By{Name: who.Name, Role: string(who.Role), CorrelationID: who.correlationID})
	if t.serial, err = a.chassis(ctx, t.node.ID); err != nil {
		return t, err
	}
	t.past, t.clean, err = a.c.DB.LastAllocation(ctx, t.node.ID)
	return t, err
}

// kept are those on the node that the run may not end, as people are told of them.
func (t tenanted) kept() (names []string) {
	for _, l := range t.live {
		if !slices.Contains(t.state.Ends, l.ID) {
			names = append(names, l.Named())
		}
	}
	return names
}

// endsOf are those of a node's live allocations that a request may end: of the ones
// that its caller was shown, or all of them where none is named.
func endsOf(live []broker.Allocation, req turnover.Request) (ends []string) {
	for _, l := range live {
		if req.ForceRelease && (req.Ends == nil || slices.Contains(req.Ends, l.ID)) {
			ends = append(ends, l.ID)
		}
	}
	return ends
}

// vacant refuses turnovers while somebody is on one of their nodes whom they may not
// end, by the names of all that are. Code: allocation_live.
func vacant(all []tenanted) error {
	var taken []error
	for _, t := range all {
		if err := broker.AllocationsLive(t.node, t.live, t.state.Ends...); err != nil {
			taken = append(taken, err)
		}
	}
	switch len(taken) {
	case 0:
		return nil
	case 1:
		return taken[0]
	}
	return crowded(all, len(taken))
}

// mostNamed are the nodes that a refusal names one by one; its text is bounded.
const mostNamed = 25

func crowded(all []tenanted, taken int) error {
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
	return broker.Errorf(broker.Refused, "allocation_live", "cannot turn over these nodes: tenants are on %d of them (end that first; or --force-release with a reason, which ends it for the tenants): %s%s", taken, strings.Join(names, "; "), more)
}

// refusedTurnover keeps who wanted to turn over nodes: one by one those that a tenant
// is on, else once, of the subject.
func (a *API) refusedTurnover(ctx context.Context, all []tenanted, subject, reason string, err error) error {
	if e := broker.AsError(runError(err)); e.Code != "allocation_live" {
		return a.refusedStart(subject, reason)(ctx, err)
	}
	for _, t := range all {
		if taken := broker.AllocationsLive(t.node, t.live, t.state.Ends...); taken != nil {
			a.auditNo(ctx, "turnover.refused", "node/"+t.node.ID, reason, broker.AsError(taken))
		}
	}
	return err
}
