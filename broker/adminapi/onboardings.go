package adminapi

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/chain"
	"github.com/hostler/hostler/broker/onboarding"
	"github.com/hostler/hostler/broker/store"
	"github.com/hostler/hostler/taskcatalog"
)

type startOnboardingInput struct {
	RequestKey
	Body api.OnboardingStart
}

// startOnboarding begins a run for one machine. If a live run holds the hostname or the BMC, the
// refusal names that run.
func (a *API) startOnboarding(ctx context.Context, in *startOnboardingInput) (*api.Onboarding, error) {
	b := in.Body
	return a.beginOnboarding(ctx, order{in.Body, in.IdempotencyKey, "/onboardings", a.refusedAt(b.SiteID, b.Reason)},
		func() (orders, error) {
			return a.orders(ctx, b.SiteID, b.ProfileID, b.SKUID, b.Reason, []api.OnboardingMachine{b.OnboardingMachine})
		})
}

// beginOnboarding starts the run of an order, or returns the run of an earlier request.
func (a *API) beginOnboarding(ctx context.Context, o order, check func() (orders, error)) (*api.Onboarding, error) {
	r, err := a.beginOne(ctx, o, onboardingKinds, func() (chain.Start, error) {
		all, err := check()
		if err != nil {
			return chain.Start{}, err
		}
		return all.starts[0], nil
	})
	if err != nil {
		return nil, err
	}
	out := onboardingResource(r)
	return &out, nil
}

// beginOnboardings starts all runs of an order, or returns the runs of an earlier request.
func (a *API) beginOnboardings(
	ctx context.Context, o order, kind string, check func() (orders, error),
) (*api.OnboardingBatchStarted, error) {
	id, runs, err := a.beginBatch(ctx, o, onboardingKinds, func() (chain.Batch, []chain.Start, error) {
		all, err := check()
		return chain.Batch{
			Kind: kind, Site: all.site.Name, Parallel: all.profile.Policy.BatchMaxParallel,
			StopAfter: all.profile.Policy.BatchStopAfterFailures,
		}, all.starts, err
	})
	if err != nil {
		return nil, err
	}
	out := &api.OnboardingBatchStarted{BatchID: id, Onboardings: make([]api.OnboardingBatchRun, len(runs))}
	for i, r := range runs {
		out.Onboardings[i] = api.OnboardingBatchRun{Hostname: r.Subject, OnboardingID: r.ID}
	}
	return out, nil
}

type startBatchInput struct {
	RequestKey
	Body api.OnboardingBatch
}

// startBatch begins runs for all machines of a list, or for none.
func (a *API) startBatch(ctx context.Context, in *startBatchInput) (*api.OnboardingBatchStarted, error) {
	b := in.Body
	return a.beginOnboardings(ctx, order{b, in.IdempotencyKey, "/onboardings/batch", a.refusedAt(b.SiteID, b.Reason)}, onboarding.Kind,
		func() (orders, error) {
			return a.orders(ctx, b.SiteID, b.ProfileID, b.SKUID, b.Reason, b.Nodes)
		})
}

type planOnboardingInput struct{ Body api.OnboardingBatch }

// planOnboarding says what a batch or a single run would do. A plan begins nothing.
func (a *API) planOnboarding(ctx context.Context, in *planOnboardingInput) (*api.OnboardingPlan, error) {
	b := in.Body
	o, err := a.orders(ctx, b.SiteID, b.ProfileID, b.SKUID, b.Reason, b.Nodes)
	if err != nil {
		return nil, err
	}
	out, err := planned(a.c.Onboarding.Onboarding(), o)
	if err != nil {
		return nil, err
	}
	out.SKUID = b.SKUID
	for _, s := range o.states {
		out.Nodes = append(out.Nodes, api.OnboardingMachine{
			Hostname: s.Hostname, IPMIIP: s.IPMIIP, PXEMAC: s.PXEMAC, Place: api.Place(s.Place),
		})
	}
	return out, nil
}

// planned is the plan of a chain for the first machine of an order.
func planned(c chain.Chain[onboarding.Onboarding], o orders) (*api.OnboardingPlan, error) {
	plan, err := chain.Plan(c, o.states[0])
	if err != nil {
		return nil, err
	}
	out := &api.OnboardingPlan{
		Site: o.site.Name, Profile: o.profile.Name, Parallel: o.profile.Policy.BatchMaxParallel,
		Stages: make([]api.PlannedStage, len(plan)),
	}
	for i, p := range plan {
		out.Stages[i] = plannedResource(p)
		if p.Rescues == "" {
			out.ExpectedSeconds += int64(p.Expected / time.Second)
		}
	}
	return out, nil
}

// orders are runs to start, all at one site.
type orders struct {
	site    broker.Site
	profile broker.Profile
	states  []onboarding.Onboarding
	starts  []chain.Start
}

// orders checks the given machines. Codes: those of onboarding.New, site_not_found,
// profile_not_found, sku_not_found, hostname_taken.
func (a *API) orders(ctx context.Context, site, profile, sku, reason string, machines []api.OnboardingMachine) (o orders, err error) {
	if err := a.where(ctx, &o, site, profile); err != nil {
		return o, err
	}
	k, err := a.c.DB.SKU(ctx, sku)
	if err != nil {
		return o, err
	}
	for _, m := range machines {
		s, locks, err := onboarding.New(o.site, o.profile, k, onboarding.Request{
			Hostname: m.Hostname, IPMIIP: m.IPMIIP, PXEMAC: m.PXEMAC, Place: broker.NodePlace(m.Place),
		})
		if err != nil {
			return o, err
		}
		if err := a.hostnameFree(ctx, s); err != nil {
			return o, err
		}
		if other, twice := o.add(callerOf(ctx), chain.Start{
			Kind: onboarding.Kind, Subject: s.Hostname, State: s, Locks: locks,
			Reason: reason,
		}, s); twice {
			return o, broker.Errorf(broker.Invalid, "onboarding_invalid",
				"cannot onboard: %s and %s have the same hostname or the same BMC", other, s.Hostname)
		}
	}
	return o, nil
}

// where finds the site and the profile of an order.
func (a *API) where(ctx context.Context, o *orders, site, profile string) (err error) {
	if o.site, err = a.site(ctx, site); err != nil {
		return err
	}
	o.profile, err = a.c.DB.Profile(ctx, o.site.ID, cmp.Or(profile, o.site.DefaultProfileID))
	return err
}

// add adds a run to an order, unless another run of the order holds one of its locks.
func (o *orders) add(who caller, s chain.Start, state onboarding.Onboarding) (other string, twice bool) {
	if other, twice := lockConflict(o.starts, s); twice {
		return other, true
	}
	s.Site, s.RequestedBy, s.Role, s.CorrelationID = o.site.Name, who.Name, string(who.Role), who.correlationID
	s.Reason = taskcatalog.Clean(s.Reason, 500)
	o.states, o.starts = append(o.states, state), append(o.starts, s)
	return "", false
}

// lockConflict finds the run in starts that holds a lock of s.
func lockConflict(starts []chain.Start, s chain.Start) (other string, twice bool) {
	for _, before := range starts {
		if slices.ContainsFunc(s.Locks, func(l string) bool { return slices.Contains(before.Locks, l) }) {
			return before.Subject, true
		}
	}
	return "", false
}

// hostnameFree refuses at once what a run would find out after commissioning. A hostname held by a
// live run is left to the engine, because the engine's refusal names the run.
func (a *API) hostnameFree(ctx context.Context, s onboarding.Onboarding) error {
	there, _, err := a.c.DB.ListNodes(ctx, store.NodeFilter{Sites: []string{s.Site}, Hostname: s.Hostname, Limit: 1})
	if err != nil {
		return err
	}
	if len(there) == 0 {
		return a.checkHostnameScope(ctx, s.Site, s.Hostname)
	}
	live, _, err := a.runsOf(ctx, onboardingKinds, chain.Filter{Site: s.Site, Statuses: liveStatuses}, withHostname(s.Hostname), 1)
	if err != nil || len(live) > 0 {
		return err
	}
	return broker.Errorf(broker.Refused, "hostname_taken",
		"cannot use hostname %s: node %s has that hostname and is %s (remove that node first, or choose another hostname)", s.Hostname,
		there[0].ID, there[0].Status)
}

// runError turns a refusal of the engine into an error for the caller.
func runError(err error) error {
	if l, ok := errors.AsType[*chain.Locked](err); ok {
		t := l.Taken[0]
		what, which, _ := strings.Cut(t.Lock, "/")
		if what == "node" || what == "agent" {
			return broker.Errorf(broker.Refused, "node_in_run",
				"cannot begin: run %s holds node %s (wait until the run ends, or cancel the run)", t.Run, which)
		}
		return broker.Errorf(broker.Refused, "onboarding_running", "cannot begin: run %s uses the %s %s (hostler onboarding show %s)",
			t.Run, what, t.Lock[strings.LastIndexByte(t.Lock, '/')+1:], t.Run)
	}
	if r, ok := errors.AsType[*chain.Refused](err); ok {
		kind := broker.Refused
		if strings.HasSuffix(r.Code, "_not_found") {
			kind = broker.NotFound
		}
		return broker.Errorf(kind, r.Code, "%s", r.Message)
	}
	if errors.Is(err, chain.ErrLost) {
		return broker.Errorf(broker.Refused, "run_moving", "the run moved to another stage meanwhile (check the run, then try again)")
	}
	return err
}
