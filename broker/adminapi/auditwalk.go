package adminapi

import (
	"context"

	"golang.org/x/sync/singleflight"

	"github.com/hostler/hostler/broker/audit"
)

// auditWalk verifies the audit log. The log is as long as the history of the site, and every viewer
// may ask. So only one walk runs at a time, and callers that ask meanwhile share its answer.
type auditWalk struct {
	verify  func(context.Context) (audit.Report, error)
	leaving <-chan struct{} // closed when the broker stops
	flight  singleflight.Group
}

// report waits for the current walk, or for a new walk, until ctx ends. A walk outlives the caller
// that began it, because other callers may wait for the same walk.
func (w *auditWalk) report(ctx context.Context) (audit.Report, error) {
	answer := w.flight.DoChan("", func() (any, error) {
		walk, end := context.WithCancel(context.WithoutCancel(ctx))
		defer end()
		go func() {
			select {
			case <-w.leaving:
				end()
			case <-walk.Done():
			}
		}()
		return w.verify(walk)
	})
	select {
	case r := <-answer:
		report, _ := r.Val.(audit.Report)
		return report, r.Err
	case <-ctx.Done():
		return audit.Report{}, ctx.Err()
	}
}
