package reconcile

import "context"

// Due checks all sites once, and waits for the looks that the check begins.
func Due(ctx context.Context, w *Watch) error {
	err := w.due(ctx)
	w.work.Wait()
	return err
}
