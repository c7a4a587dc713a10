package adminapi

import (
	"context"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/chain"
	"github.com/hostler/hostler/broker/turnover"
)

type startDecommissionsInput struct {
	RequestKey
	Body api.DecommissionBatch
}

// startDecommissions begins a turnover of all nodes of a list, or of none.
func (a *API) startDecommissions(ctx context.Context, in *startDecommissionsInput) (*api.DecommissionBatchStarted, error) {
	req := requestOf(in.Body.DecommissionStart)
	var all []tenanted
	o := order{in.Body, in.IdempotencyKey, "/decommissions/batch", func(ctx context.Context, err error) error {
		subject := "site/"
		if len(all) > 0 {
			subject += all[0].start.Site
		}
		return a.refusedTurnover(ctx, all, subject, req.Reason, err)
	}}
	id, runs, err := a.beginBatch(ctx, o, turnoverKinds, func() (b chain.Batch, starts []chain.Start, err error) {
		if all, err = a.turnoversOf(ctx, in.Body, req); err != nil {
			return b, nil, err
		}
		for _, t := range all {
			starts = append(starts, t.start)
		}
		first := all[0]
		b = chain.Batch{
			Kind: first.start.Kind, Site: first.start.Site, Parallel: first.policy.BatchMaxParallel,
			StopAfter: first.policy.BatchStopAfterFailures,
		}
		return b, starts, checkVacant(all)
	})
	if err != nil {
		return nil, err
	}
	out := &api.DecommissionBatchStarted{BatchID: id, Decommissions: make([]api.DecommissionBatchRun, len(runs))}
	for i, r := range runs {
		out.Decommissions[i] = api.DecommissionBatchRun{NodeID: nodeOf(r), Hostname: r.Subject, DecommissionID: r.ID}
	}
	return out, nil
}

// turnoversOf works out the runs of a batch. Codes: those of turnover.New, and batch_sites.
func (a *API) turnoversOf(ctx context.Context, b api.DecommissionBatch, req turnover.Request) (all []tenanted, err error) {
	var starts []chain.Start
	for _, ref := range b.Nodes {
		t, err := a.turnoverOf(ctx, ref, b.ProfileID, req)
		if err != nil {
			return all, err
		}
		if len(all) > 0 && t.start.Site != starts[0].Site {
			return all, broker.Errorf(broker.Invalid, "batch_sites",
				"cannot turn over nodes of two sites in one batch: %s is at %s, and %s at %s (one batch for each site)", all[0].node.ID,
				siteName(starts[0].Site), t.node.ID, siteName(t.start.Site))
		}
		if other, twice := lockConflict(starts, t.start); twice {
			return all, broker.Errorf(broker.Invalid, "turnover_invalid",
				"cannot turn over %s and %s in one batch: both name the same node, or are bound to the same machine in MAAS", other,
				t.node.Hostname)
		}
		all, starts = append(all, t), append(starts, t.start)
	}
	return all, nil
}

func siteName(site string) string {
	if site = siteOf(site); site == "" {
		return "no site"
	}
	return site
}

// planDecommission says what a turnover would do, and to which tenants. A plan begins nothing.
func (a *API) planDecommission(ctx context.Context, in *startDecommissionInput) (*api.DecommissionPlan, error) {
	return a.planOne(ctx, in.Node, in.Body.ProfileID, requestOf(in.Body))
}

// planStorageCleanup is the same as planDecommission, for a storage cleanup.
func (a *API) planStorageCleanup(ctx context.Context, in *startCleanupInput) (*api.DecommissionPlan, error) {
	return a.planOne(ctx, in.Node, in.Body.ProfileID, cleanupOf(in.Body))
}

func (a *API) planOne(ctx context.Context, ref, profile string, req turnover.Request) (*api.DecommissionPlan, error) {
	t, err := a.turnoverOf(ctx, ref, profile, req)
	if err != nil {
		return nil, err
	}
	shown, err := a.nodeResources(ctx, t.node)
	if err != nil {
		return nil, err
	}
	out := &api.DecommissionPlan{
		NodeTenants: tenantsOf(t, shown[0]), Mode: string(t.state.Mode), Refused: refusalOf(checkVacant([]tenanted{t})),
	}
	out.Stages, out.ExpectedSeconds, err = stagesAhead(t)
	return out, err
}

type planDecommissionsInput struct{ Body api.DecommissionBatch }

// planDecommissions says what a batch would do, and to which tenants. A plan begins nothing.
func (a *API) planDecommissions(ctx context.Context, in *planDecommissionsInput) (*api.DecommissionBatchPlan, error) {
	req := requestOf(in.Body.DecommissionStart)
	all, err := a.turnoversOf(ctx, in.Body, req)
	if err != nil {
		return nil, err
	}
	first := all[0]
	out := &api.DecommissionBatchPlan{
		Refused: refusalOf(checkVacant(all)), Site: siteOf(first.start.Site), Mode: string(first.state.Mode),
		Parallel: first.policy.BatchMaxParallel, StopAfter: first.policy.BatchStopAfterFailures,
	}
	nodes := make([]broker.Node, len(all))
	for i, t := range all {
		nodes[i] = t.node
	}
	shown, err := a.nodeResources(ctx, nodes...)
	if err != nil {
		return nil, err
	}
	for i, t := range all {
		out.Nodes = append(out.Nodes, tenantsOf(t, shown[i]))
	}
	out.Stages, out.ExpectedSeconds, err = stagesAhead(first)
	return out, err
}

// refusalOf is the refusal that a start would get; nil: nothing stands in its way.
func refusalOf(err error) *api.Refusal {
	if err == nil {
		return nil
	}
	e := broker.AsError(err)
	return &api.Refusal{Code: e.Code, Detail: e.Message}
}

// stagesAhead lists the stages of a run and the time that they usually take together.
func stagesAhead(t tenanted) (stages []api.PlannedStage, seconds int64, err error) {
	list, _ := (&turnover.Chains{}).Of(t.state.Mode)
	plan, err := chain.Plan(list, t.state)
	for _, p := range plan {
		stages = append(stages, plannedResource(p))
		seconds += int64(p.Expected / time.Second)
	}
	return stages, seconds, err
}

func tenantsOf(t tenanted, node api.Node) api.NodeTenants {
	out := api.NodeTenants{Node: node, Live: []api.Occupant{}, LastCertified: t.clean}
	for _, l := range t.live {
		out.Live = append(out.Live, occupantResource(l))
	}
	if t.past != nil {
		last := occupantResource(*t.past)
		out.Last = &last
	}
	return out
}

func occupantResource(l broker.Occupant) api.Occupant {
	return api.Occupant{
		AllocationID: l.ID, Tenant: l.Tenant, Username: l.Username, HadRoot: l.HadRoot, Since: l.Since,
		EndedAt: l.EndedAt,
	}
}
