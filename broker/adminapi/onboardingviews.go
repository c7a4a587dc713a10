package adminapi

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/chain"
	"github.com/hostler/hostler/broker/onboarding"
	"github.com/hostler/hostler/taskcatalog"
)

// OnboardingInput names a run.
type OnboardingInput struct {
	Onboarding string `path:"onboarding" maxLength:"64"`
}

func (a *API) showOnboarding(ctx context.Context, in *OnboardingInput) (*api.OnboardingDetail, error) {
	r, err := a.run(ctx, bringsIn, in.Onboarding)
	if err != nil {
		return nil, err
	}
	events, told, err := a.history(ctx, r.ID)
	if err != nil {
		return nil, err
	}
	out := &api.OnboardingDetail{Onboarding: onboardingResource(r), Events: told}
	out.Stages, err = a.stages(r, events)
	return out, err
}

// stages returns the state of each stage of a run's chain. Stages ahead of the cursor, for example
// after a rerun, are pending, whatever their earlier results.
func (a *API) stages(r chain.Record, events []chain.Event) ([]api.OnboardingStage, error) {
	var state onboarding.Onboarding
	_ = json.Unmarshal(r.State, &state) // a state of another version is planned as empty
	list := a.c.Lifecycle.Onboarding()
	if r.Kind == onboarding.AdoptionKind {
		list = a.c.Lifecycle.Adoption()
	}
	plan, err := chain.Plan(list, state)
	if err != nil {
		return nil, err
	}
	return stagesOf(r, plan, events), nil
}

// stagesOf returns the state of each planned stage of a run.
func stagesOf(r chain.Record, plan []chain.Planned, events []chain.Event) []api.OnboardingStage {
	cursor := slices.IndexFunc(plan, func(p chain.Planned) bool { return p.Stage == r.Stage })
	out := make([]api.OnboardingStage, len(plan))
	for i, p := range plan {
		s := api.OnboardingStage{PlannedStage: plannedResource(p), Status: "pending"}
		if r.Direction == chain.Undo || i <= cursor || r.Status == chain.Completed || r.Status == chain.Reconciled {
			tellStage(&s, events)
		}
		if i == cursor && r.Status.Moving() {
			s.Status = "running"
		}
		out[i] = s
	}
	return out
}

// tellStage fills in the last attempt of a stage from the events.
func tellStage(s *api.OnboardingStage, events []chain.Event) {
	for _, e := range events {
		if e.Stage != s.Stage {
			continue
		}
		s.Message = taskcatalog.Clean(e.Message, 500)
		if e.Status == chain.Started {
			s.Attempt, s.StartedAt, s.EndedAt = e.Attempt, e.At, time.Time{}
			continue
		}
		s.Status, s.EndedAt = string(e.Status), e.At
	}
}

func plannedResource(p chain.Planned) api.PlannedStage {
	return api.PlannedStage{
		Stage: p.Stage, Rescues: p.Rescues, Optional: p.Optional, Pivot: p.Pivot,
		Touches: p.Touches, Destructive: p.Destructive, ExpectedSeconds: int64(p.Expected / time.Second),
	}
}

type onboardingsInput struct {
	Site     string `query:"site" maxLength:"63"`
	Status   string `query:"status" maxLength:"200" doc:"one or more, joined by commas; live stands for all that have not ended, failed for both failures"`
	Stage    string `query:"stage" maxLength:"64"`
	Class    string `query:"class" maxLength:"64" doc:"of the failure"`
	BatchID  string `query:"batch_id" maxLength:"64"`
	Hostname string `query:"hostname" maxLength:"253"`
	Cursor   string `query:"cursor" maxLength:"64"`
	Limit    int    `query:"limit" minimum:"0" maximum:"1000"`
}

func (a *API) listOnboardings(ctx context.Context, in *onboardingsInput) (*api.OnboardingList, error) {
	f := chain.Filter{Site: in.Site, Batch: in.BatchID, Stage: in.Stage, Class: chain.Class(in.Class), After: in.Cursor}
	var err error
	if f.Statuses, err = runStatuses(in.Status); err != nil {
		return nil, err
	}
	if _, err := narrow(callerOf(ctx), in.Site); err != nil {
		return nil, err
	}
	out := &api.OnboardingList{Items: []api.Onboarding{}}
	if out.Batch, err = a.batchState(ctx, bringsIn, in.BatchID); err != nil {
		return nil, err
	}
	page, next, err := a.runsOf(ctx, bringsIn, f, called(in.Hostname), pageLimit(in.Limit))
	if err != nil {
		return nil, err
	}
	for _, r := range page {
		out.Items = append(out.Items, onboardingResource(r))
	}
	out.NextCursor = next
	return out, nil
}

// called selects the runs whose machine has the hostname; nil if hostname is empty.
func called(hostname string) func(chain.Record) bool {
	if hostname == "" {
		return nil
	}
	if name, ok := broker.CanonicalHostname(hostname); ok {
		hostname = name
	}
	return func(r chain.Record) bool { return hostnameOf(r) == hostname }
}

// hostnameOf returns the hostname of a run's machine. An adoption may have begun with the system_id
// alone.
func hostnameOf(r chain.Record) string {
	var s struct{ Hostname string }
	if r.Kind == onboarding.AdoptionKind && json.Unmarshal(r.State, &s) == nil && s.Hostname != "" {
		return s.Hostname
	}
	return r.Subject
}

// onboardingResource is the read model of a run. Text that came from MAAS is untrusted.
func onboardingResource(r chain.Record) api.Onboarding {
	var s onboarding.Onboarding
	_ = json.Unmarshal(r.State, &s) // a state of another version: the fields common to all runs are still shown
	out := api.Onboarding{
		OnboardingID: r.ID, Kind: r.Kind, BatchID: orNull(r.Batch), NodeID: orNull(s.NodeID), SiteID: s.SiteID, Site: r.Site, ProfileID: s.ProfileID, Profile: s.Profile,
		SKUID: s.SKU.ID, Hostname: hostnameOf(r), IPMIIP: s.IPMIIP, PXEMAC: orNull(s.PXEMAC), MAASSystemID: orNull(cmp.Or(s.SystemID, s.Adopts)), RequestedBy: r.RequestedBy,
		Status: string(r.Status), Ended: r.Status.Ended(), CurrentStage: r.Stage, CurrentAttempt: r.Attempt, Direction: string(r.Direction),
		Waiting: taskcatalog.Clean(r.Waiting, 500), Asked: string(r.Asked), RecommendedNextAction: r.NextAction,
		LastObserved: api.ObservedMachine{
			MAASStatus: s.Seen.Status, PowerState: s.Seen.Power, IPAddresses: s.Seen.IPs, Owner: s.Seen.Owner, LastSync: s.Seen.LastSync, ObservedAt: s.Seen.ObservedAt,
		},
		BundleDigest: s.BundleDigest, Deploys: s.Deploys, Warnings: s.Warnings,
		RequestedAt: r.RequestedAt, StartedAt: r.StartedAt, StageEnteredAt: r.EnteredAt, CompletedAt: r.CompletedAt, UpdatedAt: r.UpdatedAt,
	}
	if f := r.Failure; f != nil {
		out.FailureClass, out.ErrorCode, out.ErrorMessage, out.ErrorDetails = string(f.Class), f.Code, taskcatalog.Clean(f.Message, 2000), f.Details
	}
	return out
}

func orNull(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}
