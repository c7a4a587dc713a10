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
	// Every is how often a Watch looks whether nodes have answered, and whether it is over.
	Every = 5 * time.Second
	// machinesEvery is how often it reads each site's machines: all of them each time.
	machinesEvery = time.Minute
)

// Watch compares a restored database with what is so, until it is released. Run one in
// the process that leads.
type Watch struct {
	DB      *store.DB
	Regions *maas.Sites
	Ask     Asker
	Log     *zap.Logger

	read time.Time // when it has begun to read the machines
}

// Run looks until the database is released, or ctx ends. Where it was never restored, or
// is released, there is nothing to do.
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
