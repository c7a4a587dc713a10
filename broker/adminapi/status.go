package adminapi

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/store"
)

// orphanedLeader is an alert about a leader lock without a living holder.
func orphanedLeader(h store.LeadHolder, now time.Time) []api.Alert {
	if !h.Orphaned() {
		return nil
	}
	return []api.Alert{{
		Code: "lead_orphaned", Since: now.Add(-h.Silent),
		Message: fmt.Sprintf("no broker leads: the lock is held by process %d of PostgreSQL, whose other end (%s) has been silent for %s, so nothing is swept, sealed or begun (end it: SELECT pg_terminate_backend(%d))",
			h.PID, cmp.Or(h.From, "on the same machine"), h.Silent.Truncate(time.Second), h.PID),
	}}
}

type statusInput struct {
	Site string `query:"site" maxLength:"63"`
}

func (a *API) status(ctx context.Context, in *statusInput) (*api.Status, error) {
	who := callerOf(ctx)
	sites, err := visibleSites(who, in.Site)
	if err != nil {
		return nil, err
	}
	nodes, _, err := a.c.DB.ListNodes(ctx, store.NodeFilter{Sites: sites})
	if err != nil {
		return nil, err
	}
	out := &api.Status{
		Version: a.c.Version, Now: a.c.Now().UTC(), StartedAt: a.started.UTC(), Store: a.c.DB.Engine(), Site: in.Site,
		Nodes: map[string]int64{}, OpenTasks: map[string]int64{}, TrustVersion: a.c.Trust.Version(), Omitted: map[string]int64{},
	}
	for _, n := range nodes {
		out.Nodes[string(n.Status)]++
		if n.TurnoverOwed {
			out.TurnoverOwed++
		}
		if n.Epoch > 0 && n.TrustVersion < out.TrustVersion {
			out.Stragglers++
		}
	}
	open, err := a.c.DB.CountOpenTasks(ctx, sites)
	if err != nil {
		return nil, err
	}
	for _, s := range []broker.TaskStatus{broker.TaskQueued, broker.TaskDispatched} {
		out.OpenTasks[string(s)] = int64(open[s])
	}
	fleet, err := a.c.Agents.Fleet(ctx)
	if err != nil {
		return nil, err
	}
	out.Agents = a.agentCounts(fleet, nodes)
	releases, err := a.c.DB.Packages(ctx)
	if err != nil {
		return nil, err
	}
	out.AgentReleases = int64(len(releases))
	figures, err := a.c.DB.TerminalFigures(ctx, sites)
	if err != nil {
		return nil, err
	}
	out.Terminals = api.StatusTerminals{Live: figures.Live, Relay: a.c.Terminals.Address(), RecordingsBroken: figures.Broken}
	if r, open := a.c.Trust.Rotation(); open {
		out.Alerts = append(out.Alerts, api.Alert{
			Code: "rotation_open", Since: r.StartedAt,
			Message: "the rotation of the " + string(r.Use) + " key is not finished (see hostler trust show)",
		})
	}
	leads, err := a.c.DB.LeadHolder(ctx)
	if err != nil {
		return nil, err
	}
	out.Alerts = append(out.Alerts, orphanedLeader(leads, out.Now)...)
	refused, err := a.trustRefused(ctx, nodes)
	if err != nil {
		return nil, err
	}
	out.Alerts = append(out.Alerts, refused...)
	if out.Holds, err = a.holds(ctx, sites); err != nil {
		return nil, err
	}
	return out, a.addAttention(ctx, out, sites, nodes, releases, fleet)
}
