package adminapi

import (
	"context"
	"encoding/json"
	"strings"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/agentlifecycle"
	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/chain"
)

func (a *API) showAgentRun(ctx context.Context, in *RunInput) (*api.AgentLifecycleDetail, error) {
	r, err := a.run(ctx, agentKinds, in.Run)
	if err != nil {
		return nil, err
	}
	events, told, err := a.history(ctx, r.ID)
	if err != nil {
		return nil, err
	}
	return &api.AgentLifecycleDetail{AgentLifecycleRun: agentRunResource(r), Stages: a.stages(r, events), Events: told}, nil
}

func listOf(r chain.Record) agentlifecycle.List {
	return agentlifecycle.List(strings.TrimPrefix(r.Kind, agentlifecycle.KindPrefix+"/"))
}

type agentRunsInput struct {
	Node   string `query:"node_id" maxLength:"253" doc:"an id, a hostname or site/hostname"`
	Site   string `query:"site" maxLength:"63"`
	Status string `query:"status" maxLength:"200" doc:"one or more statuses, separated by commas; live: all that have not ended; failed: both failed statuses"`
	Stage  string `query:"stage" maxLength:"64"`
	Class  string `query:"class" maxLength:"64" doc:"failure class"`
	Cursor string `query:"cursor" maxLength:"80"`
	Limit  int    `query:"limit" minimum:"0" maximum:"1000"`
}

func (a *API) listAgentRuns(ctx context.Context, in *agentRunsInput) (*api.AgentLifecycleRuns, error) {
	f := chain.Filter{Site: in.Site, Stage: in.Stage, Class: chain.Class(in.Class), After: in.Cursor}
	var err error
	if f.Statuses, err = runStatuses(in.Status); err != nil {
		return nil, err
	}
	if _, err := visibleSites(callerOf(ctx), in.Site); err != nil {
		return nil, err
	}
	out := &api.AgentLifecycleRuns{Items: []api.AgentLifecycleRun{}}
	var page []chain.Record
	if in.Node == "" {
		page, out.Next, err = a.runsOf(ctx, agentKinds, f, nil, pageLimit(in.Limit))
	} else {
		var n broker.Node
		if n, err = a.node(ctx, in.Node); err == nil {
			page, out.Next, err = a.runsOfNode(ctx, agentKinds, n.ID, f, pageLimit(in.Limit))
		}
	}
	for _, r := range page {
		out.Items = append(out.Items, agentRunResource(r))
	}
	return out, err
}

func (a *API) actOnAgentRun(ctx context.Context, in *runActionInput) (*api.AgentLifecycleRun, error) {
	r, err := a.actOn(ctx, agentKinds, in.Run, in.Action, in.Body)
	if err != nil {
		return nil, err
	}
	out := agentRunResource(r)
	return &out, nil
}

// agentRunResource is the read model of a run.
func agentRunResource(r chain.Record) api.AgentLifecycleRun {
	var s agentlifecycle.Work
	_ = json.Unmarshal(r.State, &s) // a state of another version: the fields common to all runs are still shown
	out := api.AgentLifecycleRun{
		RunID: r.ID, NodeID: s.NodeID, Hostname: r.Subject, Site: siteOf(r.Site), Mode: string(s.Mode), Scenario: string(s.Scenario),
		List:        string(listOf(r)),
		FromVersion: s.From, SafetyPolicy: string(s.Safety), AllowRollback: s.AllowRollback, Force: s.Force, Reason: s.Reason,
		RequestedBy: r.RequestedBy,
		RunState:    stateOf(r), RunTimes: timesOf(r), TurnoverID: s.Turnover, Tasks: s.Tasks,
	}
	if s.Target != nil {
		out.TargetVersion = s.Target.Version
	}
	if s.List == agentlifecycle.Install {
		if out.RecommendedNextAction == "" && !out.Ended {
			out.RecommendedNextAction = s.Next()
		}
		if t := s.Target; t != nil {
			out.Install = &api.AgentInstall{Version: t.Version, ReleaseDigest: t.Digest, ProgramSHA256: t.SHA256}
			if p := s.Package; p != nil {
				out.Install.PackageURL, out.Install.PackageSHA256 = p.URL, p.SHA256
			}
		}
	}
	return out
}
