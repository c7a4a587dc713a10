package retention

import (
	"context"
	"errors"
	"time"

	"go.uber.org/zap"

	"github.com/hostler/hostler/broker/internal/periodic"
	"github.com/hostler/hostler/broker/store"
	"github.com/hostler/hostler/broker/turnover"
)

const (
	// Certificates is how long a node certificate stays on record after it ran out, where
	// a later one is for the same key: longer than it may still renew (30 days).
	Certificates = 45 * 24 * time.Hour

	every = time.Hour
	batch = 500 // rows in one transaction: others write, too
	fewer = 50  // of rows of a hundred kilobytes
)

// Keeper removes what is old. The leader runs one.
type Keeper struct {
	DB      *store.DB
	History Policy // of tasks, runs, terminals, holds and baselines
	Log     *zap.Logger
}

// Run removes what is old each hour, until ctx ends, and nothing in the first: a machine that
// has just started may not have the time yet, and of brokers that are given another policy
// one by one this may be the last to have it.
func (k *Keeper) Run(ctx context.Context) {
	periodic.Work{Every: every, Turn: k.Drop, Log: k.Log, Cannot: "cannot drop what is old"}.Run(ctx)
}

// Drop removes what is old by now.
func (k *Keeper) Drop(ctx context.Context) error {
	return errors.Join(k.certificates(ctx), k.history(ctx))
}

func (k *Keeper) certificates(ctx context.Context) error {
	for {
		n, err := k.DB.DropCertificates(ctx, k.DB.Now().Add(-Certificates), batch)
		if err != nil || n < batch {
			return err
		}
	}
}

// history removes tasks, then the runs that have none left, then sessions of terminals, holds
// that no run stands still in, and baselines that no node has.
func (k *Keeper) history(ctx context.Context) (errs error) {
	keep := k.History.keep()
	if keep == 0 {
		return nil
	}
	old := store.History{Before: k.DB.Now().Add(-keep), Mark: turnover.FollowerOf("")}
	for _, drop := range []func(context.Context, store.History, store.HistoryPage, int) (*store.HistoryPage, error){k.DB.DropTasks, k.DB.DropRuns, k.DB.DropTerminals} {
		next := &store.HistoryPage{}
		for next != nil && ctx.Err() == nil {
			var err error
			next, err = drop(ctx, old, *next, batch)
			errs = errors.Join(errs, err) // one page keeps none behind it
		}
	}
	return errors.Join(errs, until(ctx, k.DB.DropHolds, old.Before, batch), until(ctx, k.DB.DropBaselines, old.Before, fewer))
}

// until drops so many at a time until there are no more.
func until(ctx context.Context, drop func(context.Context, time.Time, int) (int64, error), before time.Time, limit int) error {
	for ctx.Err() == nil {
		n, err := drop(ctx, before, limit)
		if err != nil || n < int64(limit) {
			return err
		}
	}
	return nil
}
