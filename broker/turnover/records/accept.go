package records

import (
	"context"

	"github.com/hostler/hostler/broker/certificate"
)

// Accepted implements turnover.Nodes. The prefix "operator" keeps an operator's name from being
// taken for the policy.
func (n *Nodes) Accepted(ctx context.Context, runID string) (out []certificate.Downgrade, err error) {
	all, err := n.DB.AcceptedDowngrades(ctx, runID)
	for _, a := range all {
		out = append(out, certificate.Downgrade{
			Device: a.Device, Asked: certificate.Method(a.Asked), Did: certificate.Method(a.Did), AcceptedBy: "operator " + a.By,
			Because: a.Reason,
		})
	}
	return out, err
}
