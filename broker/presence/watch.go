package presence

import (
	"cmp"
	"context"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/internal/periodic"
	"github.com/hostler/hostler/broker/store"
)

// Every is the default period of a Watch.
const Every = 10 * time.Second

// Watch looks at all nodes every few seconds and moves them by the rules. Run one Watch in the
// leading process.
type Watch struct {
	DB     *store.DB
	Policy Policy        // zero: DefaultPolicy
	Period time.Duration // between two looks; zero: Every
	Now    func() time.Time
	Log    *zap.Logger

	hearing time.Time // since when silence counts; zero: not at all yet
}

// Run looks until ctx ends.
func (w *Watch) Run(ctx context.Context) {
	periodic.Work{Every: cmp.Or(w.Period, Every), AtOnce: true, Turn: w.Look, Log: w.Log, Cannot: "cannot check for silent nodes"}.Run(ctx)
}

// ReadFleet reads the fleet from the store.
func ReadFleet(ctx context.Context, db *store.DB, now time.Time) (f Fleet, err error) {
	f.Heard, f.Nodes, err = db.HeardSince(ctx, now.Add(-Overdue))
	return f, err
}

// Look reads the nodes once and moves them by the rules.
func (w *Watch) Look(ctx context.Context) error {
	if w.Policy == (Policy{}) {
		w.Policy = DefaultPolicy
	}
	now := w.Now()
	fleet, err := ReadFleet(ctx, w.DB, now)
	if err != nil {
		w.hearing = time.Time{} // contacts meanwhile were not recorded
		return err
	}
	fleet.ReadAt = w.Now()
	alert, stopped := Stopped(now, fleet, w.Policy)
	if w.hearing.IsZero() || stopped {
		w.hearing = now
	}
	changes, alerts := Judge(now, w.hearing, fleet, w.Policy)
	if stopped {
		alerts = append(alerts, alert)
	}
	for _, c := range changes {
		_, err := w.DB.Transition(ctx, broker.System, c.NodeID,
			store.Change{From: c.From, To: c.To, By: broker.OwnerHeartbeat, Reason: c.Reason})
		if err != nil {
			return err
		}
	}
	return w.raise(ctx, alerts, now.Sub(w.hearing) > w.Policy.Silence)
}

// raise reports each alert once, and again only after it has ended. judged is true if this broker
// has heard agents for long enough to find a node silent. If not, a recorded silence of a site that
// is not found now counts as ongoing.
func (w *Watch) raise(ctx context.Context, alerts []Alert, judged bool) error {
	var stand []store.Silence
	for _, a := range alerts {
		stand = append(stand, store.Silence{Site: a.Site, Code: a.Code, Text: a.Text})
	}
	if !judged {
		before, err := w.DB.Silences(ctx)
		if err != nil {
			return err
		}
		for _, b := range before {
			if b.Code == SiteSilent && !slices.ContainsFunc(alerts, func(a Alert) bool { return a.Code == b.Code && a.Site == b.Site }) {
				stand = append(stand, b)
			}
		}
	}
	began, err := w.DB.SaveSilences(ctx, broker.System, stand)
	for _, s := range began {
		w.Log.Error(s.Text, zap.String("code", s.Code), zap.String("site", s.Site))
	}
	return err
}
