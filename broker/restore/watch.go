package restore

import (
	"context"
	"errors"
	"time"

	"go.uber.org/zap"

	"github.com/hostler/hostler/broker/internal/periodic"
	"github.com/hostler/hostler/broker/maas"
	"github.com/hostler/hostler/broker/store"
)

const (
	// Every is how often a Watch checks whether nodes have answered, and whether the database is
	// released.
	Every = 5 * time.Second
	// machinesEvery is how often a Watch reads all machines of each site.
	machinesEvery = time.Minute
)

// Watch compares a restored database with machines and nodes, until the database is released. Run
// one Watch in the leading process.
type Watch struct {
	DB      *store.DB
	Regions *maas.Sites
	Tasks   Enqueuer
	Log     *zap.Logger

	read time.Time // start of the latest read of the machines
}

// Run looks until the database is released, or ctx ends. For a database that was never restored, or
// is released, Run does nothing.
func (w *Watch) Run(ctx context.Context) {
	periodic.Work{Every: Every, AtOnce: true, Turn: w.turn, Log: w.Log, Cannot: "cannot compare the restored database"}.Run(ctx)
}

func (w *Watch) turn(ctx context.Context) error {
	last, err := w.DB.LastRestore(ctx)
	switch {
	case err != nil:
		return err
	case !last.Held():
		return periodic.ErrFinished
	}
	return w.Look(ctx, last)
}

// Look compares once.
func (w *Watch) Look(ctx context.Context, last store.Restore) (err error) {
	if now := w.DB.Now(); now.Sub(w.read) >= machinesEvery {
		w.read = now
		err = w.machines(ctx, last.RestoredAt)
	}
	return errors.Join(err, w.ledgers(ctx, last))
}
