package turnover

import (
	"context"
	"strings"
	"time"

	"github.com/hostler/hostler/broker/chain"
	"github.com/hostler/hostler/broker/taskstage"
)

// conflictCode is the code for two holders of one identity, used everywhere.
const conflictCode = "identity_conflict"

// refuseConflict stops a stage for a person if two parties act with the node's present identity.
// Either may have signed the run's evidence, and one may be the tenant. A new key resolves the
// conflict, or an operator accepts the conflicts seen so far.
func (c *Chains) refuseConflict(s stage) stage {
	do := s.Do
	s.Do = func(ctx context.Context, r *run) error {
		seen, err := c.Nodes.IdentityConflict(ctx, r.State.NodeID)
		if err != nil {
			return taskstage.Records(err)
		}
		if r.Accepts(conflictCode) {
			r.State.ConflictTaken = r.State.ConflictAt
		}
		if seen.After(r.State.ConflictTaken) {
			r.State.ConflictAt = seen
			anew := "rerun, which gives the node another key, or cancel and " + reimage
			if r.State.Mode == Reimage {
				anew = "restart-clean, which deploys the machine again"
			}
			return chain.Fail(ambiguity, "node %s: at %s two machines used its identity, and either may have signed the evidence",
				r.State.NodeID, seen.Format(time.RFC3339)).
				With(conflictCode, map[string]any{"at": seen}).
				Next("find out which other machine has the key of node %s; then %s", r.State.Hostname,
					strings.ReplaceAll(anew, "NODE", r.State.Hostname))
		}
		return do(ctx, r)
	}
	return s
}
