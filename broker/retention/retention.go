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
	// Certificates is how long a node certificate stays on record after its expiry, if a later
	// certificate exists for the same key. It is longer than the certificate may still renew (30
	// days).
	Certificates = 45 * 24 * time.Hour

	every = time.Hour
	batch = 500 // rows in one transaction, because others write too
	fewer = 50  // for rows of a hundred kilobytes

	// MostOperations is how many ended operations of a project, and of the platform, stay.
	MostOperations = 5000
)

// Keeper deletes old rows. Only the leader runs a Keeper.
type Keeper struct {
	DB      *store.DB
	History Policy // of tasks, runs, terminals, holds and baselines
	// Operations is how many ended operations of a project, and of the platform, stay, whatever their age;
	// 0: all.
	Operations int
	Log        *zap.Logger
}

// Run deletes old rows each hour until ctx ends, and nothing in the first hour. A machine that has
// just started may not have the right time yet. And when brokers get a new policy one by one, this
// broker may be the last.
func (k *Keeper) Run(ctx context.Context) {
	periodic.Work{Every: every, Turn: k.Drop, Log: k.Log, Cannot: "cannot delete old records"}.Run(ctx)
}

// Drop removes what is old by now.
func (k *Keeper) Drop(ctx context.Context) error {
	return errors.Join(k.certificates(ctx), k.surplus(ctx), k.history(ctx))
}

// surplus deletes operations beyond the number that stays. A project begins as many as it likes, so that their age
// alone bounds nothing.
func (k *Keeper) surplus(ctx context.Context) error {
	for k.Operations > 0 && ctx.Err() == nil {
		if n, err := k.DB.DropSurplusOperations(ctx, k.Operations, fewer); err != nil || n < fewer {
			return err
		}
	}
	return nil
}

func (k *Keeper) certificates(ctx context.Context) error {
	for {
		n, err := k.DB.DropCertificates(ctx, k.DB.Now().Add(-Certificates), batch)
		if err != nil || n < batch {
			return err
		}
	}
}

// history deletes tasks, then runs without any tasks left, then terminal sessions, operations without
// their last run, holds that stop no run, and baselines that no node has.
func (k *Keeper) history(ctx context.Context) (errs error) {
	keep := k.History.keep()
	if keep == 0 {
		return nil
	}
	old := store.History{Before: k.DB.Now().Add(-keep), Mark: turnover.FollowerOf("")}
	for _, drop := range []func(context.Context, store.History, store.HistoryPage, int) (*store.HistoryPage, error){
		k.DB.DropTasks,
		k.DB.DropRuns, k.DB.DropTerminals, k.DB.DropOperations,
	} {
		next := &store.HistoryPage{}
		for next != nil && ctx.Err() == nil {
			var err error
			next, err = drop(ctx, old, *next, batch)
			errs = errors.Join(errs, err) // a failed page does not keep the next pages
		}
	}
	return errors.Join(errs, until(ctx, k.DB.DropHolds, old.Before, batch), until(ctx, k.DB.DropBaselines, old.Before, fewer))
}

// until calls drop with a limit until there is nothing left.
func until(ctx context.Context, drop func(context.Context, time.Time, int) (int64, error), before time.Time, limit int) error {
	for ctx.Err() == nil {
		n, err := drop(ctx, before, limit)
		if err != nil || n < int64(limit) {
			return err
		}
	}
	return nil
}
