package taskqueue

import (
	"context"
	"slices"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/store"
	"github.com/hostler/hostler/taskcatalog"
	"github.com/hostler/hostler/taskcatalog/release"
)

// release adds the sources and the signatures of a release; a caller names only the version. The
// floor is added, because the node enforces it as well. Codes: agent_release_unknown,
// release_revoked, release_below_floor.
func (q *Queue) release(ctx context.Context, n broker.Node, p *taskcatalog.SelfUpdateParams) error {
	floor, err := q.c.DB.ReleaseFloor(ctx)
	if err != nil {
		return err
	}
	p.Manifest, p.Source, p.Signatures, p.Floor = nil, nil, nil, floor.Version // only the broker sets these
	switch {
	case (p.AllowRollback || p.Force) && p.Reason == "":
		return broker.Errorf(broker.Invalid, "reason_missing", "cannot update the agent of node %s: allow_rollback and force need a reason",
			n.ID)
	case p.Version == "" && p.Phase == taskcatalog.PhaseRollback:
		if err := q.fillPrevious(ctx, n, p); err != nil || p.Version == "" {
			return err
		}
	case p.Version == "":
		return broker.Errorf(broker.Invalid, string(taskcatalog.CodeBadParams),
			"cannot update the agent of node %s: the request names no version", n.ID)
	}
	r, err := q.c.DB.AgentRelease(ctx, p.Version)
	switch {
	case p.Phase == taskcatalog.PhaseRollback && broker.AsError(err).Kind == broker.NotFound:
		return nil // perhaps dpkg's version; the node checks its presence, and the floor
	case err != nil:
		return err
	case r.Revoked():
		return broker.Errorf(broker.Refused, string(release.CodeRevoked),
			"cannot deliver release %s to node %s: the release was revoked by %s: %s", r.Version, n.ID, r.RevokedBy,
			taskcatalog.Clean(r.RevokedReason, 200))
	case p.Floor != "" && release.Compare(r.Version, p.Floor) < 0 && !p.AllowRollback:
		return broker.Errorf(broker.Refused, string(release.CodeBelowFloor),
			"cannot deliver release %s to node %s: the release is below the floor %s (to roll back nevertheless: allow_rollback with a reason)", r.Version, n.ID, p.Floor)
	}
	p.Manifest = &taskcatalog.ReleaseManifest{Digest: r.Digest, Size: int64(len(r.Manifest))}
	if r.Reference != "" {
		if p.Source, err = q.source(ctx, r); err != nil {
			return err
		}
	}
	for _, s := range r.Signatures {
		p.Signatures = append(p.Signatures, taskcatalog.ReleaseSignature(s))
	}
	return nil
}

// fillPrevious sets the previous version that a node has reported, so that a rollback is judged
// like any other version. Without a report the target of a rollback is unknown: the version stays
// empty if no revoked release could be the target. Code: rollback_version_missing.
func (q *Queue) fillPrevious(ctx context.Context, n broker.Node, p *taskcatalog.SelfUpdateParams) error {
	a, err := q.c.DB.Agent(ctx, n.ID)
	if err != nil {
		return err
	}
	if release.ValidVersion(a.Previous) {
		p.Version = a.Previous
		return nil
	}
	all, err := q.c.DB.AgentReleases(ctx, "")
	if i := slices.IndexFunc(all, func(r store.AgentRelease) bool { return r.Revoked() }); i >= 0 {
		return broker.Errorf(broker.Refused, "rollback_version_missing",
			"cannot roll back the agent of node %s: the node did not report its earlier version, and release %s is revoked (name the version to roll back to)", n.ID, all[i].Version)
	}
	return err
}

// source is the registry of a release. If the broker has an account there, a credential is minted
// for the node.
func (q *Queue) source(ctx context.Context, r store.AgentRelease) (*taskcatalog.ReleaseSource, error) {
	s := &taskcatalog.ReleaseSource{Repository: r.Reference, PlainHTTP: r.PlainHTTP}
	host, _ := broker.RegistryOf(r.Reference, r.PlainHTTP)
	switch _, err := q.c.DB.RegistryCredential(ctx, host); {
	case err == nil:
		s.Credential = taskcatalog.CredentialOCIPull
	case broker.AsError(err).Kind != broker.NotFound:
		return nil, err
	}
	return s, nil
}
