package adminapi

import (
	"cmp"
	"context"
	"errors"
	"strings"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/chain"
	"github.com/hostler/hostler/broker/rollout"
	rolloutrecords "github.com/hostler/hostler/broker/rollout/records"
	"github.com/hostler/hostler/taskcatalog"
)

type startRolloutInput struct {
	RequestKey
	Body api.RolloutStart
}

// startRollout begins a rollout of a release to many nodes. Codes: those of rollout.New and of its
// release, selector_invalid, rollout_sites.
func (a *API) startRollout(ctx context.Context, in *startRolloutInput) (*api.Rollout, error) {
	b := in.Body
	o := order{b, in.IdempotencyKey, "/rollouts", a.refusedStart("release/"+taskcatalog.Clean(b.Release, 64), b.Reason)}
	r, err := a.beginOne(ctx, o, rolloutKinds, func() (chain.Start, error) { return a.rolloutOf(ctx, b) })
	if err != nil {
		return nil, err
	}
	return a.rolloutResource(ctx, r)
}

// rollouts are the records from which a rollout chooses its nodes.
func (a *API) rollouts() rolloutrecords.Nodes { return rolloutrecords.Nodes{Nodes: a.c.Agents} }

func (a *API) rolloutOf(ctx context.Context, b api.RolloutStart) (s chain.Start, err error) {
	who := callerOf(ctx)
	selector, err := a.selector(ctx, b.Selector)
	if err != nil {
		return s, err
	}
	release, err := a.rollouts().Release(ctx, b.Release, b.AllowRollback)
	if err != nil {
		return s, err
	}
	if b.SafetyPolicy == string(broker.Forced) || b.AllowRollback || b.Force {
		if err := a.requireRole(ctx, admin, "force a rollout of "+release.Version); err != nil {
			return s, err
		}
	}
	all, err := a.rollouts().Candidates(ctx, selector, who.sites())
	if err != nil {
		return s, err
	}
	req := rollout.Request{
		Release: release, Selector: taskcatalog.Clean(strings.TrimSpace(b.Selector), 4000),
		OnFailure: rollout.OnFailure(cmp.Or(b.OnFailure, string(rollout.Pause))),
		Safety:    broker.SafetyPolicy(cmp.Or(b.SafetyPolicy, string(broker.OnlyIdle))), AllowRollback: b.AllowRollback, Force: b.Force,
		Reason: taskcatalog.Clean(strings.TrimSpace(b.Reason), 500), RequestedBy: who.Name, Plan: planOf(b),
	}
	state, err := rollout.New(req, all)
	if err != nil {
		return s, err
	}
	site := siteOfMembers(state, all)
	if site == broker.NoSite && who.sites() != nil {
		return s, broker.Errorf(broker.Refused, "rollout_sites",
			"cannot roll %s out to nodes of several sites with a token of some sites (one rollout for each site: --nodes site=SITE)",
			release.Version)
	}
	return chain.Start{
		Kind: rollout.Kind, Site: site, Subject: release.Version, State: state,
		RequestedBy: who.Name, Role: string(who.Role), Reason: req.Reason, CorrelationID: who.correlationID,
	}, nil
}

func planOf(b api.RolloutStart) rollout.Plan {
	p := rollout.Plan{
		Canary: 1, Waves: b.Waves, WaveBy: taskcatalog.Clean(b.WaveBy, 100), Concurrency: cmp.Or(b.Concurrency, 10), SoakSeconds: 600,
		MaxFailures: cmp.Or(b.MaxFailures, 1),
	}
	if b.Canary != nil {
		p.Canary = *b.Canary
	}
	if b.SoakSeconds != nil {
		p.SoakSeconds = *b.SoakSeconds
	}
	if p.WaveBy == "" && len(p.Waves) == 0 {
		p.Waves = []int{10, 50, 100}
	}
	return p
}

// siteOfMembers is the site of a rollout; operators of that site see the rollout.
func siteOfMembers(s rollout.Rollout, all []rollout.Candidate) string {
	of := map[string]string{}
	for _, c := range all {
		of[c.Node.ID] = c.Node.Site
	}
	site := of[s.Members[0].NodeID]
	for _, m := range s.Members {
		if of[m.NodeID] != site {
			return broker.NoSite
		}
	}
	return cmp.Or(site, broker.NoSite)
}

type rolloutsInput struct {
	Site   string `query:"site" maxLength:"63"`
	Status string `query:"status" maxLength:"200" doc:"one or more statuses, separated by commas; live: all that have not ended; failed: both failed statuses"`
	Cursor string `query:"cursor" maxLength:"80"`
	Limit  int    `query:"limit" minimum:"0" maximum:"1000"`
}

func (a *API) listRollouts(ctx context.Context, in *rolloutsInput) (*api.RolloutList, error) {
	f := chain.Filter{Kind: rollout.Kind, Site: in.Site, After: in.Cursor}
	var err error
	if f.Statuses, err = runStatuses(in.Status); err != nil {
		return nil, err
	}
	if _, err := visibleSites(callerOf(ctx), in.Site); err != nil {
		return nil, err
	}
	page, next, err := a.runsOf(ctx, rolloutKinds, f, nil, pageLimit(in.Limit))
	if err != nil {
		return nil, err
	}
	out := &api.RolloutList{Items: []api.Rollout{}, Next: next}
	for _, r := range page {
		item, err := a.rolloutResource(ctx, r)
		if err != nil {
			return nil, err
		}
		out.Items = append(out.Items, *item)
	}
	return out, nil
}

// RolloutInput names a rollout.
type RolloutInput struct {
	Rollout string `path:"rollout" maxLength:"80"`
}

type showRolloutInput struct {
	RolloutInput
	Brief bool `query:"brief" doc:"leave out nodes and history"`
}

func (a *API) showRollout(ctx context.Context, in *showRolloutInput) (*api.RolloutDetail, error) {
	r, err := a.run(ctx, rolloutKinds, in.Rollout)
	if err != nil {
		return nil, err
	}
	s, err := rollout.Load(ctx, a.c.DB.RolloutMembers, r)
	if err != nil {
		return nil, err
	}
	out := &api.RolloutDetail{Rollout: *rolloutResource(ctx, r, s), Nodes: []api.RolloutMember{}, Events: []api.RunEvent{}}
	if in.Brief {
		return out, nil
	}
	if _, out.Events, err = a.history(ctx, r.ID); err != nil {
		return nil, err
	}
	out.Nodes = a.rolloutMembers(ctx, r, s)
	return out, nil
}

type rolloutActionInput struct {
	RolloutInput
	Action string `path:"action" enum:"pause,resume,abort"`
	Body   api.RolloutOrder
}

// actOnRollout pauses, resumes or aborts a rollout. Codes: rollout_aborting,
// rollout_stopping, those of a run's actions.
func (a *API) actOnRollout(ctx context.Context, in *rolloutActionInput) (*api.Rollout, error) {
	r, err := a.run(ctx, rolloutKinds, in.Rollout)
	if err != nil {
		return nil, err
	}
	o := chain.Order{
		ID: r.ID, Actor: a.orderedBy(ctx), Action: rolloutAction(in.Action, r),
		Reason: taskcatalog.Clean(strings.TrimSpace(in.Body.Reason), 500),
	}
	if in.Action != "resume" {
		if o.Reason, err = a.reasonFor(ctx, in.Body.Reason, "run."+string(o.Action), "run/"+r.ID, in.Action+" rollout "+r.ID); err != nil {
			return nil, err
		}
	}
	if o.Action == chain.Resume && in.Body.RetryFailed {
		if err := a.requireRole(ctx, admin, "have rollout "+r.ID+" retry failed nodes"); err != nil {
			return nil, err
		}
		o.Action = chain.Rerun
	}
	if s := rollout.Parse(r.State); in.Action == "resume" && (r.Asked == chain.AskMark || s.Stopping(r)) {
		return nil, broker.Errorf(broker.Refused, "rollout_stopping",
			"cannot resume rollout %s: the rollout stops when the nodes under way have ended (wait for this: hostler rollout watch %s; then resume the rollout)", r.ID, r.ID)
	}
	r, err = a.c.Runs.Act(ctx, o)
	if no, refused := errors.AsType[*chain.Refused](err); refused && no.Code == "run_compensating" {
		return nil, broker.Errorf(broker.Refused, "rollout_aborting",
			"cannot %s rollout %s: the rollout is being aborted: no further node begins, and the rollout ends when the nodes under way have ended (hostler rollout watch %s; if the abort failed: hostler rollout abort %s --reason R again)", in.Action, in.Rollout, in.Rollout, in.Rollout)
	}
	if err != nil {
		return nil, runError(err)
	}
	return a.rolloutResource(ctx, r)
}

// rolloutAction translates an operator's action into an action on the run. A failed abort can only
// be retried: the run has no way forward.
func rolloutAction(word string, r chain.Record) chain.Action {
	switch {
	case word == "pause":
		return chain.MarkManual
	case r.Direction == chain.Undo && r.Status.Stopped():
		return chain.RetryStage
	case word == "abort":
		return chain.Cancel
	}
	return chain.Resume
}
