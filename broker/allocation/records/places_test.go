package records

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/chain"
	"github.com/hostler/hostler/broker/turnover"
)

// limited makes a site with a limit of turnovers at once, and nodes of the site.
func (s *site) limited(limit, nodes int) {
	s.Helper()
	s.at = "dc1"
	at := broker.NewSite("s-dc1")
	at.Name, at.RegionCode, at.APIBaseURL, at.PXEIface, at.NodePXEIface = "dc1", "r-1", "https://10.0.0.2:5443/MAAS", "ens19", "eno1"
	p := broker.NewProfile("p-dc1", at.ID, broker.DefaultProfile)
	p.Policy.AutomaticTurnoversAtOnce = limit
	_, err := s.db.CreateSite(s.Context(), ada, at, p)
	s.ok(err)
	for i := range nodes {
		s.join(fmt.Sprintf("n-%d", i))
	}
}

// turnovers are the nodes whose turnovers have begun, in that order; open counts those that have not ended.
func (s *site) turnovers() (nodes []string, open int) {
	s.Helper()
	all, err := s.db.Runs(s.Context(), chain.Filter{Kind: turnover.SoftReset.Kind(), Limit: 100})
	s.ok(err)
	slices.SortFunc(all, func(a, b chain.Record) int { return a.RequestedAt.Compare(b.RequestedAt) })
	for _, r := range all {
		if nodes = append(nodes, r.Subject); !r.Status.Ended() {
			open++
		}
	}
	return nodes, open
}

// Many releases at once begin no more turnovers than the site's limit. The release that began first goes
// first, and each has its turn, also over a death of the broker.
func TestReleasesWaitForTheirPlace(t *testing.T) {
	eachSite(t, 0, func(s *site) {
		const limit, all = 2, 6
		s.limited(limit, all)
		var order []string
		for i := range all {
			order = append(order, "gpu-"+s.ask(fmt.Sprint("a-", i), 1).NodeIDs[0])
		}
		s.settle()
		s.slow = true
		slices.Reverse(order)
		for i := range all {
			s.release(fmt.Sprint("a-", all-1-i))
			s.clock.Advance(time.Millisecond)
		}
		s.settle()
		if nodes, open := s.turnovers(); open != limit || !slices.Equal(slices.Sorted(slices.Values(nodes)), slices.Sorted(slices.Values(order[:limit]))) {
			s.Fatalf("%d turnovers are open, of %v, want %v", open, nodes, order[:limit])
		}
		for i := range all {
			id := fmt.Sprint("a-", i)
			s.stands(id, broker.AllocationReleasing, "")
			why, err := s.db.AllocationWaits(s.Context(), id)
			s.ok(err)
			if waits := strings.Contains(why, "the limit is 2 (automatic_turnovers_at_once)"); waits != (i < all-limit) {
				s.Errorf("%s waits for %q", id, why)
			}
		}
		waiting, err := s.db.WaitingReleases(s.Context(), []string{"dc1"})
		s.ok(err)
		if len(waiting) != 1 || waiting[0].Site != "dc1" || waiting[0].Releases != all-limit || waiting[0].Since.IsZero() {
			s.Errorf("waiting are %+v", waiting)
		}
		if other, err := s.db.WaitingReleases(s.Context(), []string{"dc2"}); err != nil || len(other) != 0 {
			s.Errorf("at dc2 waiting are %+v (%v)", other, err)
		}

		s.boot() // the broker died
		s.slow = false
		for range all / limit {
			s.settle()
		}
		nodes, _ := s.turnovers()
		if len(nodes) != all {
			s.Fatalf("turnovers of %v were begun", nodes)
		}
		for i := range all {
			s.stands(fmt.Sprint("a-", i), broker.AllocationReleased, "")
		}
	})
}

// A node that waits for nothing but its place is the earlier release's, whichever looks first.
func TestThePlaceIsOfTheReleaseThatBeganFirst(t *testing.T) {
	eachSite(t, 0, func(s *site) {
		s.limited(1, 3)
		for i := range 3 {
			s.ask(fmt.Sprint("a-", i), 1)
		}
		s.settle()
		s.slow = true
		for _, id := range []string{"a-2", "a-1", "a-0"} {
			s.release(id)
			s.clock.Advance(time.Millisecond)
		}
		s.settle()
		last, err := s.db.Allocation(s.Context(), "a-0")
		s.ok(err)
		open, err := s.db.Runs(s.Context(), chain.Filter{Kind: turnover.SoftReset.Kind(), Limit: 10})
		s.ok(err)
		_, err = s.engine.Act(s.Context(), chain.Order{ID: open[0].ID, Actor: chain.Actor{Name: "ada"}, Action: chain.Cancel, Reason: "test"})
		s.ok(err)
		for worked := true; worked; { // the turnover ends, no release has looked again
			worked, err = s.engine.Step(s.Context())
			s.ok(err)
		}
		if why, err := s.records.TurnOver(s.Context(), last, last.NodeIDs[0], "released", ""); err != nil || !strings.Contains(why, "releases go first") {
			s.Errorf("the last release may begin: %q (%v)", why, err)
		}
		s.settle()
		next, err := s.db.Allocation(s.Context(), "a-1")
		s.ok(err)
		if nodes, open := s.turnovers(); open != 1 || len(nodes) != 2 || nodes[1] != "gpu-"+next.NodeIDs[0] {
			s.Errorf("turnovers of %v were begun, want that of a-1", nodes)
		}
	})
}
