package adminapi

import (
	"context"
	"slices"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/chain"
	"github.com/hostler/hostler/taskcatalog"
)

// RunInput names a run.
type RunInput struct {
	Run string `path:"run" maxLength:"80"`
}

// showRun shows a run of any kind.
func (a *API) showRun(ctx context.Context, in *RunInput) (*api.RunDetail, error) {
	r, err := a.run(ctx, everyKind, in.Run)
	if err != nil {
		return nil, err
	}
	events, told, err := a.history(ctx, r.ID)
	if err != nil {
		return nil, err
	}
	return &api.RunDetail{Run: runResource(r), Stages: a.stages(r, events), Events: told}, nil
}

type runsInput struct {
	Kind    string `query:"kind" maxLength:"64" doc:"as it is named in a run, also without what follows its slash"`
	Node    string `query:"node_id" maxLength:"253" doc:"an id, a hostname or site/hostname"`
	Site    string `query:"site" maxLength:"63"`
	Status  string `query:"status" maxLength:"200" doc:"one or more, joined by commas; live stands for all that have not ended, failed for both failures"`
	Stage   string `query:"stage" maxLength:"64"`
	Class   string `query:"class" maxLength:"64" doc:"of the failure"`
	BatchID string `query:"batch_id" maxLength:"64"`
	Cursor  string `query:"cursor" maxLength:"80"`
	Limit   int    `query:"limit" minimum:"0" maximum:"1000"`
}

// listRuns lists runs of all kinds, or of one.
func (a *API) listRuns(ctx context.Context, in *runsInput) (*api.RunList, error) {
	f := chain.Filter{Kind: in.Kind, Site: in.Site, Batch: in.BatchID, Stage: in.Stage, Class: chain.Class(in.Class), After: in.Cursor}
	var err error
	if f.Statuses, err = runStatuses(in.Status); err != nil {
		return nil, err
	}
	if _, err := visibleSites(callerOf(ctx), in.Site); err != nil {
		return nil, err
	}
	out := &api.RunList{Items: []api.Run{}}
	if out.Batch, err = a.batchState(ctx, everyKind, in.BatchID); err != nil {
		return nil, err
	}
	var page []chain.Record
	if in.Node == "" {
		page, out.Next, err = a.runsOf(ctx, everyKind, f, nil, pageLimit(in.Limit))
	} else {
		var n broker.Node
		if n, err = a.node(ctx, in.Node); err == nil {
			page, out.Next, err = a.runsOfNode(ctx, everyKind, n.ID, f, pageLimit(in.Limit))
		}
	}
	for _, r := range page {
		out.Items = append(out.Items, runResource(r))
	}
	return out, err
}

type runActionInput struct {
	RunInput
	Action string `path:"action" enum:"retry,resume,rerun,restart-clean,cancel,adopt,mark-manual-intervention"`
	Body   api.RunOrder
}

// actOnRun carries out an operator's action on a run of any kind that has no actions of its own.
// Codes: run_actions_own, those of a run's actions.
func (a *API) actOnRun(ctx context.Context, in *runActionInput) (*api.Run, error) {
	r, err := a.actOn(ctx, everyKind, in.Run, in.Action, in.Body)
	if err != nil {
		return nil, err
	}
	out := runResource(r)
	return &out, nil
}

// runResource is the read model of a run of any kind.
func runResource(r chain.Record) api.Run {
	return api.Run{
		RunID: r.ID, Kind: r.Kind, Subject: r.Subject, NodeID: nodeOf(r), Site: siteOf(r.Site), BatchID: r.Batch,
		RequestedBy: r.RequestedBy,
		RunState:    stateOf(r), RunTimes: timesOf(r),
	}
}

func stateOf(r chain.Record) api.RunState {
	s := api.RunState{
		Status: string(r.Status), Ended: r.Status.Ended(), CurrentStage: r.Stage, CurrentAttempt: r.Attempt, Direction: string(r.Direction),
		Waiting: taskcatalog.Clean(r.Waiting, 500), Asked: string(r.Asked), RecommendedNextAction: r.NextAction,
	}
	if f := r.Failure; f != nil {
		s.FailureClass, s.ErrorCode, s.ErrorMessage, s.ErrorDetails = string(f.Class), f.Code, taskcatalog.Clean(f.Message, 2000), f.Details
	}
	return s
}

func timesOf(r chain.Record) api.RunTimes {
	return api.RunTimes{
		RequestedAt: r.RequestedAt, StartedAt: r.StartedAt, StageEnteredAt: r.EnteredAt, CompletedAt: r.CompletedAt,
		UpdatedAt: r.UpdatedAt,
	}
}

// stages returns the state of each stage of a run's list. Stages ahead of the cursor, for example
// after a rerun, are pending, whatever their earlier results.
func (a *API) stages(r chain.Record, events []chain.Event) []api.RunStage {
	plan := a.c.Runs.Plan(r)
	cursor := slices.IndexFunc(plan, func(p chain.Planned) bool { return p.Stage == r.Stage })
	out := make([]api.RunStage, len(plan))
	for i, p := range plan {
		s := api.RunStage{PlannedStage: plannedResource(p), Status: "pending"}
		if r.Direction == chain.Undo || i <= cursor || r.Status == chain.Completed || r.Status == chain.Reconciled {
			fillStage(&s, events)
		}
		if i == cursor && r.Status.Moving() {
			s.Status = "running"
		}
		out[i] = s
	}
	return out
}

// fillStage fills in the last attempt of a stage from the events.
func fillStage(s *api.RunStage, events []chain.Event) {
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
