package reconcile

import "context"

// Due is one glance at all sites, and the end of the looks that it begins.
func Due(ctx context.Context, w *Watch) error {
	err := w.due(ctx)
	w.work.Wait()
	return err
}
