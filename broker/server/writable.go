package server

import (
	"cmp"
	"context"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/hostler/hostler/broker"
)

const (
	writeEvery = 15 * time.Second // between two probes while the store can be written
	writeAgain = time.Second      // between two probes while it cannot
	writeTime  = 5 * time.Second  // a probe that takes longer has failed
)

// writable knows whether the store takes writes, from a small periodic write. A store with a full
// disk, or a read-only store, still answers every query.
type writable struct {
	probe func(context.Context) error
	often time.Duration // between two probes; zero: writeEvery
	log   *zap.Logger

	mu      sync.Mutex
	trouble error
	ended   chan error // of a probe that is overdue; nil: none
}

// Trouble is the error of the last write probe; nil: the write worked.
func (w *writable) Trouble() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.trouble
}

// run probes until ctx ends.
func (w *writable) run(ctx context.Context) error {
	for ctx.Err() == nil {
		w.look(ctx)
		wait := max(cmp.Or(w.often, writeEvery), writeAgain)
		if w.Trouble() != nil {
			wait = writeAgain
		}
		select {
		case <-ctx.Done():
		case <-time.After(wait):
		}
	}
	return nil
}

// look probes once, and waits for the probe's end no longer than writeTime. The next call waits for
// a hanging probe again: there is at most one.
func (w *writable) look(ctx context.Context) {
	if w.ended == nil {
		ended := make(chan error, 1)
		probing, done := context.WithTimeout(ctx, writeTime)
		go func() { defer done(); ended <- w.probe(probing) }()
		w.ended = ended
	}
	late := time.NewTimer(writeTime)
	defer late.Stop()
	var err error
	select {
	case err = <-w.ended:
		w.ended = nil
	case <-late.C:
		err = broker.Errorf(broker.Unavailable, "store_unavailable",
			"a small write has not ended after %s (check the database's disk and locks)", writeTime)
	}
	if ctx.Err() != nil {
		return
	}
	w.mu.Lock()
	was := w.trouble
	w.trouble = err
	w.mu.Unlock()
	switch {
	case err != nil && was == nil:
		w.log.Error("the store cannot be written", zap.Error(err))
	case err == nil && was != nil:
		w.log.Info("the store can be written again")
	}
}
