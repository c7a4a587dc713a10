package adminapi

import (
	"context"

	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/chain"
	"github.com/hostler/hostler/broker/rollout"
	"github.com/hostler/hostler/taskcatalog"
)

func (a *API) rolloutResource(ctx context.Context, r chain.Record) (*api.Rollout, error) {
	s, err := rollout.Load(ctx, a.c.DB.RolloutMembers, r)
	if err != nil {
		return nil, err
	}
	return rolloutResource(ctx, r, s), nil
}

// rolloutResource is the read model of a rollout for the present caller: nodes that are not members
// may belong to sites that the caller does not see.
func rolloutResource(ctx context.Context, r chain.Record, s rollout.Rollout) *api.Rollout {
	out := &api.Rollout{
		RolloutID: r.ID, Release: s.Release.Version, ReleaseDigest: s.Release.Digest, Selector: s.Selector, Site: siteOf(r.Site),
		Canary: s.Plan.Canary, WaveBy: s.Plan.WaveBy, Concurrency: s.Plan.Concurrency, SoakSeconds: s.Plan.SoakSeconds,
		MaxFailures: s.Plan.MaxFailures,
		OnFailure:   string(s.OnFailure), SafetyPolicy: string(s.Safety), AllowRollback: s.AllowRollback, Force: s.Force, Reason: s.Reason,
		RequestedBy: r.RequestedBy,
		Status:      string(r.Status), Ended: r.Status.Ended(), CurrentStage: r.Stage, Waiting: taskcatalog.Clean(r.Waiting, 500),
		Asked: string(r.Asked), RecommendedNextAction: r.NextAction,
		Members: len(s.Members), Counts: countsOfMembers(s, -1), Failures: s.Failures(), Waves: []api.RolloutWave{},
		RequestedAt: r.RequestedAt, StartedAt: r.StartedAt, SoaksSince: s.SoakFrom, CompletedAt: r.CompletedAt, UpdatedAt: r.UpdatedAt,
	}
	if f := r.Failure; f != nil && !r.Status.Ended() {
		out.FailureClass, out.ErrorCode, out.ErrorMessage = string(f.Class), f.Code, taskcatalog.Clean(f.Message, 2000)
		switch {
		case r.Status.Moving():
		case r.Direction == chain.Undo:
			out.RecommendedNextAction = "repair the cause, then hostler rollout abort " + r.ID +
				" --reason R, which continues where the rollout stopped"
		case f.Code == chain.CodeMarked:
			out.RecommendedNextAction = "hostler rollout resume " + r.ID + "; or hostler rollout abort " + r.ID + " --reason R"
		}
	}
	for i, w := range s.Waves {
		out.Waves = append(out.Waves, waveResource(r, s, i, w))
	}
	for _, l := range s.Excluded(callerOf(ctx).sites()) {
		out.LeftOut = append(out.LeftOut, api.RolloutLeftOut{Code: l.Code, Why: l.Why, Count: l.Count, Nodes: l.Nodes})
	}
	return out
}

func waveResource(r chain.Record, s rollout.Rollout, i int, w rollout.Wave) api.RolloutWave {
	out := api.RolloutWave{Name: w.Name, Counts: countsOfMembers(s, i), State: "waiting"}
	for _, m := range s.Members {
		if m.Wave == i {
			out.Members++
			if m.Parked {
				out.Parked++
			}
		}
	}
	switch {
	case i < s.Wave || r.Status.Ended() || r.Stage == "complete_rollout":
		out.State = "rolled"
	case i > s.Wave || r.StartedAt.IsZero():
	case !s.SoakFrom.IsZero():
		out.State = "soaking"
	default:
		out.State = "rolling"
	}
	return out
}

func countsOfMembers(s rollout.Rollout, wave int) map[string]int {
	out := map[string]int{}
	for result, n := range s.Count(wave) {
		out[string(result)] = n
	}
	return out
}

// rolloutMembers lists the nodes of a rollout. Nodes under way, at most as many as the concurrency
// allows, also show the present stage of their run.
func (a *API) rolloutMembers(ctx context.Context, r chain.Record, s rollout.Rollout) []api.RolloutMember {
	out := make([]api.RolloutMember, 0, len(s.Members))
	for _, m := range s.Members {
		item := api.RolloutMember{
			NodeID: m.NodeID, Hostname: m.Hostname, Wave: s.Waves[m.Wave].Name, FromVersion: m.From, Result: string(m.Result), Code: m.Code,
			Why: m.Why, NotBack: m.Back,
			Counts: m.Counts == rollout.Counted, Parked: m.Parked, RunID: m.Current(r.ID), Seconds: m.Seconds,
		}
		if m.Result.Moving() {
			run, err := a.c.DB.Run(ctx, item.RunID)
			if err == nil { // the run may be about to begin
				item.Stage, item.Waiting = run.Stage, taskcatalog.Clean(run.Waiting, 500)
			}
		}
		out = append(out, item)
	}
	return out
}
