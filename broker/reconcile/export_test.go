package reconcile

import (
	"context"

	"github.com/hostler/hostler/broker"
)

// Due checks all sites once, and waits for the looks that the check begins.
func Due(ctx context.Context, w *Watch) error {
	err := w.due(ctx)
	w.work.Wait()
	return err
}

// Look looks at one site now.
func (w *Watch) Look(ctx context.Context, site broker.Site) error {
	mem := w.memory(site)
	mem.busy.Lock()
	defer mem.busy.Unlock()
	return w.look(ctx, site, mem, true)
}
