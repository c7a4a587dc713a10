package turnover

import (
	"context"
	"strings"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/asking"
	"github.com/hostler/hostler/broker/certificate"
	"github.com/hostler/hostler/broker/chain"
)

// conflictCode is what two holders of one identity are called everywhere.
const conflictCode = "identity_conflict"

// alone stops a stage for a person where two act with the identity that the node has by
// now: either may have signed what the run goes by, and one of them may be its tenant.
// Another key settles that. Or a person answers for it, for what was seen by then.
func (c *Chains) alone(s stage) stage {
	do := s.Do
	s.Do = func(ctx context.Context, r *run) error {
		seen, err := c.Nodes.IdentityConflict(ctx, r.State.NodeID)
		if err != nil {
			return asking.Records(err)
		}
		if r.Accepts(conflictCode) {
			r.State.ConflictTaken = r.State.ConflictAt
		}
		if seen.After(r.State.ConflictTaken) {
			r.State.ConflictAt = seen
			anew := "rerun, which gives it another, or cancel and " + reimage
			if r.State.Mode == Reimage {
				anew = "restart-clean, which deploys it anew"
			}
			return chain.Fail(ambiguity, "node %s: at %s two had its identity, and either may have signed that it is clean", r.State.NodeID, seen.Format(time.RFC3339)).
				With(conflictCode, map[string]any{"at": seen}).
				Next("find out who else has the key of node %s; then %s", r.State.Hostname, strings.ReplaceAll(anew, "NODE", r.State.Hostname))
		}
		return do(ctx, r)
	}
	return s
}

// exposures are what a tenant may know and still use. That a machine which was deployed
// anew has another token of MAAS's is not taken from the order of things, but from both
// tokens: where one of them was never seen, that is said.
func exposures(s *Turnover, n broker.Node, env certificate.Environment) []certificate.Exposure {
	why := "the machine's own MAAS token is that of before: it can only be changed by another deployment"
	switch rc := s.Machine.Reclaim; {
	case n.MAASSystemID == "":
		return nil
	case env != certificate.FreshOS:
	case rc != nil && rc.TokenDiffers:
		return nil
	default:
		why = "nobody has seen that the machine's own MAAS token is another than before: MAAS did not tell of both"
	}
	return []certificate.Exposure{{Code: certificate.ExposureMAASToken, Message: why}}
}

// lately holds a certificate back for which the node was looked at so long ago that it
// would be stale: what has become of the machine since nobody knows.
func (c *Chains) lately(do func(context.Context, *run) error) func(context.Context, *run) error {
	return func(ctx context.Context, r *run) error {
		looked, did := r.State.of("validate_clean_node")
		if !did {
			return do(ctx, r)
		}
		t, err := c.Nodes.Proof(ctx, looked.ID)
		if err != nil {
			return asking.Records(err)
		}
		if valid := time.Duration(r.State.Policy.CertificateValidSeconds) * time.Second; r.Now.Sub(t.EndedAt) >= valid {
			return chain.Fail(untrusted, "node %s was last looked at %s, longer ago than a certificate is good for", r.State.NodeID, t.EndedAt.Format(time.RFC3339)).
				With("evidence_stale", map[string]any{"task_id": looked.ID, "at": t.EndedAt}).
				Next("rerun: the node is cleaned and looked at again")
		}
		return do(ctx, r)
	}
}
