package terminals

import (
	"context"
	"time"

	"go.uber.org/zap"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/internal/periodic"
	"github.com/hostler/hostler/broker/store"
)

// keepEvery is the interval of searches for old recordings.
const keepEvery = time.Hour

// Retention drops recordings that exceed their site's retention period.
type Retention struct {
	DB  *store.DB
	Log *zap.Logger
}

// Run drops old recordings until ctx ends; the leader runs it.
func (r *Retention) Run(ctx context.Context) {
	periodic.Work{Every: keepEvery, AtOnce: true, Turn: r.Drop, Log: r.Log, Cannot: "cannot delete old recordings"}.Run(ctx)
}

// Drop drops all recordings beyond their site's retention period. If a site's policy is unreadable,
// the site's recordings stay.
func (r *Retention) Drop(ctx context.Context) error {
	sites, err := r.DB.TerminalSites(ctx)
	if err != nil {
		return err
	}
	before := make(map[string]time.Time, len(sites))
	for _, site := range sites {
		raw, err := r.DB.TerminalPolicy(ctx, site)
		if err != nil {
			return err
		}
		p, err := broker.TerminalPolicyOf(raw)
		if err != nil { // the site's retention is unknown
			r.Log.Warn("cannot delete old recordings of a site", zap.String("site", site), zap.Error(err))
			continue
		}
		before[site] = r.DB.Now().Add(-time.Duration(p.RetentionDays) * 24 * time.Hour)
	}
	for {
		dropped, err := r.DB.DropRecordings(ctx, broker.System, before)
		if err != nil || len(dropped) == 0 {
			return err
		}
		r.Log.Info("recordings were deleted at the end of their sites' retention time", zap.Strings("sessions", dropped))
	}
}
