package availability

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/hostler/hostler/broker/store"
)

// Every is the default time between two sweeps.
const Every = 30 * time.Second

// sweepFrom is the number of hinted nodes from which one sweep is cheaper.
const sweepFrom = 200

// Watch keeps the record. Run one Watch, in the leading process.
type Watch struct {
	DB     *store.DB
	Period time.Duration // between two sweeps; zero: Every
	Log    *zap.Logger
}

// Run judges nodes until ctx ends.
func (w *Watch) Run(ctx context.Context) {
	hints := w.DB.Hints(ctx)
	tick := time.NewTicker(cmp.Or(w.Period, Every))
	defer tick.Stop()
	work := hinted{all: true}
	for {
		if err := w.judge(ctx, work); err != nil && ctx.Err() == nil {
			w.Log.Warn("cannot renew the availability of nodes", zap.Error(err))
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			work = hinted{all: true}
		case h, open := <-hints:
			if !open {
				hints = nil // the store is closing
			}
			work = hinted{}
			work.add(h)
			for range len(hints) {
				work.add(<-hints)
			}
		}
	}
}

func (w *Watch) judge(ctx context.Context, work hinted) error {
	switch {
	case work.needsSweep():
		_, err := w.DB.SweepAvailability(ctx)
		return err
	case len(work.nodes) > 0:
		_, err := w.DB.RenewAvailability(ctx, slices.Sorted(maps.Keys(work.nodes)))
		return err
	}
	return nil
}

// hinted are the nodes to judge.
type hinted struct {
	all   bool
	nodes map[string]bool
}

func (w *hinted) needsSweep() bool { return w.all || len(w.nodes) >= sweepFrom }

func (w *hinted) add(h store.Hint) {
	switch {
	case !h.Is(store.HintNode):
	case h.ID == "":
		w.all = true
	case w.nodes == nil:
		w.nodes = map[string]bool{h.ID: true}
	default:
		w.nodes[h.ID] = true
	}
}
