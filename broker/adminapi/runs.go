package adminapi

import (
	"context"
	"slices"
	"strings"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/chain"
	"github.com/hostler/hostler/taskcatalog"
)

// kinds selects the kinds of runs that one noun lists, shows and acts on.
type kinds func(kind string) bool

// The runs of the nouns whose answers say more than those about any run.
var (
	onboardingKinds = runsOfNoun("onboarding")
	turnoverKinds   = runsOfNoun("decommission")
	agentKinds      = runsOfNoun("node agent-lifecycle")
	rolloutKinds    = runsOfNoun("rollout")
)

// everyKind selects the runs of all kinds.
func everyKind(string) bool { return true }

func runsOfNoun(noun string) kinds {
	return func(kind string) bool { return broker.RunKindOf(kind).Noun == noun }
}

// siteOf is the site name for callers of a run or a batch; empty: its nodes have no site.
func siteOf(site string) string {
	if site == broker.NoSite {
		return ""
	}
	return site
}

// run finds a run of a site that the caller may see.
func (a *API) run(ctx context.Context, of kinds, id string) (chain.Record, error) {
	r, err := a.c.DB.Run(ctx, id)
	if err == nil && (!of(r.Kind) || !callerOf(ctx).MaySee(siteOf(r.Site))) {
		err = chain.NotFound("run", taskcatalog.Clean(id, 64))
	}
	if err != nil {
		return r, runError(err)
	}
	return r, nil
}

// maxRunEvents is the number of events in the answer about a run.
const maxRunEvents = 500

// history returns the recent events of a run.
func (a *API) history(ctx context.Context, run string) ([]chain.Event, []api.RunEvent, error) {
	events, err := a.c.DB.RecentEvents(ctx, run, maxRunEvents)
	told := []api.RunEvent{}
	for _, e := range events[max(0, len(events)-maxRunEvents):] {
		told = append(told, api.RunEvent{
			ID: e.ID, Stage: e.Stage, Direction: string(e.Direction), Attempt: e.Attempt, Status: string(e.Status),
			Message: taskcatalog.Clean(e.Message, 2000), Details: e.Details, OccurredAt: e.At,
		})
	}
	return events, told, err
}

// runsOf reads runs of the sites that the caller may see, up to a limit (0: all), and the cursor of
// the next page. A nil which selects all runs of the filter.
func (a *API) runsOf(
	ctx context.Context, of kinds, f chain.Filter, which func(chain.Record) bool, limit int,
) (out []chain.Record, next string, err error) {
	return a.pageOf(ctx, of, a.c.DB.Runs, f, which, limit)
}

// runsOfNode is runsOf, limited to runs that have had the node.
func (a *API) runsOfNode(
	ctx context.Context, of kinds, nodeID string, f chain.Filter, limit int,
) (out []chain.Record, next string, err error) {
	read := func(ctx context.Context, f chain.Filter) ([]chain.Record, error) {
		return a.c.DB.RunsOfNode(ctx, nodeID, f)
	}
	return a.pageOf(ctx, of, read, f, nil, limit)
}

func (a *API) pageOf(
	ctx context.Context, of kinds, read func(context.Context, chain.Filter) ([]chain.Record, error), f chain.Filter,
	which func(chain.Record) bool, limit int,
) (out []chain.Record, next string, err error) {
	const page = 500
	who := callerOf(ctx)
	f.Limit = page
	for {
		some, err := read(ctx, f)
		if err != nil {
			return nil, "", err
		}
		for _, r := range some {
			if !of(r.Kind) || !who.MaySee(siteOf(r.Site)) || which != nil && !which(r) {
				continue
			}
			if limit > 0 && len(out) == limit {
				return out, out[limit-1].ID, nil
			}
			out = append(out, r)
		}
		if len(some) < page {
			return out, "", nil
		}
		f.After = some[len(some)-1].ID
	}
}

// batch finds a batch of a site that the caller may see.
func (a *API) batch(ctx context.Context, of kinds, id string) (chain.Batch, error) {
	b, err := a.c.DB.Batch(ctx, id)
	if err == nil && (!of(b.Kind) || !callerOf(ctx).MaySee(siteOf(b.Site))) {
		err = chain.NotFound("batch", taskcatalog.Clean(id, 64))
	}
	if err != nil {
		return b, runError(err)
	}
	return b, nil
}

// batchState is the read model of a batch; nil if id is empty.
func (a *API) batchState(ctx context.Context, of kinds, id string) (*api.BatchState, error) {
	if id == "" {
		return nil, nil //nolint:nilnil // a list without a batch has none
	}
	b, err := a.batch(ctx, of, id)
	if err != nil {
		return nil, err
	}
	out := &api.BatchState{
		BatchID: b.ID, Site: siteOf(b.Site), Parallel: b.Parallel, StopAfter: b.StopAfter, StoppedAt: b.StoppedAt,
		StopReason:  taskcatalog.Clean(b.StopReason, 500),
		RequestedBy: b.RequestedBy, RequestedAt: b.RequestedAt,
	}
	out.Counts, err = a.c.DB.BatchCounts(ctx, b.ID)
	return out, err
}

// liveStatuses are the statuses of runs that have not ended.
var liveStatuses = []chain.Status{chain.Pending, chain.Running, chain.Compensating, chain.FailedRetryable, chain.FailedManual}

func runStatuses(list string) (out []chain.Status, err error) {
	for name := range strings.SplitSeq(list, ",") {
		switch s := chain.Status(name); s {
		case "":
		case "live":
			out = append(out, liveStatuses...)
		case "failed":
			out = append(out, chain.FailedRetryable, chain.FailedManual)
		default:
			if !slices.Contains(liveStatuses, s) && !s.Ended() {
				return nil, broker.Errorf(broker.Invalid, "status_unknown", "cannot filter by status %q: there is no such run status",
					taskcatalog.Clean(name, 40))
			}
			out = append(out, s)
		}
	}
	return out, nil
}
