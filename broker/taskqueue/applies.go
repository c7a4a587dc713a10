package taskqueue

import (
	"context"
	"encoding/json"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/pki"
	"github.com/hostler/hostler/taskcatalog"
	"github.com/hostler/hostler/taskcatalog/wire"
)

// applies refuses a validation that calls a check not applicable although the node's baseline has
// settings for the check, has no row for it, or is missing: a lost BMC, for example, is a finding.
func (q *Queue) applies(ctx context.Context, k broker.Task, p Peer, r wire.ResultRequest) error {
	var asked taskcatalog.ValidateCleanParams
	if err := json.Unmarshal(k.Params, &asked); err != nil || asked.TakeBaseline {
		return err
	}
	ev, err := pki.VerifyEvidence([]byte(r.Evidence), p.Key)
	if err != nil {
		return err
	}
	var base *taskcatalog.Baseline
	for _, c := range ev.Checks {
		if !c.NotApplicable {
			continue
		}
		if base == nil {
			n, err := q.c.DB.Node(ctx, k.NodeID)
			if err != nil {
				return err
			}
			if base, err = q.baseline(ctx, n); err != nil {
				return err
			}
		}
		if base == nil || base.PlatformRow(c.Name) == nil || len(base.PlatformRow(c.Name).Settings) > 0 {
			return untrustedEvidence(k, "evidence_checks", "the node reports that the check "+c.Name+
				" does not apply, and the baseline requires the check")
		}
	}
	return nil
}
