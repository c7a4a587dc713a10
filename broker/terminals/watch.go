package terminals

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/store"
	"github.com/hostler/hostler/broker/taskqueue"
	"github.com/hostler/hostler/taskcatalog"
	"github.com/hostler/hostler/taskcatalog/wire/frame"
)

const (
	beatEvery = 3 * time.Second
	// relayDead is how long a relay is not heard of that does not live any more.
	relayDead = 12 * time.Second
	// neverCame is how long a session waits for its node where no relay waits for it.
	neverCame = 2 * time.Minute
	endWithin = 15 * time.Second
)

// watch is what a desk is at work on.
type watch struct {
	mu     sync.Mutex
	ending map[string]bool // sessions
	group  sync.WaitGroup
}

// Run holds the sessions to what may end them, until ctx ends.
func (d *Desk) Run(ctx context.Context) error {
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
			d.c.Log.Warn("cannot look at terminal sessions", zap.Error(err))
		}
		failing = err != nil // it is said once
	}
}

// Leave says that this replica's relay has let go of its sessions.
func (d *Desk) Leave(ctx context.Context) error {
	return d.c.DB.ForgetTerminalRelay(ctx, d.c.Address)
}

// beat says that the relay lives, where it has sessions or is about to.
func (d *Desk) beat(ctx context.Context, needed bool) error {
	d.beating.Lock()
	defer d.beating.Unlock()
	now := d.c.DB.Now()
	if now.Sub(d.beatAt) < beatEvery || !needed && len(d.c.Relay.Sessions()) == 0 {
		return nil
	}
	if err := d.c.DB.BeatTerminalRelay(ctx, d.c.Address); err != nil {
		return err
	}
	d.beatAt = now
	return nil
}

func (d *Desk) look(ctx context.Context) error {
	if err := d.beat(ctx, false); err != nil {
		return err
	}
	here := d.c.Relay.Sessions() // before the rows are read: of these, they say by now whose they are
	all, err := d.c.DB.LiveTerminals(ctx)
	if err != nil {
		return err
	}
	for _, st := range all {
		d.hold(ctx, st, slices.Contains(here, st.Session.ID), d.c.DB.Now())
	}
	return nil
}

// hold ends one session if it must not go on, where that is this replica's to do.
func (d *Desk) hold(ctx context.Context, st store.TerminalState, has bool, now time.Time) {
	s := st.Session
	ours := s.Replica == d.c.Address
	switch {
	case has && !ours:
		_ = d.c.Relay.Release(s.ID)
		return
	case !has && !ours && now.Sub(st.RelayHeard) < relayDead:
		return // its own replica's
	}
	orphan := !has
	code, reason := st.EndCode, st.EndReason
	if e := st.Access.Refusal(d.c.Now()); code == "" && e != nil {
		code, reason = e.Code, e.Message
	}
	if code == "" && st.Failed != "" && s.Status != broker.TerminalOpen && !d.nodeHere(s.ID) {
		code, reason = st.Failed, "the node could not open it: "+st.FailedText
	}
	if code == "" && orphan {
		code, reason = d.orphaned(s, now)
	}
	switch {
	case code != "":
		d.end(s, code, reason)
	case orphan && s.Status == broker.TerminalOpen && d.settled(now) && !d.has(s.ID):
		if _, err := d.c.DB.MoveTerminalSession(ctx, system, s.ID, store.TerminalMove{To: broker.TerminalDetached, Reason: "its relay is gone"}); err != nil && ctx.Err() == nil {
			d.c.Log.Warn("cannot detach a terminal session", zap.String("session", s.ID), zap.Error(err))
		}
	}
}

// nodeHere reports whether the node's side of a session is at this replica's relay.
func (d *Desk) nodeHere(id string) bool {
	state, err := d.c.Relay.State(id)
	return err == nil && state.Node == frame.NodeHere
}

// settled reports whether this replica has been there for long enough to tell an orphan
// from a session that is being made.
func (d *Desk) settled(now time.Time) bool { return now.Sub(d.began) >= beatEvery }

// orphaned says why a session ends that no relay has; empty: it does not yet.
func (d *Desk) orphaned(s broker.TerminalSession, now time.Time) (code, reason string) {
	since := now.Sub(s.StatusAt)
	switch {
	case s.Status == broker.TerminalOpening && since >= neverCame:
		return "terminal_never_came", "the node did not connect"
	case s.Status == broker.TerminalDetached && since >= s.Limits.Detach, s.Status == broker.TerminalClosing && since >= endWithin:
		return "relay_lost", "its relay is gone, and nobody has joined it again"
	}
	return "", ""
}

// end ends a session beside the watch: it may take seconds.
func (d *Desk) end(s broker.TerminalSession, code, reason string) {
	d.watch.mu.Lock()
	defer d.watch.mu.Unlock()
	if d.watch.ending[s.ID] {
		return
	}
	d.watch.ending[s.ID] = true
	d.watch.group.Go(func() {
		ctx, done := context.WithTimeout(context.Background(), endWithin)
		defer done()
		if err := d.close(ctx, s.ID, code, reason); err != nil {
			d.c.Log.Error("cannot end a terminal session", zap.String("session", s.ID), zap.String("code", code), zap.Error(err))
		}
		d.watch.mu.Lock()
		defer d.watch.mu.Unlock()
		delete(d.watch.ending, s.ID)
	})
}

// close ends a session that is at this replica's relay, or at none, and has the node end
// its side also where that does not hear the relay.
func (d *Desk) close(ctx context.Context, id, code, reason string) error {
	err := d.c.Relay.Close(ctx, id, code, reason)
	if broker.AsError(err).Code == "terminal_session_not_here" {
		err = d.c.Relay.Reap(ctx, id, code, reason)
	}
	if err != nil {
		return err
	}
	s, err := d.c.DB.TerminalSession(ctx, id)
	if err != nil {
		return err
	}
	d.tellNode(ctx, s)
	return nil
}

// tellNode has the node end what it has of a session, once. A node that cannot be told any
// more has nothing of it that lasts: its process ends by itself when no relay takes it.
func (d *Desk) tellNode(ctx context.Context, s broker.TerminalSession) {
	raw, err := taskcatalog.Encode(taskcatalog.TerminalCloseParams{SessionID: s.ID, Code: taskcatalog.Code(s.EndCode)})
	if err == nil {
		_, _, err = d.c.Queue.Enqueue(ctx, system, taskqueue.Request{
			NodeID: s.NodeID, Type: "terminal.close", Params: raw, IdempotencyKey: fmt.Sprintf("%s/close", s.ID), CorrelationID: s.ID,
		})
	}
	if err != nil {
		d.c.Log.Warn("a node cannot be told that a terminal session is over", zap.String("session", s.ID), zap.String("node", s.NodeID), zap.Error(err))
	}
}
