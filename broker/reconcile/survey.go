package reconcile

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/maas"
	"github.com/hostler/hostler/broker/store"
)

// Views are the policy of a site and the records to compare with MAAS.
type Views interface {
	ReconcilePolicy(ctx context.Context, site string) (json.RawMessage, error)
	ReconcileView(ctx context.Context, site string) (store.ReconcileView, error)
}

// survey is a site at one moment: its nodes, and MAAS's list of machines. The list may be a second
// old, read for another caller.
type survey struct {
	site   broker.Site
	policy Policy
	view   store.ReconcileView
	region *maas.Region
	at     time.Time
	judged []*judgedNode
	look   store.ReconcileLook
}

// judgedNode is a node with its machine.
type judgedNode struct {
	node     Node
	recorded store.MAASState // the record
	machine  Machine
	interval time.Duration // of the machine's hardware sync
	unknown  bool          // MAAS listed the machine in a form that cannot be read
	finding  Finding
	found    bool
}

// begin reads the broker's records of a site.
func (w *Watch) begin(ctx context.Context, site broker.Site) (*survey, error) {
	raw, err := w.DB.ReconcilePolicy(ctx, site.Name)
	if err != nil {
		return nil, err
	}
	policy, err := PolicyOf(raw)
	if err != nil {
		return nil, err
	}
	view, err := w.DB.ReconcileView(ctx, site.Name)
	return &survey{site: site, policy: policy, view: view, look: store.ReconcileLook{Site: site.Name, Nodes: int64(len(view.Nodes))}}, err
}

// read reads MAAS's machines, and judges. An error says why they cannot be read whole.
func (s *survey) read(ctx context.Context, regions *maas.Sites, syncs *syncs) (err error) {
	if s.region, err = regions.Region(ctx, s.site); err != nil {
		return err
	}
	list, err := s.region.Machines(ctx, 0)
	switch {
	case err != nil:
		return err
	case len(list.Machines) == 0 && len(s.view.Nodes) > 0:
		return broker.Errorf(broker.Unavailable, "maas_empty", "MAAS lists no machine at all, and %d nodes are bound to one",
			len(s.view.Nodes))
	}
	s.at = list.At
	s.judge(list, syncs)
	return nil
}

func (s *survey) judge(list maas.Snapshot, syncs *syncs) {
	byID := make(map[string]*maas.Machine, len(list.Machines))
	for i := range list.Machines {
		byID[list.Machines[i].SystemID] = &list.Machines[i]
	}
	s.look.Machines = int64(len(list.Machines) + len(list.Unread))
	s.look.Unmanaged = s.look.Machines
	bound := map[string]bool{}
	s.judged = make([]*judgedNode, 0, len(s.view.Nodes))
	for _, n := range s.view.Nodes {
		state := s.view.States[n.ID]
		j := &judgedNode{node: nodeOf(n, state, s.view.InRun[n.ID] != ""), recorded: state}
		j.node.Live = s.view.Live[n.ID]
		switch m := byID[n.MAASSystemID]; {
		case m != nil:
			j.observe(*m, list.At, s.site, syncs)
		case slices.Contains(list.Unread, n.MAASSystemID):
			j.unknown = true
		default:
			j.machine = Machine{At: list.At, Absent: true}
		}
		if !j.machine.Absent && !bound[n.MAASSystemID] {
			bound[n.MAASSystemID] = true
			s.look.Unmanaged--
		}
		switch {
		case j.unknown:
			s.look.Unknown++
		case j.node.Held():
			if j.node.Open == "" {
				s.look.Skipped++
			}
		default:
			j.finding, j.found = Judge(j.machine, j.node, s.policy)
		}
		s.judged = append(s.judged, j)
	}
	syncs.forget(bound)
}

func (j *judgedNode) observe(m maas.Machine, at time.Time, site broker.Site, syncs *syncs) {
	j.machine = machineOf(m, at, site)
	j.interval = time.Duration(m.Interval()) * time.Second
	j.machine.SyncLate = syncs.late(m, at)
}

func nodeOf(n broker.Node, s store.MAASState, inRun bool) Node {
	out := Node{Node: n, InRun: inRun}
	if s.SystemID == n.MAASSystemID { // records of another machine do not count
		out.Host, out.Marked = s.Host, s.Marked
	}
	switch {
	case s.Drift:
		out.Open = s.Rule
	case s.ResolvedBy != "" && s.ResolvedBy != broker.System.Name:
		out.Kept = s.Rule
	}
	return out
}

// seen returns the new record of the machine.
func (j *judgedNode) seen(site broker.Site) store.MAASState {
	m := j.machine
	s := store.MAASState{
		NodeID: j.node.ID, SiteID: site.ID, SystemID: j.node.MAASSystemID, Status: m.StatusName, Power: m.Power, IPs: m.IPs,
		Host:   j.node.Host,
		Marked: j.node.Marked || m.Mark == j.node.ID,
	}
	// A run changes its machine's address on purpose, so the new address becomes the node's.
	if m.Address != "" && (s.Host == "" || j.node.InRun && m.Status == maas.Deployed && !slices.Contains(m.IPs, s.Host)) {
		s.Host = m.Address
	}
	if m.Absent {
		s.Status, s.Marked = "absent", j.node.Marked
	}
	return s
}

// changed reports whether the new record differs from the stored one.
func (j *judgedNode) changed(site broker.Site) bool {
	now, was := j.seen(site), j.recorded
	return was.NodeID == "" || was.SiteID != now.SiteID || was.SystemID != now.SystemID || was.Status != now.Status ||
		was.Power != now.Power ||
		was.Marked != now.Marked || was.Host != now.Host || !slices.Equal(was.IPs, now.IPs)
}

// recheck reads a node's machine alone, and judges again. ok: the finding is the same as by the
// list.
func (s *survey) recheck(ctx context.Context, j *judgedNode, syncs *syncs, now func() time.Time) (ok bool, err error) {
	at := now()
	m, err := s.region.Machine(ctx, j.node.MAASSystemID)
	switch {
	case err == nil:
		rule := j.finding.ID
		j.observe(m, at, s.site, syncs)
		j.finding, j.found = Judge(j.machine, j.node, s.policy)
		return j.found && j.finding.ID == rule, nil
	case maas.ClassOf(err) == maas.NotFound:
		return j.machine.Absent, nil
	}
	return false, fmt.Errorf("cannot read machine %s of node %s from MAAS: %w", j.node.MAASSystemID, j.node.ID, err)
}
