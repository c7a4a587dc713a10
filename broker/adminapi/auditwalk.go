package adminapi

import (
	"context"

	"golang.org/x/sync/singleflight"

	"github.com/hostler/hostler/broker/audit"
)

// auditWalk verifies the audit log, which is as long as the history of the site
// and open to every viewer: once at a time, and whoever asks meanwhile gets the
// same answer.
type auditWalk struct {
	verify  func(context.Context) (audit.Report, error)
	leaving <-chan struct{} // closed when the broker stops
	one     singleflight.Group
}

// report waits for the walk that goes on, or for a new one, until ctx ends. A
// walk outlives whoever began it, for those who wait with them.
func (w *auditWalk) report(ctx context.Context) (audit.Report, error) {
	answer := w.one.DoChan("", func() (any, error) {
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
