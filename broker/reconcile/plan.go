package reconcile

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/store"
)

// Planned is what a look now would lead to at a node, if the next look agreed.
type Planned struct {
	Finding
	NodeID, Hostname string
	NodeStatus       broker.NodeStatus
	MAASStatus       string
	Says             string
	Acts             bool      // an action would be taken
	After            time.Time // not before; zero: at once
	StoppedBy        string    // why the action would be withheld nevertheless; empty: it would not
}

// Plan looks at a site, and changes nothing. A machine that does not report its hardware is not
// part of a plan, because finding it takes time.
func (w *Watch) Plan(ctx context.Context, site broker.Site) (plan []Planned, look store.ReconcileLook, err error) {
	s, err := w.begin(ctx, site)
	if err != nil {
		return nil, look, err
	}
	if err := s.read(ctx, w.Regions, nil); err != nil {
		return nil, s.look, broker.Errorf(broker.Unavailable, "maas_unread", "cannot reconcile site %s: %v", site.Name, err)
	}
	stopped := s.stops()
	for _, j := range s.judged {
		if !j.found || j.finding.Kept {
			continue
		}
		if j.machine.Absent && stopped[j.finding.Action] == "" { // absence from a list proves nothing
			if so, err := s.recheck(ctx, j, nil, w.Now); err != nil || !so {
				continue
			}
		}
		p := Planned{
			Finding: j.finding, NodeID: j.node.ID, Hostname: j.node.Hostname, NodeStatus: j.node.Status,
			MAASStatus: cmp.Or(j.machine.StatusName, "absent"), Says: j.finding.AlertText(j.machine), Acts: s.pending(j),
			StoppedBy: stopped[j.finding.Action],
		}
		if j.finding.Action == Decommission && j.finding.Mode == Act && !s.view.Frozen && !j.node.Live && j.recorded.Acts == 0 {
			first := s.at
			if j.node.Open == j.finding.ID {
				first = j.recorded.FirstSeen
			}
			p.Acts, p.After = true, first.Add(s.policy.Grace())
		}
		plan = append(plan, p)
	}
	slices.SortFunc(plan, func(a, b Planned) int { return cmp.Compare(a.NodeID, b.NodeID) })
	return plan, s.look, nil
}
