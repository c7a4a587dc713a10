package turnover

import (
	"context"

	"github.com/hostler/hostler/broker/certificate"
	"github.com/hostler/hostler/broker/taskstage"
)

// accepted marks the certificate's downgrades that an operator accepted in this run. An acceptance
// covers one disk, one requested method and one applied method. After another treatment the
// operator must decide again.
func (c *Chains) accepted(ctx context.Context, r *run, out *certificate.Clean) error {
	all, err := c.Nodes.Accepted(ctx, r.ID)
	if err != nil {
		return taskstage.Records(err)
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
