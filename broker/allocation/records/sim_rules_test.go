//go:build !race

package records

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/allocation"
	"github.com/hostler/hostler/broker/store"
)

// check holds the rules, by what the store says and by the ledger of the machines. What the store says is
// read again if its rows have changed.
func (s *simulation) check() {
	if s.t.Failed() {
		return
	}
	if now := s.rows(); now != s.read {
		s.read = now
		s.held()
		s.billed()
		s.isolated()
	}
	for _, m := range s.machines {
		for _, id := range slices.Sorted(maps.Keys(m.accounts)) {
			if c := s.known[id]; c != nil && c.status == broker.AllocationReleased {
				s.wrong("allocation %s is released, and node %s has its account", id, m.id)
			}
		}
	}
	for _, id := range s.ids {
		if c := s.known[id]; c.status == broker.AllocationActive {
			s.there(c)
		}
	}
}

// rows are all rows of the allocations and of their usage.
func (s *simulation) rows() (all string) {
	s.must(s.raw.QueryRow(`SELECT COALESCE((SELECT group_concat(id || project_id || status || code || certificate_ids) FROM tenant_allocations), '')
		|| COALESCE((SELECT group_concat(allocation_id || node_id || ended_at) FROM allocation_claims), '')
		|| COALESCE((SELECT group_concat(allocation_id || project_id || nodes || from_at) FROM usage_spans), '')
		|| COALESCE((SELECT group_concat(allocation_id || to_at) FROM usage_ends), '')`).Scan(&all))
	return all
}

// held holds the rules for the allocations: at most one holds a node, and each moves as it may.
func (s *simulation) held() {
	all, _, err := s.db.Allocations(ctx, store.AllocationFilter{Limit: 1000})
	s.must(err)
	if len(all) != len(s.ids) {
		s.wrong("the store has %d allocations, and %d were granted", len(all), len(s.ids))
	}
	holders := map[string]string{}
	for _, a := range all {
		c := s.known[a.ID]
		if c == nil {
			s.wrong("the store has allocation %s, which nobody has asked for", a.ID)
			continue
		}
		s.moved(c, a)
		for _, n := range a.NodeIDs {
			if other := holders[n]; other != "" && !a.Status.Ended() {
				s.wrong("allocations %s and %s hold node %s", other, a.ID, n)
			} else if !a.Status.Ended() {
				holders[n] = a.ID
			}
		}
	}
}

// next are the statuses that may follow a status. A look may come after two changes.
var next = map[broker.AllocationStatus][]broker.AllocationStatus{
	broker.AllocationRequested:     {broker.AllocationProvisioning, broker.AllocationActive, broker.AllocationFailed},
	broker.AllocationProvisioning:  {broker.AllocationActive, broker.AllocationFailed},
	broker.AllocationActive:        {broker.AllocationReleasing},
	broker.AllocationReleasing:     {broker.AllocationReleased, broker.AllocationReleaseFailed},
	broker.AllocationReleaseFailed: {broker.AllocationReleasing},
}

// moved holds the rules for the change of an allocation's status.
func (s *simulation) moved(c *claim, a broker.Allocation) {
	if a.ProjectID != c.project.id || !slices.Equal(a.NodeIDs, c.nodes) {
		s.wrong("allocation %s is project %s's, with nodes %v, and was project %s's with %v", a.ID, a.ProjectID, a.NodeIDs, c.project.id, c.nodes)
	}
	if a.Status == c.status {
		return
	}
	s.say("allocation %s is %s %s", a.ID, a.Status, a.Code)
	if !slices.Contains(next[c.status], a.Status) {
		s.wrong("allocation %s was %s, and is %s", a.ID, c.status, a.Status)
	}
	if c.status == broker.AllocationActive {
		c.to = s.clock.Now()
	}
	s.passes(c, a)
	c.status, c.code = a.Status, a.Code
	switch a.Status {
	case broker.AllocationActive:
		c.from = s.clock.Now()
		s.operated(c)
		for _, id := range c.nodes {
			s.machine(id).row = 0
		}
	case broker.AllocationReleased:
		s.released(c, a)
	case broker.AllocationFailed, broker.AllocationReleaseFailed:
		if a.Code == "" {
			s.wrong("allocation %s is %s, and says not why", a.ID, a.Status)
		}
		if a.Code == allocation.CodeBeginOperation {
			s.counts["allocations failed by their operation"]++
		}
		if m := s.machine(c.nodes[0]); a.Code == allocation.CodeNodeNotReady && len(c.nodes) == 1 && m.failing[c.id] && !c.meddled {
			m.row++
			s.counts["provisions failed by the node"]++
		}
	}
	s.counts[string(a.Status)]++
}

// mayHold holds the rule for the nodes of a new allocation.
func (s *simulation) mayHold(c *claim) {
	for _, id := range c.nodes {
		m := s.machine(id)
		if m.row >= broker.DefaultPolicy().ProvisionFailuresToHold {
			s.wrong("allocation %s gets node %s, which failed %d allocations in a row", c.id, id, m.row)
		}
		switch p := s.newest(id); {
		case p == nil:
		case s.strict:
			s.wrong("allocation %s gets node %s, whose certificate %s is below the policy in force", c.id, id, p.id)
		case !s.clock.Now().Before(p.at.Add(s.valid)):
			s.wrong("allocation %s gets node %s, whose certificate %s is older than the policy in force allows", c.id, id, p.id)
		}
		for _, other := range m.traces {
			s.wrong("allocation %s holds node %s, which has no certificate since allocation %s", c.id, id, other)
		}
	}
}

// newest is the newest certificate of a node; nil: none.
func (s *simulation) newest(node string) (newest *proven) {
	for _, p := range s.proofs {
		if p.node == node && (newest == nil || p.at.After(newest.at)) {
			newest = p
		}
	}
	return newest
}

// there holds the rule for an active allocation: its tenant is on each node.
func (s *simulation) there(c *claim) {
	for _, id := range c.nodes {
		if _, there := s.machine(id).accounts[c.id]; !there {
			s.wrong("allocation %s is active, and has no account on node %s", c.id, id)
		}
	}
}

// released holds the rule for an allocation that was released: each node has a certificate of the
// allocation that meets the policy, and was issued after its tenant had left.
func (s *simulation) released(c *claim, a broker.Allocation) {
	for _, id := range c.nodes {
		m := s.machine(id)
		at := slices.IndexFunc(a.CertificateIDs, func(of string) bool { return s.proofs[of] != nil && s.proofs[of].node == id })
		if at < 0 {
			s.wrong("allocation %s is released by %v, and node %s has none of these certificates", c.id, a.CertificateIDs, id)
			continue
		}
		switch p := s.proofs[a.CertificateIDs[at]]; {
		case !p.meets:
			s.wrong("allocation %s is released by certificate %s, which does not meet the policy", c.id, p.id)
		case p.at.Before(m.left[c.id]) || slices.Contains(m.traces, c.id):
			s.wrong("allocation %s is released by certificate %s, which was issued before its tenant left node %s", c.id, p.id, id)
		}
	}
}

// billed compares the usage with the ledger: each time in which an allocation was active counts once.
func (s *simulation) billed() {
	rows, _, err := s.db.Usage(ctx, store.UsageFilter{To: s.clock.Now().Add(time.Second), Limit: 1000})
	s.must(err)
	had := map[string]bool{}
	for _, u := range rows {
		c := s.known[u.AllocationID]
		switch {
		case c == nil || had[u.AllocationID]:
			s.wrong("the usage of allocation %s is counted twice, or nobody's", u.AllocationID)
			continue
		case u.ProjectID != c.project.id || u.Nodes != len(c.nodes) || !u.From.Equal(c.from) || !u.To.Equal(c.to):
			s.wrong("project %s is billed for %d nodes of allocation %s from %v to %v, and was there from %v to %v", u.ProjectID, u.Nodes, u.AllocationID,
				u.From, u.To, c.from, c.to)
		}
		had[u.AllocationID] = true
	}
	for _, id := range s.ids {
		if !s.known[id].from.IsZero() && !had[id] {
			s.wrong("the usage of allocation %s is lost", id)
		}
	}
}

// isolated looks with the eyes of a project: it sees all its own allocations, and none of another's.
func (s *simulation) isolated() {
	if len(s.ids) == 0 {
		return
	}
	p, c := pick(s, s.projects...), s.known[pick(s, s.ids...)]
	_, err := s.db.ProjectAllocation(ctx, p.id, c.id)
	if sees := err == nil; sees != (c.project == p) {
		s.wrong("project %s sees allocation %s of project %s: %v", p.id, c.id, c.project.id, sees)
	}
	if !s.chance(10) {
		return
	}
	all, _, err := s.db.Allocations(ctx, store.AllocationFilter{ProjectID: p.id, Limit: 1000})
	s.must(err)
	own := 0
	for _, c := range s.known {
		if c.project == p {
			own++
		}
	}
	if len(all) != own || slices.ContainsFunc(all, func(a broker.Allocation) bool { return s.known[a.ID].project != p }) {
		s.wrong("project %s lists %d allocations, and has %d", p.id, len(all), own)
	}
	rows, _, err := s.db.Usage(ctx, store.UsageFilter{ProjectID: p.id, To: s.clock.Now(), Limit: 1000})
	s.must(err)
	if slices.ContainsFunc(rows, func(u broker.Usage) bool { return s.known[u.AllocationID].project != p }) {
		s.wrong("project %s sees the usage of another project: %+v", p.id, rows)
	}
}

// announced compares the events of each project with its allocations: each status was told once and in
// order, and nothing of another project's.
func (s *simulation) announced() {
	_, err := s.db.PlaceEvents(ctx, 100000)
	s.must(err)
	for _, p := range s.projects {
		events, _, err := s.db.Outbox(ctx, store.OutboxFilter{ProjectID: p.id, Limit: 10000})
		s.must(err)
		at := map[string]broker.AllocationStatus{}
		for _, e := range events {
			var data struct {
				ID   string                  `json:"allocation_id"`
				From broker.AllocationStatus `json:"from"`
				To   broker.AllocationStatus `json:"to"`
			}
			s.must(json.Unmarshal(e.Data, &data))
			if c := s.known[data.ID]; c == nil || c.project != p {
				s.wrong("project %s is told of allocation %s: %s", p.id, data.ID, e.Type)
			}
			if strings.HasPrefix(e.Type, "operation.") {
				continue
			}
			if last := at[data.ID]; last != data.From && !(last == broker.AllocationRequested && data.From == broker.AllocationProvisioning) {
				s.wrong("project %s is told that allocation %s goes from %s to %s, and was told %s before", p.id, data.ID, data.From, data.To, last)
			}
			at[data.ID] = data.To
		}
		for _, c := range s.known {
			if c.project == p && at[c.id] != c.status {
				s.wrong("project %s was told that allocation %s is %s, which is %s", p.id, c.id, at[c.id], c.status)
			}
		}
	}
}

// summed compares the sums of the usage with the ledger: each node of an allocation counts for as long as
// the allocation was active.
func (s *simulation) summed() {
	from, to := s.clock.Now().Add(-1000*time.Hour), s.clock.Now()
	want, got := map[string]int64{}, map[string]int64{}
	for _, c := range s.known {
		if !c.from.IsZero() && c.from.Before(to) {
			used := broker.Usage{From: c.from, To: c.to}.Within(from, to)
			want[c.project.id+" h100"] += int64(len(c.nodes)) * used.Microseconds()
		}
	}
	all, err := s.db.UsageTotals(ctx, store.UsageFilter{From: from, To: to})
	s.must(err)
	for _, u := range all {
		got[u.ProjectID+" "+u.SKU] = u.NodeMicros
	}
	if !maps.Equal(got, want) {
		s.wrong("the sums of the usage are %v, and the nodes were used for %v", got, want)
	}
}
