package records

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/store"
	"github.com/hostler/hostler/broker/turnover"
)

// Figures is the cost of turnovers between two times, from the records.
type Figures struct {
	From, To time.Time
	Sites    []turnover.SiteFigures
	Stages   []store.StageTime
	Slowest  []SlowCause // main causes of the slowest tenth
	Slow     int         // number of turnovers in that tenth
	// Truncated: there were more turnovers than the limit; the figures cover the last of them.
	Truncated bool
}

// SlowCause sums up the slowest turnovers of one cause.
type SlowCause struct {
	Stage, Class string
	Turnovers    int
	Took         time.Duration // at that stage
}

// Limits for one answer, however long the time.
const (
	maxOutages = 10000
	maxEvents  = 2000 // of one turnover
	maxSlow    = 200  // turnovers whose cause is looked for
)

// FiguresOf reads the figures of sites (nil: all).
func FiguresOf(ctx context.Context, db *store.DB, sites []string, from, to time.Time) (f Figures, err error) {
	f.From, f.To = from, to
	all, err := db.Outages(ctx, sites, from, to, maxOutages)
	if err != nil {
		return f, err
	}
	f.Truncated = len(all) == maxOutages
	f.Sites = turnover.BySite(all, from, to)
	if f.Stages, err = db.StageTimes(ctx, turnover.KindPrefix+"/", sites, from, to); err != nil {
		return f, err
	}
	slow := turnover.Slowest(all, to)
	f.Slow = len(slow)
	f.Slowest, err = causes(ctx, db, slow[:min(len(slow), maxSlow)], to)
	return f, err
}

func causes(ctx context.Context, db *store.DB, slow []broker.Outage, to time.Time) ([]SlowCause, error) {
	type key struct{ stage, class string }
	sum := map[key]*SlowCause{}
	for _, o := range slow {
		end := o.EndedAt
		if end.IsZero() {
			end = to
		}
		events, err := db.NodeEvents(ctx, o.NodeID, turnover.KindPrefix+"/", o.BeganAt, end, maxEvents)
		if err != nil {
			return nil, err
		}
		c := turnover.CauseOf(o, events, to)
		k := key{c.Stage, c.Class}
		if sum[k] == nil {
			sum[k] = &SlowCause{Stage: c.Stage, Class: c.Class}
		}
		sum[k].Turnovers++
		sum[k].Took += c.Took
	}
	out := []SlowCause{}
	for _, s := range sum {
		out = append(out, *s)
	}
	slices.SortFunc(out, func(a, b SlowCause) int {
		return cmp.Or(cmp.Compare(b.Took, a.Took), cmp.Compare(a.Stage, b.Stage), cmp.Compare(a.Class, b.Class))
	})
	return out, nil
}
