package turnover

import (
	"context"

	"github.com/hostler/hostler/broker/asking"
	"github.com/hostler/hostler/broker/certificate"
)

// accepted takes over what an operator has said of downgrades in this run: of that
// disk, for what was asked and done when they said so. Whatever is done to it instead is
// for them to see again.
func (c *Chains) accepted(ctx context.Context, r *run, out *certificate.Clean) error {
	all, err := c.Nodes.Accepted(ctx, r.ID)
	if err != nil {
		return asking.Records(err)
	}
	for _, a := range all {
		for i := range out.Downgrades {
			if d := &out.Downgrades[i]; d.AcceptedBy == "" && d.Device == a.Device && d.Asked == a.Asked && d.Did == a.Did {
				d.AcceptedBy, d.Because = a.AcceptedBy, a.Because
			}
		}
	}
	return nil
}
