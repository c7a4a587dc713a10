package records

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"go.uber.org/zap"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/chain"
	"github.com/hostler/hostler/broker/internal/periodic"
	"github.com/hostler/hostler/broker/turnover"
)

// silenceEvery is how often Silence looks for runs stopped by their nodes' silence.
const silenceEvery = 15 * time.Second

// Silence reimages nodes whose agents did not answer the drain of a soft reset, if the run's
// policy asks for it: the run is cancelled, and a reimage begins in its place. If too many nodes
// would be reimaged at once, each run is left to a person. The state is read from the records, so
// a leader may die at any point: a run cancelled for this reason has its follower's id, and that
// id begins only once. Run it in the leading process.
type Silence struct {
	Starts *Starts
	Log    *zap.Logger
}

// Run looks from time to time, until ctx ends.
func (s *Silence) Run(ctx context.Context) {
	periodic.Work{Every: silenceEvery, Turn: s.look, Log: s.Log, Cannot: "cannot start reimages of silent nodes"}.Run(ctx)
}

// look takes the next action for each due run.
func (s *Silence) look(ctx context.Context) error {
	sites, err := s.Starts.DB.Sites(ctx, nil)
	for _, site := range sites {
		err = errors.Join(err, s.checkSite(ctx, site.Name))
	}
	return err
}

func (s *Silence) checkSite(ctx context.Context, site string) error {
	db := s.Starts.DB
	holds, err := db.StandingHolds(ctx, []string{site})
	if err != nil || len(holds) > 0 { // a freeze, or an unreachable site
		return err
	}
	kind := turnover.SoftReset.Kind()
	stopped, err := db.Runs(ctx, chain.Filter{
		Site: site, Kind: kind, Stage: "drain_node", Class: chain.Class(broker.AgentSilent),
		Statuses: []chain.Status{chain.FailedRetryable, chain.FailedManual}, Limit: 1000,
	})
	err = errors.Join(err, s.begin(ctx, site, stopped))
	given, failed := db.Unfollowed(ctx, site, kind, broker.System.Name, turnover.SilentCancelReason, turnover.FollowerOf(""))
	last, unread := db.LastRestore(ctx)
	if err = errors.Join(err, failed, unread); unread != nil {
		return err
	}
	for _, r := range given {
		// Before a restore: the reimage may be lost with its results.
		if r.CompletedAt.After(last.RestoredAt) {
			err = errors.Join(err, s.follow(ctx, r))
		}
	}
	return err
}

// simultaneousTime is how long a reimage counts as simultaneous; a reimage without an end counts
// longer.
const simultaneousTime = time.Hour

// begin gives up the due runs, or leaves all of them to a person if there would be too many
// reimages. The count includes the runs of this look and the earlier reimages.
func (s *Silence) begin(ctx context.Context, site string, stopped []chain.Record) (err error) {
	var due []silentRun
	for _, r := range stopped {
		d, is, failed := s.due(ctx, r)
		err = errors.Join(err, failed)
		if is {
			due = append(due, d)
		}
	}
	if len(due) == 0 {
		return err
	}
	db := s.Starts.DB
	many, failed := db.GivenUp(ctx, site, turnover.SoftReset.Kind(), broker.System.Name, turnover.SilentCancelReason,
		turnover.FollowerOf(""), db.Now().Add(-simultaneousTime))
	if failed != nil {
		return errors.Join(err, failed)
	}
	many += len(due)
	for _, d := range due {
		if d.policy.TooManySilent(many) {
			err = errors.Join(err, s.holdBack(ctx, d, many))
		} else {
			err = errors.Join(err, s.giveUp(ctx, d.Record))
		}
	}
	return err
}

// silentRun is a run stopped by its node's silence, with its policy.
type silentRun struct {
	chain.Record
	policy broker.TurnoverPolicy
}

// due reads a run that a reimage shall and can replace; false: another run.
func (s *Silence) due(ctx context.Context, r chain.Record) (d silentRun, is bool, err error) {
	state, is := turnover.SilentSoftReset(r)
	if !is {
		return d, false, nil
	}
	is, err = s.Starts.replaceable(ctx, r.ID, state)
	return silentRun{r, state.Policy}, is, err
}

// giveUp cancels a run that a reimage is to replace.
func (s *Silence) giveUp(ctx context.Context, r chain.Record) error {
	return s.orderStopped(ctx, r, chain.Order{Action: chain.Cancel, Reason: turnover.SilentCancelReason})
}

// holdBack leaves a run to a person, for good: its failure code is no longer that of silence.
func (s *Silence) holdBack(ctx context.Context, d silentRun, many int) error {
	reason, says := turnover.TooManySilentReason(d.Site, many, d.policy.SilentReimagesAtOnce)
	s.Log.Warn("a silent node is not reimaged: too many nodes would be reimaged at once", zap.String("run", d.ID),
		zap.String("site", d.Site), zap.Int("nodes", many), zap.Int("most", d.policy.SilentReimagesAtOnce))
	return s.orderStopped(ctx, d.Record, chain.Order{Action: chain.MarkManual, Reason: reason, Says: &says})
}

// orderStopped sends an order for a run as it was seen.
func (s *Silence) orderStopped(ctx context.Context, r chain.Record, o chain.Order) error {
	o.ID, o.Actor, o.Seen, o.OnlyStopped = r.ID, chain.Actor{Name: broker.System.Name}, &chain.Seen{
		Stage: r.Stage,
		Class: r.Failure.Class,
	}, true
	_, err := s.Starts.Runs.Act(ctx, o)
	return ignoreRefused(err) // somebody was faster, and their action stands
}

// follow begins the reimage in place of a cancelled run. A node that has moved since is left
// alone.
func (s *Silence) follow(ctx context.Context, r chain.Record) error {
	var state turnover.Turnover
	if err := json.Unmarshal(r.State, &state); err != nil {
		return err
	}
	n, err := s.Starts.DB.Node(ctx, state.NodeID)
	if err != nil || !turnover.UnchangedSinceCancel(r.ID, n) {
		return err
	}
	start, err := s.Starts.replacement(ctx, r.ID, n, state)
	if err != nil {
		return err
	}
	_, err = s.Starts.Runs.Start(ctx, start)
	if _, taken := errors.AsType[*chain.Locked](err); taken {
		return nil // another run has the node
	}
	return ignoreRefused(err) // the reimage exists
}

func ignoreRefused(err error) error {
	if _, no := errors.AsType[*chain.Refused](err); no {
		return nil
	}
	return err
}
