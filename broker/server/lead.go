package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	allocationrecords "github.com/hostler/hostler/broker/allocation/records"
	"github.com/hostler/hostler/broker/audit"
	"github.com/hostler/hostler/broker/availability"
	"github.com/hostler/hostler/broker/internal/periodic"
	maintenancerecords "github.com/hostler/hostler/broker/maintenance/records"
	"github.com/hostler/hostler/broker/outbox"
	"github.com/hostler/hostler/broker/outbox/nats"
	"github.com/hostler/hostler/broker/outbox/webhook"
	"github.com/hostler/hostler/broker/presence"
	"github.com/hostler/hostler/broker/reconcile"
	"github.com/hostler/hostler/broker/resolver"
	"github.com/hostler/hostler/broker/restore"
	"github.com/hostler/hostler/broker/retention"
	"github.com/hostler/hostler/broker/terminals"
	turnoverrecords "github.com/hostler/hostler/broker/turnover/records"
)

// lead does the work that one broker does for all.
func (s *Server) lead(ctx context.Context) {
	sealer := &audit.Sealer{
		DB: s.db, Signer: s.trust.StatementSigner, Keep: audit.HeadFiles{Dir: s.auditHeads}.Append,
		Log: s.c.Log.Named("audit"),
	}
	// These watches compare times written by the store's clock.
	watch := &presence.Watch{DB: s.db, Now: s.db.Now, Period: s.c.Often, Log: s.c.Log.Named("presence")}
	words := &availability.Watch{DB: s.db, Period: s.c.Often, Log: s.c.Log.Named("availability")}
	profiles := &resolver.Watch{DB: s.db, Queue: s.queue, Now: s.db.Now, Log: s.c.Log.Named("resolver")}
	keeper := &outbox.Keeper{DB: s.db, Policy: s.c.Events, Relay: s.c.NATS.Name(), Log: s.c.Log.Named("events")}
	drift := &reconcile.Watch{
		DB: s.db, Regions: s.sites, Now: s.db.Now, CheckEvery: s.c.Often, Log: s.c.Log.Named("reconcile"),
		Reseed: reconcile.Agents{Queue: s.queue}, Decommission: &turnoverrecords.Starts{DB: s.db, Runs: s.runs},
	}
	kept := &terminals.Retention{DB: s.db, Log: s.c.Log.Named("recordings")}
	old := &retention.Keeper{DB: s.db, History: s.c.History, Operations: retention.MostOperations, Log: s.c.Log.Named("retention")}
	silence := &turnoverrecords.Silence{Starts: &turnoverrecords.Starts{DB: s.db, Runs: s.runs}, Log: s.c.Log.Named("silence")}
	allocations := &allocationrecords.Watch{
		DB: s.db, Starts: &turnoverrecords.Starts{DB: s.db}, Runs: s.runs, Period: s.c.Often, Log: s.c.Log.Named("allocations"),
	}
	automatic := &turnoverrecords.Automatic{
		Starts: &turnoverrecords.Starts{DB: s.db, Runs: s.runs}, Period: s.c.Often, Log: s.c.Log.Named("automatic"),
	}
	maintenances := &maintenancerecords.Watch{
		Records: maintenancerecords.Records{DB: s.db}, Period: s.c.Often, Log: s.c.Log.Named("maintenance"),
	}
	leftovers := &turnoverrecords.Leftovers{DB: s.db, Secrets: s.secrets, Log: s.c.Log.Named("leftovers")}
	compare := &restore.Watch{DB: s.db, Regions: s.sites, Tasks: s.queue, Log: s.c.Log.Named("restore")}
	webhooks := &webhook.Deliverer{
		DB: s.db, Feed: s.events, Secrets: s.secrets, Sender: s.webhooks, Period: s.c.Often, Log: s.c.Log.Named("webhooks"),
	}
	var work sync.WaitGroup
	if s.c.NATS != nil { // a copy that is restored beside the original must not publish
		relay := &nats.Relay{Config: *s.c.NATS, Feed: s.events, Positions: s.db, Log: s.c.Log.Named("nats")}
		work.Go(func() { s.afterRelease(relay.Run)(ctx) })
	}
	for _, run := range []func(context.Context){
		sealer.Run, watch.Run, words.Run, keeper.Run, kept.Run, s.sweep, s.catchUpMachines, s.auditStrangers, compare.Run,
		s.afterRelease(drift.Run), s.afterRelease(profiles.Run), s.afterRelease(leftovers.Run), s.afterRelease(silence.Run),
		s.afterRelease(automatic.Run), s.afterRelease(old.Run), s.afterRelease(allocations.Run), s.afterRelease(webhooks.Run),
		s.afterRelease(maintenances.Run),
	} {
		work.Go(func() { run(ctx) })
	}
	work.Wait()
}

// sweepEvery is how often tasks are moved that are due by time.
const sweepEvery = 2 * time.Second

// sweep moves the tasks that are due by time, and asks nodes for tasks of unknown outcome.
func (s *Server) sweep(ctx context.Context) {
	periodic.Work{
		Every: cmp.Or(s.c.Often, sweepEvery), Log: s.c.Log, Cannot: "cannot expire old tasks",
		Turn: func(ctx context.Context) error {
			_, err := s.queue.Sweep(ctx)
			if failed := s.queue.ProbeUnknown(ctx); failed != nil {
				err = errors.Join(err, fmt.Errorf("cannot check the outcome of tasks: %w", failed))
			}
			return err
		},
	}.Run(ctx)
}

// catchUpEvery is how often nodes are looked for of which a broker of an earlier release wrote.
const catchUpEvery = time.Minute

// catchUpMachines completes what lists and look-ups read of nodes that a broker of an earlier
// release made or heard.
func (s *Server) catchUpMachines(ctx context.Context) {
	periodic.Work{
		Every: cmp.Or(s.c.Often, catchUpEvery), AtOnce: true, Log: s.c.Log, Cannot: "cannot complete the records of machines",
		Turn: func(ctx context.Context) error {
			for {
				if n, err := s.db.CatchUpMachines(ctx); n == 0 || err != nil {
					return err
				}
			}
		},
	}.Run(ctx)
}
