package resolver

import (
	"fmt"
	"slices"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/chain"
	"github.com/hostler/hostler/broker/store"
	"github.com/hostler/hostler/taskcatalog"
)

const (
	// MaxWave is the greatest number of nodes in a wave.
	MaxWave = 50
	// silentAfter is the silence after which a node gets no task.
	silentAfter = 2 * time.Minute
	// enrolTries is the number of tries for a node that is enrolling.
	enrolTries = 3
	enrolAgain = time.Minute
)

const taskType = "node.resolver_config@1"

// step is the result of a look at one want.
type step struct {
	assign   []broker.Node // nodes that get the set now
	stop     string        // why the want stops; empty: it continues
	excluded []broker.Node // nodes that are kept out: every try ended without the set
}

// freezes are the sites that an operator has frozen, or a restore holds; "" stands for all sites.
type freezes map[string]bool

func freezesOf(holds []chain.SiteHold) freezes {
	sites := freezes{}
	for _, h := range holds {
		sites[h.Site] = sites[h.Site] || h.Kind == chain.Freeze || h.Kind == chain.Restored
	}
	return sites
}

// hold reports whether a node is left out of waves for now. Enrolments continue in a freeze.
func (f freezes) hold(n broker.Node) bool { return f[""] || f[n.Site] }

// next judges one want. nodes are the want's nodes, tasks the want's tasks so far, by node.
func next(now time.Time, w store.ResolverWant, nodes []broker.Node, tasks map[string][]broker.Task, frozen freezes) (s step) {
	var due []broker.Node
	have, open := 0, 0
	for _, n := range nodes {
		made := tasks[n.ID]
		if n.Status == broker.Enrolling {
			// Tasks of an earlier enrolment are not tries of this one.
			made = ofEpoch(n.Epoch, made)
		}
		switch {
		case n.ResolverDigest == w.Digest:
			// Without a task of this want, a node's report that it has the set does not prove that
			// the set is accepted on other nodes.
			if len(made) > 0 && made[len(made)-1].Status == broker.TaskSucceeded {
				have++
			}
		case len(made) > 0 && !made[len(made)-1].Status.Ended():
			if n.Status != broker.Enrolling {
				open++
			}
		case n.Status == broker.Enrolling:
			if mayEnrol(now, n, made) {
				s.assign = append(s.assign, n)
			} else if len(made) >= enrolTries {
				s.excluded = append(s.excluded, n)
			}
		default:
			if last := failed(made); last != nil && s.stop == "" {
				s.stop = fmt.Sprintf("task %s on node %s ended %s: %s", last.ID, n.ID, last.Code, taskcatalog.Clean(last.Message, 300))
			}
			if reachable(now, n) && !frozen.hold(n) {
				due = append(due, n)
			}
		}
	}
	if !w.StoppedAt.IsZero() {
		s.stop = ""
		return s
	}
	if s.stop != "" || open > 0 {
		return s
	}
	size := 1
	if have > 0 {
		size = min(max(1, len(nodes)/10), MaxWave)
	}
	s.assign = append(s.assign, due[:min(size, len(due))]...)
	return s
}

// failed returns the last task of a node, if the node itself reported a failure, which tells
// against the set. A task that was never delivered, was canceled by a person, or ended by a new
// enrolment does not count.
func failed(made []broker.Task) *broker.Task {
	if len(made) == 0 || made[len(made)-1].Status != broker.TaskFailed || made[len(made)-1].Outcome == "" {
		return nil
	}
	return &made[len(made)-1]
}

// ofEpoch returns the tasks of one enrolment.
func ofEpoch(epoch int64, made []broker.Task) []broker.Task {
	return slices.DeleteFunc(slices.Clone(made), func(k broker.Task) bool { return k.NodeEpoch != epoch })
}

// mayEnrol reports whether an enrolling node gets its set now. made are the tasks of this
// enrolment.
func mayEnrol(now time.Time, n broker.Node, made []broker.Task) bool {
	if n.Epoch == 0 || !slices.Contains(n.TaskTypes, taskType) || len(made) >= enrolTries {
		return false
	}
	return len(made) == 0 || now.After(made[len(made)-1].EndedAt.Add(enrolAgain))
}

func reachable(now time.Time, n broker.Node) bool {
	switch n.Status {
	case broker.Active, broker.Quarantined, broker.Draining, broker.Retired:
	default:
		return false
	}
	return slices.Contains(n.TaskTypes, taskType) && now.Sub(n.LastAgentContactAt) < silentAfter
}
