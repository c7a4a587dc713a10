package records

import (
	"cmp"
	"context"
	"slices"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/agentlifecycle"
	"github.com/hostler/hostler/broker/chain"
	"github.com/hostler/hostler/broker/store"
	"github.com/hostler/hostler/taskcatalog"
	"github.com/hostler/hostler/taskcatalog/release"
)

// Fleet compares agents with their wanted releases: read once for many nodes.
type Fleet struct {
	releases []Release
	agents   map[string]broker.Agent
	trust    int64
}

// Release is a release with the values of its statement.
type Release struct {
	store.AgentRelease
	Commit, SHA256 string
}

// Fleet reads the fleet.
func (n *Nodes) Fleet(ctx context.Context) (f Fleet, err error) {
	if f.releases, err = n.releases(ctx); err != nil {
		return f, err
	}
	f.agents, err = n.DB.Agents(ctx)
	f.trust = n.Trust.Version()
	return f, err
}

// fleetOf is the fleet as far as one node needs it.
func (n *Nodes) fleetOf(ctx context.Context, nodeID string) (f Fleet, err error) {
	if f.releases, err = n.releases(ctx); err != nil {
		return f, err
	}
	a, err := n.DB.Agent(ctx, nodeID)
	f.agents, f.trust = map[string]broker.Agent{nodeID: a}, n.Trust.Version()
	return f, err
}

// releases are the releases that a node may get, the highest version first.
func (n *Nodes) releases(ctx context.Context) (out []Release, err error) {
	all, err := n.DB.AgentReleases(ctx, "")
	for _, r := range all {
		s, bad := release.ParseStatement(r.Statement)
		if bad != nil || r.Revoked() {
			continue // verified at publication; an unknown form is skipped
		}
		out = append(out, Release{r, s.Commit, s.Binary.SHA256})
	}
	slices.SortFunc(out, func(a, b Release) int { return release.Compare(b.Version, a.Version) })
	return out, err
}

// Of is the record of a node's agent, with its standing.
func (f Fleet) Of(n broker.Node, db *store.DB) (broker.Agent, broker.Standing) {
	a, known := f.agents[n.ID]
	if !known {
		a = broker.NewAgent(n.ID)
	}
	return a, broker.AgentStanding(n, a, f.wanted(a).judged(), f.trust, db.Now())
}

// wanted is the release that a node shall have; nil: none.
func (f Fleet) wanted(a broker.Agent) *Release {
	at := slices.IndexFunc(f.releases, func(r Release) bool {
		switch a.Channel {
		case broker.ChannelPinned:
			return r.Version == a.Pinned
		case broker.ChannelCandidate:
			return r.Channel == string(broker.ChannelCandidate) || r.Channel == string(broker.ChannelStable)
		default:
			return r.Channel == string(broker.ChannelStable)
		}
	})
	if at < 0 {
		return nil
	}
	return &f.releases[at]
}

func (r *Release) judged() *broker.AgentRelease {
	if r == nil {
		return nil
	}
	return &broker.AgentRelease{Version: r.Version, Channel: broker.AgentChannel(r.Channel), Commit: r.Commit, SHA256: r.SHA256}
}

func (r *Release) target() *agentlifecycle.Target {
	if r == nil {
		return nil
	}
	return &agentlifecycle.Target{Version: r.Version, Commit: r.Commit, SHA256: r.SHA256, Digest: r.Digest}
}

// Order is a run that an operator asks for.
type Order struct {
	agentlifecycle.Request
	Target        string // version; empty: the wanted release
	Role          string
	CorrelationID string
	PackageURL    func(digest string) string // where this broker serves a package
}

// Start prepares the start of a run and begins nothing. Codes: those of agentlifecycle.New, of a
// turnover for a reimage, agent_release_unknown, release_revoked.
func (n *Nodes) Start(ctx context.Context, node broker.Node, o Order) (s chain.Start, err error) {
	f, err := n.fleetOf(ctx, node.ID)
	if err != nil {
		return s, err
	}
	at := agentlifecycle.Place{Node: node, Now: n.DB.Now()}
	var a broker.Agent
	a, at.Standing = f.Of(node, n.DB)
	want := f.wanted(a)
	if o.Target != "" {
		if want, err = n.named(ctx, f, o.Target); err != nil {
			return s, err
		}
	}
	at.Release = want.target()
	floor, err := n.DB.ReleaseFloor(ctx)
	if err != nil {
		return s, err
	}
	at.Floor = floor.Version
	if at.Live, err = n.Live(ctx, node.ID); err != nil {
		return s, err
	}
	if want != nil && o.PackageURL != nil {
		if at.Package, err = n.packageOf(ctx, want.Version, o.PackageURL); err != nil {
			return s, err
		}
	}
	state, locks, err := agentlifecycle.New(at, o.Request)
	if err != nil {
		return s, err
	}
	if state.List == agentlifecycle.Reimage {
		if _, err := n.reimage(ctx, state); err != nil && !(state.Safety == broker.AfterDrain &&
			broker.AsError(err).Code == "allocation_live") {
			return s, err
		}
	}
	return chain.Start{
		Kind: state.List.Kind(), Site: cmp.Or(node.Site, broker.NoSite), Subject: node.Hostname, State: state, Locks: locks,
		RequestedBy: o.RequestedBy, Role: o.Role, Reason: o.Reason, CorrelationID: o.CorrelationID,
	}, nil
}

// Named is a requested release. Codes: agent_release_unknown, release_revoked.
func (n *Nodes) Named(ctx context.Context, version string) (*Release, error) {
	all, err := n.releases(ctx)
	if err != nil {
		return nil, err
	}
	return n.named(ctx, Fleet{releases: all}, version)
}

func (n *Nodes) named(ctx context.Context, f Fleet, version string) (*Release, error) {
	at := slices.IndexFunc(f.releases, func(r Release) bool { return r.Version == version })
	if at >= 0 {
		return &f.releases[at], nil
	}
	r, err := n.DB.AgentRelease(ctx, version)
	if err != nil {
		return nil, err
	}
	return nil, revoked(r)
}

func revoked(r store.AgentRelease) error {
	return broker.Errorf(broker.Refused, string(release.CodeRevoked), "cannot deliver release %s: the release was revoked by %s: %s",
		r.Version, r.RevokedBy, taskcatalog.Clean(r.RevokedReason, 200))
}

// CheckRelease implements agentlifecycle.Nodes.
func (n *Nodes) CheckRelease(ctx context.Context, version string, allowRollback bool) error {
	r, err := n.DB.AgentRelease(ctx, version)
	switch {
	case err != nil:
		return err
	case r.Revoked():
		return revoked(r)
	}
	floor, err := n.DB.ReleaseFloor(ctx)
	if err == nil && !allowRollback && floor.Version != "" && release.Compare(version, floor.Version) < 0 {
		err = broker.Errorf(broker.Refused, string(release.CodeBelowFloor), "cannot deliver release %s: the release is below the floor %s",
			version, floor.Version)
	}
	return err
}

// packageOf is the package of a version, if one is published.
func (n *Nodes) packageOf(ctx context.Context, version string, url func(string) string) (*agentlifecycle.Package, error) {
	all, err := n.DB.Packages(ctx)
	for _, p := range all {
		if p.OfVersion(version) {
			return &agentlifecycle.Package{URL: url(p.Digest), SHA256: p.Digest[len("sha256:"):], Filename: p.Name}, nil
		}
	}
	return nil, err
}
