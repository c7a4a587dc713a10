package lifecycle

import (
	"cmp"
	"context"
	"time"

	"go.uber.org/zap"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/store"
)

// Every is how often a Watch looks that is told nothing else.
const Every = 10 * time.Second

var actor = broker.Actor{Name: "system"}

// Watch looks at all nodes every few seconds and moves them by the rules. Run
// one in the process that leads.
type Watch struct {
	DB     *store.DB
	Policy Policy        // zero: DefaultPolicy
	Period time.Duration // between two looks; zero: Every
	Now    func() time.Time
	Log    *zap.Logger

	hearing time.Time       // since when silence counts; zero: not at all yet
	alerted map[string]bool // subjects whose alert has not passed
}

// Run looks until ctx ends.
func (w *Watch) Run(ctx context.Context) error {
	tick := time.NewTicker(cmp.Or(w.Period, Every))
	defer tick.Stop()
	for {
		if err := w.Look(ctx); err != nil && ctx.Err() == nil {
			w.Log.Warn("cannot watch for silent nodes", zap.Error(err))
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// ReadFleet is the fleet as it is on record now.
func ReadFleet(ctx context.Context, db *store.DB, now time.Time) (f Fleet, err error) {
	f.Heard, f.Nodes, err = db.HeardSince(ctx, now.Add(-Overdue))
	return f, err
}

// Look reads the nodes once and moves those that the rules move.
func (w *Watch) Look(ctx context.Context) error {
	if w.Policy == (Policy{}) {
		w.Policy = DefaultPolicy
	}
	now := w.Now()
	fleet, err := ReadFleet(ctx, w.DB, now)
	if err != nil {
		w.hearing = time.Time{} // nothing that was said meanwhile was written down
		return err
	}
	alert, stopped := Stopped(now, fleet, w.Policy)
	if w.hearing.IsZero() || stopped {
		w.hearing = now
	}
	changes, alerts := Judge(now, w.hearing, fleet, w.Policy)
	if stopped {
		alerts = append(alerts, alert)
	}
	for _, c := range changes {
		_, err := w.DB.Transition(ctx, actor, c.NodeID, store.Change{From: c.From, To: c.To, By: broker.OwnerHeartbeat, Reason: c.Reason})
		if err != nil {
			return err
		}
	}
	return w.raise(ctx, alerts)
}

// raise writes each alert once, and again only after it has passed.
func (w *Watch) raise(ctx context.Context, alerts []Alert) error {
	standing := map[string]bool{}
	for _, a := range alerts {
		standing[a.Subject] = true
		if w.alerted[a.Subject] {
			continue
		}
		w.Log.Error(a.Text, zap.String("code", a.Code), zap.String("subject", a.Subject))
		err := w.DB.Audit(ctx, broker.AuditEntry{
			At: w.Now(), Actor: actor.Name, Action: "nodes.silent", Subject: a.Subject, Reason: a.Text, Code: a.Code,
		})
		if err != nil {
			return err
		}
	}
	w.alerted = standing
	return nil
}
