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
	// MaxWave is the most nodes that get a set at once.
	MaxWave = 50
	// silentAfter is how long a node may say nothing and still be given a task.
	silentAfter = 2 * time.Minute
	// enrolTries is how often a node that is enrolling is given its set.
	enrolTries = 3
	enrolAgain = time.Minute
)

const taskType = "node.resolver_config@1"

// step is what a look at one want leads to.
type step struct {
	give []broker.Node // who gets the set now
	stop string        // why the want stops; empty: it goes on
	out  []broker.Node // who does not come in: every try ended without the set
}

// freezes are the sites that an operator has frozen, or a restore holds; "" is all of them.
type freezes map[string]bool

func freezesOf(holds []chain.SiteHold) freezes {
	sites := freezes{}
	for _, h := range holds {
		sites[h.Site] = sites[h.Site] || h.Kind == chain.Freeze || h.Kind == chain.Restored
	}
	return sites
}

// hold reports whether a node is of no wave for now. What a node needs to come
// in, it gets all the same: enrolments go on in a freeze.
func (f freezes) hold(n broker.Node) bool { return f[""] || f[n.Site] }

// next judges one want. nodes are those that shall have its set, tasks those made
// for it so far, by node.
func next(now time.Time, w store.ResolverWant, nodes []broker.Node, tasks map[string][]broker.Task, frozen freezes) (s step) {
	var due []broker.Node
	have, open := 0, 0
	for _, n := range nodes {
		made := tasks[n.ID]
		if n.Status == broker.Enrolling {
			// What came of an earlier enrolment ends with it, and is no try of this one.
			made = ofEpoch(n.Epoch, made)
		}
		switch {
		case n.ResolverDigest == w.Digest:
			// A node that says it has the set, without a task of this want, is no
			// proof that the set can be taken.
			if len(made) > 0 && made[len(made)-1].Status == broker.TaskSucceeded {
				have++
			}
		case len(made) > 0 && !made[len(made)-1].Status.Ended():
			if n.Status != broker.Enrolling {
				open++
			}
		case n.Status == broker.Enrolling:
			if mayEnrol(now, n, made) {
				s.give = append(s.give, n)
			} else if len(made) >= enrolTries {
				s.out = append(s.out, n)
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
	s.give = append(s.give, due[:min(size, len(due))]...)
	return s
}

// failed is the last task of a node, if it ended as one that tells against the
// set: by the node's own word. One that was never delivered, that a person
// canceled, or that ended because the node enrolled again, does not.
func failed(made []broker.Task) *broker.Task {
	if len(made) == 0 || made[len(made)-1].Status != broker.TaskFailed || made[len(made)-1].Outcome == "" {
		return nil
	}
	return &made[len(made)-1]
}

// ofEpoch are the tasks that were made for one enrolment.
func ofEpoch(epoch int64, made []broker.Task) []broker.Task {
	return slices.DeleteFunc(slices.Clone(made), func(k broker.Task) bool { return k.NodeEpoch != epoch })
}

// mayEnrol reports whether a node that is enrolling is given its set now. made
// are the tasks of this enrolment.
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
