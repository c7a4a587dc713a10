package periodic

import (
	"context"
	"errors"
	"time"

	"go.uber.org/zap"
)

// ErrFinished is returned by a turn after which there is nothing left to do.
var ErrFinished = errors.New("the work is finished")

// Work is done once in a period.
type Work struct {
	Every time.Duration
	// AtOnce puts the first turn at the start; otherwise the first turn is one period later.
	AtOnce bool
	Turn   func(context.Context) error
	Log    *zap.Logger
	// Cannot is the line of the log that a failed turn leaves, such as "cannot sweep tasks".
	// The line is a warning, or an error where Grave is set.
	Cannot string
	Grave  bool
}

// Run repeats the work until ctx ends or a turn returns ErrFinished.
func (w Work) Run(ctx context.Context) {
	tick := time.NewTicker(w.Every)
	defer tick.Stop()
	if w.AtOnce && w.finished(ctx) {
		return
	}
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if w.finished(ctx) {
			return
		}
	}
}

// finished takes one turn and reports whether it was the last one. What fails because ctx
// ended is not logged.
func (w Work) finished(ctx context.Context) bool {
	err := w.Turn(ctx)
	switch {
	case errors.Is(err, ErrFinished):
		return true
	case err == nil || ctx.Err() != nil:
	case w.Grave:
		w.Log.Error(w.Cannot, zap.Error(err))
	default:
		w.Log.Warn(w.Cannot, zap.Error(err))
	}
	return false
}
