package turnover

import (
	"context"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/certificate"
	"github.com/hostler/hostler/broker/chain"
	"github.com/hostler/hostler/broker/taskstage"
)

// Evidence is what nodes have signed, and doubt about who signed it.
type Evidence interface {
	// IdentityConflict is the last time two parties acted with the node's present identity; zero:
	// never.
	IdentityConflict(ctx context.Context, nodeID string) (time.Time, error)
	// Proof is a task of the run as a certificate shows it, with its proof.
	Proof(ctx context.Context, taskID string) (Proof, error)
}

// exposures are the secrets that a tenant may know and still use. A redeployed machine counts as
// having another MAAS token only if both tokens were seen and differ; if one token was never seen,
// the exposure stays and says so.
func exposures(s *Turnover, n broker.Node, env certificate.Environment) []certificate.Exposure {
	why := "the machine's own MAAS token is unchanged: only another deployment changes it"
	switch rc := s.Machine.Reclaim; {
	case n.MAASSystemID == "":
		return nil
	case env != certificate.FreshOS:
	case rc != nil && rc.TokenDiffers:
		return nil
	default:
		why = "it is not known whether the machine's own MAAS token changed: MAAS did not report both tokens"
	}
	return []certificate.Exposure{{Code: certificate.ExposureMAASToken, Message: why}}
}

// refuseStale refuses a certificate if the inspection is older than a certificate's validity: the
// machine's state since then is unknown.
func (c *Chains) refuseStale(do func(context.Context, *run) error) func(context.Context, *run) error {
	return func(ctx context.Context, r *run) error {
		looked, did := r.State.lastTask("validate_clean_node")
		if !did {
			return do(ctx, r)
		}
		t, err := c.Nodes.Proof(ctx, looked.ID)
		if err != nil {
			return taskstage.Records(err)
		}
		if valid := time.Duration(r.State.Policy.CertificateValidSeconds) * time.Second; r.Now.Sub(t.EndedAt) >= valid {
			return chain.Fail(untrusted, "node %s was last checked at %s, longer ago than a certificate is valid", r.State.NodeID,
				t.EndedAt.Format(time.RFC3339)).
				With("evidence_stale", map[string]any{"task_id": looked.ID, "at": t.EndedAt}).
				Next("rerun: the node is cleaned and checked again")
		}
		return do(ctx, r)
	}
}
