package server

import (
	"context"

	"golang.org/x/sync/errgroup"
)

// parts are the goroutines of a running broker. Each part runs until the work context ends. A part
// that fails earlier cancels only failed; the reader of failed decides how the other parts are
// stopped.
type parts struct {
	work   context.Context
	group  *errgroup.Group
	failed context.Context // cancelled with the error of the part that failed first
}

func newParts(work context.Context) *parts {
	group, failed := errgroup.WithContext(work)
	return &parts{work: work, group: group, failed: failed}
}

// start runs a part. An error after the end of the work is no failure.
func (p *parts) start(part func(context.Context) error) {
	p.group.Go(func() error {
		if err := part(p.work); p.work.Err() == nil {
			return err
		}
		return nil
	})
}

// wait returns when every part has returned. The work's context must have ended.
func (p *parts) wait() { _ = p.group.Wait() } // the error is the cause of failed
