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

// Evidence is what nodes have signed, and doubt about who signed it.
type Evidence interface {
	// IdentityConflict is the last time two parties acted with the node's present identity; zero:
	// never.
	IdentityConflict(ctx context.Context, nodeID string) (time.Time, error)
	// Proof is a task of the run as a certificate shows it, with its proof.
	Proof(ctx context.Context, taskID string) (Proof, error)
}

// conflictCode is the code for two holders of one identity, used everywhere.
const conflictCode = "identity_conflict"

// alone stops a stage for a person if two parties act with the node's present identity. Either
// may have signed the run's evidence, and one may be the tenant. A new key resolves the conflict,
// or an operator accepts the conflicts seen so far.
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

// exposures are the secrets that a tenant may know and still use. A redeployed machine counts as
// having another MAAS token only if both tokens were seen and differ; if one token was never seen,
// the exposure stays and says so.
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

// lately refuses a certificate if the inspection is older than a certificate's validity: the
// machine's state since then is unknown.
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
