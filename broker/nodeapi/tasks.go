package nodeapi

import (
	"errors"
	"slices"
	"strings"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/taskqueue"
	"github.com/hostler/hostler/pki"
	"github.com/hostler/hostler/taskcatalog"
	"github.com/hostler/hostler/taskcatalog/wire"
)

// wait holds a node's poll until there is work for the node. The poll is also the node's heartbeat.
func (a *API) wait(c *call) (any, error) {
	lanes, err := lanesOf(c.r.URL.RawQuery)
	if err != nil {
		return nil, err
	}
	if c.r.ContentLength != 0 {
		// A body after the head would be read as the next request once the poll is parked.
		c.w.Header().Set("Connection", "close")
		return nil, taskcatalog.Errorf(taskcatalog.CodeMalformed, "cannot wait: a poll must not have a body")
	}
	atOnce := c.r.Header.Get(wire.HeaderPrefer) == wire.PreferNoWait
	// A request without lanes, without a wait and without an instance is not a polling agent. The
	// watcher of an update asks in this way whether the broker answers, for an agent version that
	// sends no instance.
	if len(lanes) > 0 || !atOnce || len(c.r.Header.Values(wire.HeaderInstance)) > 0 {
		if err := a.checkInstance(c); err != nil {
			return nil, err
		}
	}
	if !a.contacts.beginPoll(c.node) {
		return nil, broker.Errorf(broker.TooMany, "too_many_polls", "cannot wait for node %s: %d polls of the node wait already (end one)",
			c.peer.NodeID, maxPolls)
	}
	report := a.wantsReport(c)
	value, err := a.hold(c, lanes, report || atOnce)
	switch {
	case errors.Is(err, errStopping):
		c.w.Header().Set("Connection", "close")
		return nil, nil
	case err != nil || !report:
		return value, err
	}
	reply := new(wire.WaitReply)
	if has, ok := value.(*wire.WaitReply); ok {
		reply = has
	}
	reply.Report = true
	return reply, nil
}

// progress renews a task's lease and reports the task's progress.
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

// result ends a task. The first result stands; the answer to a repeat says so.
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

func (c *call) queuePeer() taskqueue.Peer { return queuePeer(c.peer) }

func queuePeer(p *pki.Peer) taskqueue.Peer {
	return taskqueue.Peer{
		NodeID: p.NodeID, Epoch: p.Epoch, Serial: p.Serial, Key: p.Cert.PublicKey,
		Certified: p.Cert.NotBefore.Add(pki.Backdate),
	}
}

// lanesOf reads lanes=exclusive,concurrent. A node without a free lane names no lane and still
// polls, to learn which tasks to stop. The query has exactly one form, so that no node relies on a
// parameter that the broker does not understand.
func lanesOf(query string) ([]taskcatalog.Lane, error) {
	list, ok := strings.CutPrefix(query, "lanes=")
	if !ok {
		return nil, broker.Errorf(broker.Invalid, "bad_lanes",
			"cannot wait: the only parameter is lanes=exclusive,concurrent, or one of the two")
	}
	var lanes []taskcatalog.Lane
	if list == "" {
		return lanes, nil
	}
	for name := range strings.SplitSeq(strings.ReplaceAll(list, "%2C", ","), ",") {
		lane := taskcatalog.Lane(name)
		if lane != taskcatalog.LaneExclusive && lane != taskcatalog.LaneConcurrent || slices.Contains(lanes, lane) {
			return nil, broker.Errorf(broker.Invalid, "bad_lanes",
				"cannot wait: %s is not a lane, or is named twice (use exclusive, concurrent, or both)", taskcatalog.Clean(name, 40))
		}
		lanes = append(lanes, lane)
	}
	return lanes, nil
}
