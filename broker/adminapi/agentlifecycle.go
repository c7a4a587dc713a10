package adminapi

import (
	"cmp"
	"context"
	"strings"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/agentlifecycle"
	agentrecords "github.com/hostler/hostler/broker/agentlifecycle/records"
	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/chain"
	"github.com/hostler/hostler/broker/store"
	"github.com/hostler/hostler/taskcatalog"
	"github.com/hostler/hostler/taskcatalog/release"
)

func (a *API) showAgent(ctx context.Context, in *NodeInput) (*api.AgentLifecycle, error) {
	n, err := a.node(ctx, in.Node)
	if err != nil {
		return nil, err
	}
	return a.agentOf(ctx, n)
}

func (a *API) agentOf(ctx context.Context, n broker.Node) (*api.AgentLifecycle, error) {
	fleet, err := a.c.Agents.Fleet(ctx)
	if err != nil {
		return nil, err
	}
	floor, err := a.c.DB.ReleaseFloor(ctx)
	if err != nil {
		return nil, err
	}
	runs, _, err := a.runsOfNode(ctx, agentKinds, n.ID, chain.Filter{}, 0)
	if err != nil {
		return nil, err
	}
	out, err := a.agentResource(ctx, fleet, n)
	if err != nil {
		return nil, err
	}
	out.VersionFloor, out.Capabilities = floor.Version, n.Capabilities
	if len(runs) > 0 {
		latest := agentRunResource(runs[len(runs)-1])
		out.LatestRun = &latest
	}
	return &out, nil
}

type agentsInput struct {
	Site   string `query:"site" maxLength:"63"`
	Drift  bool   `query:"drift" doc:"only agents that are not in sync"`
	Cursor string `query:"cursor" maxLength:"64"`
	Limit  int    `query:"limit" minimum:"0" maximum:"1000"`
}

// listAgents lists all enrolled nodes. The counts cover all of them, not only the page.
func (a *API) listAgents(ctx context.Context, in *agentsInput) (*api.AgentLifecycleList, error) {
	sites, err := visibleSites(callerOf(ctx), in.Site)
	if err != nil {
		return nil, err
	}
	nodes, _, err := a.c.DB.ListNodes(ctx, store.NodeFilter{Sites: sites})
	if err != nil {
		return nil, err
	}
	fleet, err := a.c.Agents.Fleet(ctx)
	if err != nil {
		return nil, err
	}
	out := &api.AgentLifecycleList{Items: []api.AgentLifecycle{}, Counts: a.agentCounts(fleet, nodes)}
	limit := pageLimit(in.Limit)
	for _, n := range nodes {
		if _, s := fleet.Of(n, a.c.DB); n.Epoch == 0 || n.ID <= in.Cursor || in.Drift && !s.Drift.Drifted() {
			continue
		}
		if len(out.Items) == limit {
			out.Next = out.Items[limit-1].NodeID
			break
		}
		item, err := a.agentResource(ctx, fleet, n)
		if err != nil {
			return nil, err
		}
		out.Items = append(out.Items, item)
	}
	return out, nil
}

// agentCounts counts the nodes that are enrolled and not being removed.
func (a *API) agentCounts(fleet agentrecords.Fleet, nodes []broker.Node) (c api.AgentCounts) {
	for _, n := range nodes {
		if n.Epoch == 0 || n.Status == broker.Removing {
			continue
		}
		switch _, s := fleet.Of(n, a.c.DB); {
		case !s.Drift.Drifted():
			c.Current++
		case s.Drift == broker.AgentUnknown:
			c.Unknown++
			c.Drift++
		default:
			c.Drift++
		}
	}
	return c
}

var badges = map[broker.AgentDrift]string{
	broker.AgentInSync: "Current", broker.AgentVersionDrift: "Outdated", broker.AgentConfigDrift: "Config drift",
	broker.AgentCertificate: "Cert repair", broker.AgentUnknown: "Unknown build",
}

func (a *API) agentResource(ctx context.Context, fleet agentrecords.Fleet, n broker.Node) (api.AgentLifecycle, error) {
	g, s := fleet.Of(n, a.c.DB)
	out := api.AgentLifecycle{
		NodeID: n.ID, Hostname: n.Hostname, Site: n.Site, Status: string(n.Status),
		AgentChannel: string(g.Channel), DesiredAgentVersion: s.Desired, ReportedAgentVersion: n.AgentVersion, ReportedCommit: g.Commit,
		ReportedDigest: g.SHA256, ReportedAt: g.ReportedAt,
		DesiredDeliveryMode: string(g.Mode), DriftState: string(s.Drift), Badge: badges[s.Drift], DriftReasons: s.Why,
		LastDeliveryAttemptAt: g.AttemptAt, LastDeliveryResult: g.Result, LastDeliveryReason: g.Reason, LastDeliverySeconds: g.Seconds,
		LastDeliveryCorrelationID: g.CorrelationID,
	}
	out.PreviousAgentVersion = g.Previous
	for _, p := range g.Pins {
		out.SkippedVersions = append(out.SkippedVersions, api.AgentSkipped{Version: p.Version, Reason: string(p.Reason)})
	}
	if g.Result != agentlifecycle.Running {
		return out, nil
	}
	// If no agent has reported the end of the delivery, the run's status tells the result.
	r, err := a.c.DB.Run(ctx, g.CorrelationID)
	if err != nil {
		return out, runError(err)
	}
	switch {
	case r.Status == chain.Cancelled:
		out.LastDeliveryResult, out.LastDeliveryReason = "cancelled", "run_cancelled"
	case r.Status.Stopped() && r.Failure != nil:
		out.LastDeliveryResult, out.LastDeliveryReason = "failed", r.Failure.Code
	}
	return out, nil
}

type wantAgentInput struct {
	NodeInput
	Body api.AgentWant
}

// wantAgent changes the desired state of a node's agent. The call begins no run.
func (a *API) wantAgent(ctx context.Context, in *wantAgentInput) (*api.AgentLifecycle, error) {
	n, err := a.node(ctx, in.Node)
	if err != nil {
		return nil, err
	}
	had, err := a.c.DB.Agent(ctx, n.ID)
	if err != nil {
		return nil, err
	}
	channel := broker.AgentChannel(cmp.Or(in.Body.AgentChannel, string(had.Channel)))
	mode := broker.DeliveryMode(cmp.Or(in.Body.DesiredDeliveryMode, string(had.Mode)))
	pinned := in.Body.PinnedVersion
	if channel == broker.ChannelPinned {
		pinned = cmp.Or(pinned, had.Pinned)
	}
	switch {
	case channel == broker.ChannelPinned && !release.ValidVersion(pinned):
		return nil, broker.Errorf(broker.Invalid, "agent_lifecycle_invalid",
			"cannot pin the agent of node %s: %q is not a version (--version V)", n.ID, taskcatalog.Clean(pinned, 64))
	case channel != broker.ChannelPinned && pinned != "":
		return nil, broker.Errorf(broker.Invalid, "agent_lifecycle_invalid",
			"cannot pin the agent of node %s to %s: its channel is %s (--channel pinned)", n.ID, taskcatalog.Clean(pinned, 64), channel)
	}
	if _, err := a.c.DB.WantAgent(ctx, callerOf(ctx).actor(), n.ID, channel, pinned, mode,
		taskcatalog.Clean(strings.TrimSpace(in.Body.Reason), 500)); err != nil {
		return nil, err
	}
	return a.agentOf(ctx, n)
}

type startAgentInput struct {
	NodeInput
	RequestKey
	Body api.AgentLifecycleStart
}

// startAgent begins a run on a node's agent.
func (a *API) startAgent(ctx context.Context, in *startAgentInput) (*api.AgentLifecycleRun, error) {
	b, who := in.Body, callerOf(ctx)
	var n broker.Node
	o := order{b, in.IdempotencyKey, "/nodes/" + in.Node + "/agent-lifecycle", func(ctx context.Context, err error) error {
		return a.refusedStart("node/"+n.ID, b.Reason)(ctx, err)
	}}
	r, err := a.beginOne(ctx, o, agentKinds, func() (s chain.Start, err error) {
		if n, err = a.node(ctx, in.Node); err != nil {
			return s, err
		}
		if b.SafetyPolicy == string(broker.Forced) || b.AllowRollback || b.Force {
			if err := a.requireRole(ctx, admin, "force work on the agent of node "+n.ID); err != nil {
				return s, err
			}
		}
		had, err := a.c.DB.Agent(ctx, n.ID)
		if err != nil {
			return s, err
		}
		return a.c.Agents.Start(ctx, n, agentrecords.Order{
			Request: agentlifecycle.Request{
				Mode: broker.DeliveryMode(cmp.Or(b.Mode, string(had.Mode))), Scenario: broker.DeliveryScenario(b.Scenario),
				Safety:        broker.SafetyPolicy(cmp.Or(b.SafetyPolicy, string(broker.OnlyIdle))),
				AllowRollback: b.AllowRollback, Force: b.Force, Reason: taskcatalog.Clean(strings.TrimSpace(b.Reason), 500),
				RequestedBy: who.Name,
			},
			Target: b.TargetVersion, Role: string(who.Role), CorrelationID: who.correlationID, PackageURL: a.packageURL,
		})
	})
	if err != nil {
		return nil, err
	}
	out := agentRunResource(r)
	return &out, nil
}

// packageURL is the URL at which nodes and people fetch a package kept by this broker, by its
// digest.
func (a *API) packageURL(digest string) string {
	return a.c.AgentURL + "/internal/v1/packages/sha256/" + strings.TrimPrefix(digest, "sha256:")
}
