package nodeapi

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/taskqueue"
	"github.com/hostler/hostler/pki"
	"github.com/hostler/hostler/taskcatalog"
	"github.com/hostler/hostler/taskcatalog/wire"
)

// wait holds a node's poll until there is something for it, and is its
// heartbeat.
func (a *API) wait(c *call) (any, error) {
	lanes, err := lanesOf(c.r.URL.RawQuery)
	if err != nil {
		return nil, err
	}
	atOnce := c.r.Header.Get(wire.HeaderPrefer) == wire.PreferNoWait
	// Who wants no task, does not wait and says no instance is no agent that polls: the
	// watcher of an update asks so whether the broker answers, for a version that does not
	// say its instance.
	if len(lanes) > 0 || !atOnce || len(c.r.Header.Values(wire.HeaderInstance)) > 0 {
		if err := a.tellApart(c); err != nil {
			return nil, err
		}
	}
	if !a.contacts.beginPoll(c.node) {
		return nil, broker.Errorf(broker.TooMany, "too_many_polls", "cannot wait for node %s: %d of its polls wait already (end one)", c.peer.NodeID, maxPolls)
	}
	defer func() { a.contacts.endPoll(c.node, c.peer.NodeID, a.c.Now()) }()
	report := a.wantsReport(c)
	reply, err := a.hold(c, lanes, report || atOnce)
	if err != nil {
		if errors.Is(err, errStopping) {
			c.w.Header().Set("Connection", "close")
			return nil, nil
		}
		return nil, err
	}
	reply.Report = report
	if len(reply.Tasks) == 0 && len(reply.Cancel) == 0 && !report {
		return nil, nil
	}
	return reply, nil
}

// hold is where a poll spends its time. Thousands do: it and what calls it keep
// little on the stack, which is halved only while most of it is free.
func (a *API) hold(c *call, lanes []taskcatalog.Lane, brief bool) (*wire.WaitReply, error) {
	ctx, end := context.WithCancelCause(c.r.Context())
	leave := a.polls.join(c.peer.Serial, end)
	defer leave()
	defer end(nil)
	if a.deny.denied(c.peer.Serial) { // since the request was let in
		return nil, deniedError(c.peer)
	}
	hold := wire.MaxWait
	if brief {
		hold = 0
	}
	reply, err := a.c.Queue.Wait(ctx, c.queuePeer(), lanes, hold)
	cause := context.Cause(ctx)
	switch {
	case errors.Is(cause, errDenied) || a.deny.denied(c.peer.Serial):
		// What was leased meanwhile is not handed over; its lease runs out.
		return nil, deniedError(c.peer)
	case err != nil && errors.Is(cause, errStopping):
		return nil, errStopping
	}
	return &reply, err
}

// progress renews a task's lease and tells how far it is.
func (a *API) progress(c *call) (any, error) {
	var req wire.ProgressRequest
	if err := c.decode(&req); err != nil {
		return nil, err
	}
	reply, err := a.c.Queue.Progress(c.r.Context(), c.queuePeer(), c.r.PathValue("task_id"), req)
	if err != nil {
		return nil, err
	}
	return reply, nil
}

// result ends a task. The first result stands; a repeat is told so.
func (a *API) result(c *call) (any, error) {
	var req wire.ResultRequest
	if err := c.decode(&req); err != nil {
		return nil, err
	}
	reply, err := a.c.Queue.Result(c.r.Context(), c.queuePeer(), c.r.PathValue("task_id"), req)
	if err != nil {
		return nil, inAudit(err)
	}
	return reply, nil
}

func (c *call) queuePeer() taskqueue.Peer {
	return taskqueue.Peer{
		NodeID: c.peer.NodeID, Epoch: c.peer.Epoch, Serial: c.peer.Serial, Key: c.peer.Cert.PublicKey,
		Certified: c.peer.Cert.NotBefore.Add(pki.Backdate),
	}
}

// lanesOf reads lanes=exclusive,concurrent. A node without a free lane names
// none and still polls, for what it is to stop. The query has one form: what
// the broker did not understand the node must not rely on.
func lanesOf(query string) ([]taskcatalog.Lane, error) {
	list, ok := strings.CutPrefix(query, "lanes=")
	if !ok {
		return nil, broker.Errorf(broker.Invalid, "bad_lanes", "cannot wait: say lanes=exclusive,concurrent, or fewer, and nothing else")
	}
	var lanes []taskcatalog.Lane
	if list == "" {
		return lanes, nil
	}
	for name := range strings.SplitSeq(strings.ReplaceAll(list, "%2C", ","), ",") {
		lane := taskcatalog.Lane(name)
		if lane != taskcatalog.LaneExclusive && lane != taskcatalog.LaneConcurrent || slices.Contains(lanes, lane) {
			return nil, broker.Errorf(broker.Invalid, "bad_lanes", "cannot wait: %s is no lane, or is named twice (say exclusive, concurrent, or both)", taskcatalog.Clean(name, 40))
		}
		lanes = append(lanes, lane)
	}
	return lanes, nil
}
