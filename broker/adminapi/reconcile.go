package adminapi

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/reconcile"
	"github.com/hostler/hostler/broker/store"
	"github.com/hostler/hostler/taskcatalog"
)

const (
	lookWait  = 25 * time.Second // how long a request waits for its look
	lookAgain = 200 * time.Millisecond
	recently  = 7 * 24 * time.Hour // how long a resolved drift is listed
)

type reconciliationInput struct {
	Site string `query:"site" maxLength:"63"`
}

func (a *API) reconciliationStatus(ctx context.Context, in *reconciliationInput) (*api.ReconciliationStatus, error) {
	sites, err := visibleSites(callerOf(ctx), in.Site)
	if err != nil {
		return nil, err
	}
	all, err := a.c.DB.Sites(ctx, sites)
	if err != nil {
		return nil, err
	}
	out := &api.ReconciliationStatus{Sites: []api.SiteReconciliation{}}
	if len(all) == 0 {
		return out, nil
	}
	out.Sites, err = a.reconciliations(ctx, all)
	return out, err
}

// reconciliations returns the last looks at these sites.
func (a *API) reconciliations(ctx context.Context, sites []broker.Site) ([]api.SiteReconciliation, error) {
	looks, err := a.c.DB.ReconcileLooks(ctx, nil)
	if err != nil {
		return nil, err
	}
	bound, drifted, err := a.c.DB.BoundNodes(ctx)
	if err != nil {
		return nil, err
	}
	out := make([]api.SiteReconciliation, len(sites))
	for i, s := range sites {
		var l store.ReconcileLook
		if at := slices.IndexFunc(looks, func(l store.ReconcileLook) bool { return l.Site == s.Name }); at >= 0 {
			l = looks[at]
		}
		r := api.SiteReconciliation{
			Site: s.Name, SiteID: s.ID, Status: string(s.Status), Nodes: int64(bound[s.Name]), Drifted: int64(drifted[s.Name]),
			InHand:   l.Skipped,
			Machines: l.Machines, Unmanaged: l.Unmanaged, RequestedAt: l.RequestedAt, LookedAt: l.LookedAt, CompleteAt: l.Complete,
			Trouble: l.Trouble,
		}
		r.Unreconciled = l.Unknown + max(0, r.Nodes-l.Nodes)
		if l.Complete.IsZero() {
			r.Unreconciled = r.Nodes
		}
		r.OK = max(0, r.Nodes-r.Drifted-r.InHand-r.Unreconciled)
		for _, st := range l.Stops {
			r.Stops = append(r.Stops, api.ReconciliationStop{Code: st.Code, Text: st.Text, Since: st.Since})
		}
		out[i] = r
	}
	return out, nil
}

type driftInput struct {
	Site     string `query:"site" maxLength:"63"`
	Rule     string `query:"rule" maxLength:"64"`
	Severity string `query:"severity" maxLength:"16"`
	Resolved bool   `query:"resolved" doc:"list drifts that were resolved in the last week, instead of open drifts"`
	Cursor   string `query:"cursor" maxLength:"64"`
	Limit    int    `query:"limit" minimum:"0" maximum:"1000"`
}

func (a *API) listDrift(ctx context.Context, in *driftInput) (*api.DriftList, error) {
	sites, err := visibleSites(callerOf(ctx), in.Site)
	if err != nil {
		return nil, err
	}
	if _, known := reconcile.RuleOf(in.Rule); in.Rule != "" && !known {
		return nil, broker.Errorf(broker.Invalid, "rule_unknown", "there is no rule %q (see hostler site reconcile show SITE)",
			taskcatalog.Clean(in.Rule, 64))
	}
	page, next, err := a.c.DB.Drifts(ctx, store.DriftFilter{
		Sites: sites, Rule: in.Rule, Severity: in.Severity, Resolved: in.Resolved, Since: a.c.DB.Now().Add(-recently), After: in.Cursor,
		Limit: pageLimit(in.Limit),
	})
	if err != nil {
		return nil, err
	}
	out := &api.DriftList{Items: []api.Drift{}, Next: next}
	policies := map[string]reconcile.Policy{}
	for _, d := range page {
		r, err := a.driftResource(ctx, d, policies)
		if err != nil {
			return nil, err
		}
		out.Items = append(out.Items, r)
	}
	return out, nil
}

// driftResource is the read model of a drift; policies caches the policies of sites already read.
func (a *API) driftResource(ctx context.Context, d store.DriftedNode, policies map[string]reconcile.Policy) (api.Drift, error) {
	p, read := policies[d.Site]
	if !read {
		raw, err := a.c.DB.ReconcilePolicy(ctx, d.Site)
		if err != nil {
			return api.Drift{}, err
		}
		if p, err = reconcile.PolicyOf(raw); err != nil {
			return api.Drift{}, err
		}
		policies[d.Site] = p
	}
	r, _ := reconcile.RuleOf(d.Rule) // a rule of another version yields less
	out := api.Drift{
		NodeID: d.NodeID, Hostname: d.Hostname, Site: d.Site, SiteID: d.SiteID, MAASSystemID: d.SystemID, NodeStatus: string(d.NodeStatus),
		Rule: d.Rule, Severity: d.Severity, Alert: string(r.Alert), Text: r.Text, Action: string(r.Action), Mode: string(p.Mode(d.Rule)),
		FirstSeen: d.FirstSeen, ActedAt: d.ActedAt, Acts: d.Acts, Work: d.Work,
		LastMAASStatus: d.Status, LastMAASPowerState: d.Power, LastMAASIPs: d.IPs, Host: d.Host, LastReconciledAt: d.ReconciledAt,
		Open: d.Drift, ResolvedAt: d.ResolvedAt, ResolvedBy: d.ResolvedBy, Resolution: d.Resolution,
	}
	_ = json.Unmarshal(d.Details, &out.Details)
	if d.Rule == store.RulePreviousSystem { // found through its certificate, not by a look at MAAS
		var shown struct {
			Remote string `json:"remote"`
		}
		_ = json.Unmarshal(d.Details, &shown)
		out.Alert, out.Text = d.Severity,
			"the previous OS is still running: a certificate from before MAAS took the machine back was used from "+shown.Remote
	}
	if r.Action == reconcile.Decommission && p.Mode(d.Rule) == reconcile.Act && d.Drift && d.Acts == 0 {
		out.ActsAfter = d.FirstSeen.Add(p.Grace())
	}
	return out, nil
}

type resolveDriftInput struct {
	NodeInput
	Body api.ReasonBody
}

// resolveDrift records a person's statement that a drift is dealt with. A drift that persists is
// found again.
func (a *API) resolveDrift(ctx context.Context, in *resolveDriftInput) (*api.Drift, error) {
	n, err := a.node(ctx, in.Node)
	if err != nil {
		return nil, err
	}
	reason := strings.TrimSpace(taskcatalog.Clean(in.Body.Reason, 500))
	if reason == "" {
		return nil, broker.Errorf(broker.Invalid, "reason_missing",
			"cannot resolve the drift of node %s without a reason, which is recorded (--reason R)", n.ID)
	}
	s, err := a.c.DB.ResolveDrift(ctx, callerOf(ctx).actor(), n.ID, reason)
	if err != nil {
		return nil, err
	}
	out, err := a.driftResource(ctx, store.DriftedNode{MAASState: s, Hostname: n.Hostname, Site: n.Site, NodeStatus: n.Status},
		map[string]reconcile.Policy{})
	return &out, err
}

type runReconciliationInput struct {
	Site string `query:"site" required:"true" minLength:"1" maxLength:"63" doc:"the site's id or name"`
	Plan bool   `query:"plan" doc:"only show what the reconciliation would do"`
}

// runReconciliation makes the leading broker look at a site now, and waits for the result.
func (a *API) runReconciliation(ctx context.Context, in *runReconciliationInput) (*api.ReconciliationRun, error) {
	site, err := a.site(ctx, in.Site)
	switch {
	case err != nil:
		return nil, err
	case site.Status != broker.SiteActive:
		return nil, broker.Errorf(broker.Refused, "site_disabled", "cannot reconcile site %s: the site is %s (hostler site enable %s)",
			site.Name, site.Status, site.Name)
	case site.APITokenSetAt.IsZero():
		return nil, broker.Errorf(broker.Refused, "site_credentials_missing",
			"cannot reconcile site %s: the site has no MAAS token (hostler site credentials %s --maas-token-file FILE)", site.Name,
			site.Name)
	}
	out := &api.ReconciliationRun{}
	if in.Plan {
		plan, look, err := (&reconcile.Watch{DB: a.c.DB, Regions: a.c.Sites, Now: a.c.Now}).Plan(ctx, site)
		if err != nil {
			return nil, err
		}
		out.Looked, out.Plan = true, planResources(plan)
		if err := a.lookedAt(ctx, site, out); err != nil {
			return nil, err
		}
		out.Machines, out.Unmanaged = look.Machines, look.Unmanaged
		return out, nil
	}
	asked, err := a.c.DB.RequestLook(ctx, callerOf(ctx).actor(), site.Name)
	if err != nil {
		return nil, err
	}
	end := time.NewTimer(lookWait)
	defer end.Stop()
	tick := time.NewTicker(lookAgain)
	defer tick.Stop()
	for {
		if err := a.lookedAt(ctx, site, out); err != nil {
			return nil, err
		}
		if out.Looked = !out.LookedAt.Before(asked); out.Looked {
			return out, nil
		}
		select {
		case <-tick.C:
		case <-end.C:
			return out, nil
		case <-a.leaving:
			return out, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

func (a *API) lookedAt(ctx context.Context, site broker.Site, out *api.ReconciliationRun) error {
	all, err := a.reconciliations(ctx, []broker.Site{site})
	if err == nil {
		out.SiteReconciliation = all[0]
	}
	return err
}

func planResources(plan []reconcile.Planned) []api.PlannedDrift {
	out := []api.PlannedDrift{}
	for _, p := range plan {
		out = append(out, api.PlannedDrift{
			NodeID: p.NodeID, Hostname: p.Hostname, NodeStatus: string(p.NodeStatus), MAASStatus: p.MAASStatus, Rule: p.ID,
			Severity: string(p.Severity),
			Action:   string(p.Action), Mode: string(p.Mode), Text: p.Says, Acts: p.Acts, ActsAfter: p.After, StoppedBy: p.StoppedBy,
		})
	}
	return out
}

func (a *API) showReconcilePolicy(ctx context.Context, in *SiteInput) (*api.SiteReconcilePolicy, error) {
	s, err := a.site(ctx, in.Site)
	if err != nil {
		return nil, err
	}
	raw, err := a.c.DB.ReconcilePolicy(ctx, s.Name)
	if err != nil {
		return nil, err
	}
	return reconcilePolicyResource(s.Name, raw)
}

func reconcilePolicyResource(site string, raw json.RawMessage) (*api.SiteReconcilePolicy, error) {
	p, err := reconcile.PolicyOf(raw)
	if err != nil {
		return nil, err
	}
	out := &api.SiteReconcilePolicy{
		Site: site, MaxSharePercent: p.MaxSharePercent, AtLeast: p.AtLeast, ConfirmSeconds: p.ConfirmSeconds,
		RetiredGraceSeconds: p.RetiredGraceSeconds, DecommissionsAtOnce: p.DecommissionsAtOnce,
	}
	for _, r := range reconcile.Rules {
		row := api.ReconcileRule{
			Rule: r.ID, MAAS: r.MAAS, Nodes: []string{}, Severity: string(r.Severity), Action: string(r.Action), Alert: string(r.Alert),
			Text: r.Text,
			Mode: string(p.Mode(r.ID)), Default: string(r.Default),
		}
		for _, s := range r.Nodes {
			row.Nodes = append(row.Nodes, string(s))
		}
		out.Rules = append(out.Rules, row)
	}
	return out, nil
}

type setReconcilePolicyInput struct {
	SiteInput
	Body api.SiteReconcilePolicyPut
}

func (a *API) setReconcilePolicy(ctx context.Context, in *setReconcilePolicyInput) (*api.SiteReconcilePolicy, error) {
	s, err := a.site(ctx, in.Site)
	if err != nil {
		return nil, err
	}
	reason := strings.TrimSpace(taskcatalog.Clean(in.Body.Reason, 500))
	if reason == "" {
		return nil, broker.Errorf(broker.Invalid, "reason_missing",
			"cannot change the reconcile policy without a reason, which is recorded (--reason R)")
	}
	raw, err := a.c.DB.ChangeReconcilePolicy(ctx, callerOf(ctx).actor(), s.Name, reason,
		func(before json.RawMessage) (json.RawMessage, error) {
			p, err := reconcile.PolicyOf(before)
			if err != nil {
				return nil, err
			}
			put := in.Body
			for rule, mode := range put.Modes {
				if p.Modes == nil {
					p.Modes = map[string]reconcile.Mode{}
				}
				p.Modes[rule] = reconcile.Mode(mode)
			}
			for _, f := range []struct {
				into *int
				from *int
			}{
				{&p.MaxSharePercent, put.MaxSharePercent},
				{&p.AtLeast, put.AtLeast},
				{&p.ConfirmSeconds, put.ConfirmSeconds},
				{&p.RetiredGraceSeconds, put.RetiredGraceSeconds},
				{&p.DecommissionsAtOnce, put.DecommissionsAtOnce},
			} {
				*f.into = *cmp.Or(f.from, f.into)
			}
			if err := p.Check(); err != nil {
				return nil, err
			}
			return taskcatalog.Encode(p)
		})
	if err != nil {
		return nil, err
	}
	return reconcilePolicyResource(s.Name, raw)
}
