package terminals

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/store"
	"github.com/hostler/hostler/broker/taskqueue"
	"github.com/hostler/hostler/taskcatalog"
)

const (
	beatEvery = 3 * time.Second
	// relayDead is the silence after which a relay counts as dead.
	relayDead = 12 * time.Second
	// joinTimeout bounds how long a session without a relay waits for its node.
	joinTimeout = 2 * time.Minute
	endWithin   = 15 * time.Second
	// nodeAway is the absence after which a node is sent to its relay again. If only the connection
	// broke, the node comes back by itself before that.
	nodeAway = 10 * time.Second
)

// watch is the state of a Service's Run.
type watch struct {
	mu    sync.Mutex
	busy  map[string]bool // sessions
	group sync.WaitGroup

	lastUntold string // id of the last session whose node was to be told; only look uses this field
}

// Run checks all sessions until ctx ends.
func (d *Service) Run(ctx context.Context) error {
	tick := time.NewTicker(d.c.Tick)
	defer tick.Stop()
	defer d.watch.group.Wait()
	failing := false
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		err := d.look(ctx)
		if err != nil && !failing && ctx.Err() == nil {
			d.c.Log.Warn("cannot check terminal sessions", zap.Error(err))
		}
		failing = err != nil // so that a failure is logged once
	}
}

// Leave reports that this replica's relay has released all sessions.
func (d *Service) Leave(ctx context.Context) error {
	return d.c.DB.ForgetTerminalRelay(ctx, d.self)
}

// beat reports that the relay is alive, if the relay has sessions or needed is set, at most once
// every beatEvery.
func (d *Service) beat(ctx context.Context, needed bool) error {
	d.beating.Lock()
	defer d.beating.Unlock()
	now := d.c.DB.Now()
	if now.Sub(d.beatAt) < beatEvery || !needed && len(d.c.Relay.Sessions()) == 0 {
		return nil
	}
	if err := d.c.DB.BeatTerminalRelay(ctx, d.self, relayDead); err != nil {
		return err
	}
	d.beatAt = now
	return nil
}

func (d *Service) look(ctx context.Context) error {
	silent := d.beat(ctx, false) // sessions here are checked even if beat fails
	d.watch.mu.Lock()
	busy := maps.Clone(d.watch.busy) // rows of busy sessions may be stale
	d.watch.mu.Unlock()
	here := d.c.Relay.Sessions() // before the rows, so that a session taken meanwhile is not released
	all, err := d.c.DB.LiveTerminals(ctx)
	if err != nil {
		return err
	}
	untold, err := d.c.DB.UntoldTerminals(ctx, d.watch.lastUntold)
	if err != nil {
		return err
	}
	// Nodes that cannot be told must not block the others.
	if d.watch.lastUntold = ""; len(untold) == store.UntoldAtOnce {
		d.watch.lastUntold = untold[len(untold)-1].ID
	}
	for _, s := range untold {
		if !busy[s.ID] {
			d.runAside(s.ID, "close a terminal session on its node", func(ctx context.Context) error { return d.closeOnNode(ctx, s) })
		}
	}
	for _, st := range all {
		if busy[st.Session.ID] {
			continue
		}
		d.checkSession(ctx, st, slices.Contains(here, st.Session.ID), d.c.DB.Now())
	}
	return silent
}

// checkSession checks a live session, if this replica is responsible. checkSession ends a forbidden
// session, releases a session of another relay, disconnects a forbidden guest, sends an absent node
// to the relay again, and detaches an orphan.
func (d *Service) checkSession(ctx context.Context, st store.TerminalState, has bool, now time.Time) {
	s := st.Session
	ours := s.Replica == d.c.Address
	switch {
	case has && !ours:
		d.runAside(s.ID, "release a terminal session", func(ctx context.Context) error { return d.release(ctx, s.ID) })
		return
	case !has && !(ours && st.RelayInstance == d.self.Instance) && now.Sub(st.RelayHeard) < relayDead:
		return // its own replica is responsible
	}
	orphan := !has
	code, reason := st.EndCode, st.EndReason
	if e := st.Access.Refusal(d.c.Now()); code == "" && e != nil {
		code, reason = e.Code, e.Message
	}
	if code == "" && orphan {
		code, reason = d.orphaned(s, now)
	}
	if by := d.c.Relay.Operator(s.ID); code == "" && has && by != "" && by != s.OpenedBy {
		d.checkGuest(ctx, s.ID, by)
	}
	again := false
	if code == "" && has {
		code, reason, again = d.missing(st, now)
	}
	switch {
	case code != "":
		d.end(s, code, reason)
	case again:
		d.runAside(s.ID, "send a node to its relay again", func(ctx context.Context) error { return d.resend(ctx, s) })
	case orphan && s.Status == broker.TerminalOpen && d.settled(now) && !d.has(s.ID):
		if _, err := d.c.DB.MoveTerminalSession(ctx, broker.System, s.ID,
			store.TerminalMove{
				To: broker.TerminalDetached, Reason: "its relay is gone",
				Replica: s.Replica,
			}); err != nil && ctx.Err() == nil {
			d.c.Log.Warn("cannot detach a terminal session", zap.String("session", s.ID), zap.Error(err))
		}
	}
}

// settled reports whether this replica has run long enough to distinguish an orphan from a session
// that is being created.
func (d *Service) settled(now time.Time) bool { return now.Sub(d.began) >= beatEvery }

// orphaned says why a session without a relay ends; empty: it does not end yet.
func (d *Service) orphaned(s broker.TerminalSession, now time.Time) (code, reason string) {
	since := now.Sub(s.StatusAt)
	switch {
	case s.Status == broker.TerminalOpening && since >= joinTimeout:
		return "terminal_never_came", "the node did not connect"
	case s.Status == broker.TerminalDetached && since >= s.Limits.Detach, s.Status == broker.TerminalClosing && since >= endWithin:
		return "relay_lost", "its relay is gone, and no node or operator has joined again"
	}
	return "", ""
}

// release releases a session at this relay, if the row still names another relay.
func (d *Service) release(ctx context.Context, id string) error {
	s, err := d.c.DB.TerminalSession(ctx, id)
	if err == nil && s.Replica != d.c.Address {
		_ = d.c.Relay.Release(id) // the relay may have noticed already
	}
	return err
}

// checkGuest disconnects an operator from another operator's session if he may no longer be there.
func (d *Service) checkGuest(ctx context.Context, id, by string) {
	_, no, err := d.checkAccess(ctx, broker.OperatorToken{Name: by}, id)
	switch {
	case err != nil:
		d.c.Log.Warn("cannot check whether an operator may stay in a session", zap.String("session", id), zap.String("operator", by),
			zap.Error(err))
	case no != nil:
		d.runAside(id, "disconnect an operator", func(context.Context) error { return d.c.Relay.Detach(id, by, no.Code, no.Message) })
	}
}

// missing decides what happens to a session of this relay without its node. The session ends with a
// code if the node could not open the session, or has lost the session. Otherwise again reports
// whether the node is sent here again.
func (d *Service) missing(st store.TerminalState, now time.Time) (code, reason string, again bool) {
	since, o := d.c.Relay.AbsentSince(st.Session.ID), st.Open
	switch {
	case since.IsZero() || !o.Status.Ended() || o.Status == "": // the node is here, or on its way
		return "", "", false
	case o.Status == broker.TaskFailed && o.Outcome != taskcatalog.OutcomeInterrupted &&
		(!o.Began || o.Code == "terminal_gone" || o.Code == "terminal_ending"):
		return cmp.Or(string(o.Code), "terminal_start_failed"), "the node could not open the session: " + o.Message, false
	case !o.Began && (o.Status == broker.TaskExpired || o.Status == broker.TaskCanceled):
		return "task_" + string(o.Status), "the node could not open the session: the task is " + string(o.Status), false
	}
	return "", "", now.Sub(since) >= nodeAway && now.Sub(o.At) >= nodeAway
}

// resend sends a node to this relay once more.
func (d *Service) resend(ctx context.Context, s broker.TerminalSession) error {
	p, n, err := d.c.DB.NextTerminalOpen(ctx, s.ID)
	if err != nil {
		return err
	}
	return d.send(ctx, broker.System, s, p, n)
}

// end ends a session outside the watch's loop, because ending may take seconds.
func (d *Service) end(s broker.TerminalSession, code, reason string) {
	d.runAside(s.ID, "end a terminal session", func(ctx context.Context) error { return d.close(ctx, s.ID, code, reason) })
}

// runAside runs work for a session outside the watch's loop. While such work runs, further work for
// the same session is dropped: the watch finds it again.
func (d *Service) runAside(id, what string, do func(ctx context.Context) error) {
	d.watch.mu.Lock()
	defer d.watch.mu.Unlock()
	if d.watch.busy[id] {
		return
	}
	d.watch.busy[id] = true
	d.watch.group.Go(func() {
		ctx, done := context.WithTimeout(context.Background(), endWithin)
		defer done()
		if err := do(ctx); err != nil {
			d.c.Log.Error("cannot "+what, zap.String("session", id), zap.Error(err))
		}
		d.watch.mu.Lock()
		defer d.watch.mu.Unlock()
		delete(d.watch.busy, id)
	})
}

// close ends a session at this replica's relay, or without a relay. The watch of any replica
// notices the end and tells the node, even if the relay ended the session by itself.
func (d *Service) close(ctx context.Context, id, code, reason string) error {
	err := d.c.Relay.Close(ctx, id, code, reason)
	if broker.AsError(err).Code == "terminal_session_not_here" {
		err = d.c.Relay.Reap(ctx, id, code, reason)
	}
	return err
}

// closeOnNode tells the node, once, to end its part of a session. If the node can no longer be
// told, the session's process on the node ends by itself once no relay accepts it.
func (d *Service) closeOnNode(ctx context.Context, s broker.TerminalSession) error {
	raw, err := taskcatalog.Encode(taskcatalog.TerminalCloseParams{SessionID: s.ID, Code: taskcatalog.Code(s.EndCode)})
	if err != nil {
		return err
	}
	_, _, err = d.c.Queue.Enqueue(ctx, broker.System, taskqueue.Request{
		NodeID: s.NodeID, Type: "terminal.close", Params: raw, IdempotencyKey: fmt.Sprintf("%s/close", s.ID), CorrelationID: s.ID,
	})
	if err == nil {
		err = d.withdraw(ctx, s)
	}
	if refused := (*broker.Error)(nil); errors.As(err, &refused) && refused.Kind != broker.Internal && refused.Kind != broker.Unavailable {
		d.c.Log.Warn("cannot close a terminal session on its node", zap.String("session", s.ID), zap.String("node", s.NodeID),
			zap.Error(err))
		err = nil
	}
	if err != nil {
		return err
	}
	return d.c.DB.ToldTerminal(ctx, s.ID)
}

// withdraw cancels the waiting terminal.open tasks of a closed session.
func (d *Service) withdraw(ctx context.Context, s broker.TerminalSession) error {
	open, _, err := d.c.DB.ListTasks(ctx, store.TaskFilter{
		NodeID: s.NodeID, Type: "terminal.open", CorrelationID: s.ID,
		Statuses: []broker.TaskStatus{broker.TaskQueued, broker.TaskDispatched},
	})
	for _, k := range open {
		if _, err := d.c.Queue.Cancel(ctx, broker.System, k.ID, "its session has ended"); err != nil {
			return err
		}
	}
	return err
}
