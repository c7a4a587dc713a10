package adminapi

import (
	"cmp"
	"context"
	"encoding/json"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/chain"
	"github.com/hostler/hostler/broker/onboarding"
)

// OnboardingInput names a run.
type OnboardingInput struct {
	Onboarding string `path:"onboarding" maxLength:"64"`
}

func (a *API) showOnboarding(ctx context.Context, in *OnboardingInput) (*api.OnboardingDetail, error) {
	r, err := a.run(ctx, onboardingKinds, in.Onboarding)
	if err != nil {
		return nil, err
	}
	events, told, err := a.history(ctx, r.ID)
	if err != nil {
		return nil, err
	}
	return &api.OnboardingDetail{Onboarding: onboardingResource(r), Stages: a.stages(r, events), Events: told}, nil
}

type onboardingsInput struct {
	Site     string `query:"site" maxLength:"63"`
	Status   string `query:"status" maxLength:"200" doc:"one or more statuses, separated by commas; live: all that have not ended; failed: both failed statuses"`
	Stage    string `query:"stage" maxLength:"64"`
	Class    string `query:"class" maxLength:"64" doc:"failure class"`
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
	if _, err := visibleSites(callerOf(ctx), in.Site); err != nil {
		return nil, err
	}
	out := &api.OnboardingList{Items: []api.Onboarding{}}
	if out.Batch, err = a.batchState(ctx, onboardingKinds, in.BatchID); err != nil {
		return nil, err
	}
	page, next, err := a.runsOf(ctx, onboardingKinds, f, withHostname(in.Hostname), pageLimit(in.Limit))
	if err != nil {
		return nil, err
	}
	for _, r := range page {
		out.Items = append(out.Items, onboardingResource(r))
	}
	out.Next = next
	return out, nil
}

// withHostname selects the runs whose machine has the hostname; nil if hostname is empty.
func withHostname(hostname string) func(chain.Record) bool {
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
	return api.Onboarding{
		OnboardingID: r.ID, Kind: r.Kind, BatchID: orNull(r.Batch), NodeID: orNull(s.NodeID), SiteID: s.SiteID, Site: r.Site,
		ProfileID: s.ProfileID, Profile: s.Profile,
		SKUID: s.SKU.ID, Hostname: hostnameOf(r), IPMIIP: s.IPMIIP, PXEMAC: orNull(s.PXEMAC),
		MAASSystemID: orNull(cmp.Or(s.SystemID, s.Adopts)), RequestedBy: r.RequestedBy,
		RunState: stateOf(r), RunTimes: timesOf(r),
		LastObserved: api.ObservedMachine{
			MAASStatus: s.Seen.Status, PowerState: s.Seen.Power, IPAddresses: s.Seen.IPs, Owner: s.Seen.Owner, LastSync: s.Seen.LastSync,
			ObservedAt: s.Seen.ObservedAt,
		},
		BundleDigest: s.BundleDigest, Deploys: s.Deploys, Warnings: s.Warnings,
	}
}

func orNull(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}
