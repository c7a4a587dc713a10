//go:build !race

package records

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/hostler/hostler/broker"
)

// reservations are a platform admin who reserves nodes for projects, and sometimes ends a reservation
// early. They are drawn apart: a seed without a reservation plays on as it did.
func (s *simulation) reservations() {
	by := rand.New(rand.NewPCG(s.seed, 12))
	for i := range by.IntN(3) {
		id, p, nodes := fmt.Sprintf("rsv-%d", i), s.projects[by.IntN(len(s.projects))], 1+by.IntN(2)
		in := time.Duration(by.IntN(60)) * time.Minute
		from, lasts := in+time.Duration(by.IntN(30))*time.Minute, time.Duration(10+by.IntN(90))*time.Minute
		site := []string{"", s.site.Name}[by.IntN(2)]
		s.later(in, func() {
			at := s.clock.Now().Add(from - in)
			r, err := s.db.CreateReservation(ctx, ada, broker.Reservation{
				ID: id, ProjectID: p.id, SKU: "h100", Site: site, Nodes: nodes, From: at, To: at.Add(lasts),
			}, "because")
			s.say("%d nodes are reserved for project %s from %s to %s: %v", nodes, p.id, r.From.Format(time.TimeOnly), r.To.Format(time.TimeOnly), err)
			if s.may(err) {
				s.reserved = append(s.reserved, r)
				s.counts["reservations"]++
			}
		})
		if by.IntN(4) == 0 {
			s.later(from+lasts/2, func() { s.endReservation(id) })
		}
	}
}

func (s *simulation) endReservation(id string) {
	for i, r := range s.reserved {
		if r.ID == id {
			ended, err := s.db.EndReservation(ctx, ada, id, "because")
			s.must(err)
			s.say("reservation %s ends early", id)
			s.reserved[i] = ended
		}
	}
}

// lacks is how many nodes a project is to have more than it uses, and the sum of all other projects. A
// node that a project has given back is used no more.
func (s *simulation) lacks(p *project) (own, others int) {
	for _, q := range s.projects {
		n := 0
		for _, c := range s.known {
			if c.project == q && !c.status.Ended() && c.status != broker.AllocationReleasing && c.status != broker.AllocationReleaseFailed {
				n -= len(c.nodes)
			}
		}
		for _, r := range s.reserved {
			if r.ProjectID == q.id && r.Status(s.clock.Now()) == broker.ReservationInForce {
				n += r.Nodes
			}
		}
		if q == p {
			own = max(n, 0)
		} else {
			others += max(n, 0)
		}
	}
	return own, others
}

// freeNodes counts the nodes that may be handed out.
func (s *simulation) freeNodes() (free int) {
	all, err := s.db.JudgedNodes(ctx, "h100", nil)
	s.must(err)
	for _, n := range all {
		if len(n.Reasons) == 0 {
			free++
		}
	}
	return free
}

// keeps holds the rule of reservations after a request: reserved nodes are given to nobody else. Where
// there are enough for all, what others lack is left. Where there are not, a project gets no more than it
// lacks itself.
func (s *simulation) keeps(p *project, asked int, given bool, free, own, others int) {
	switch {
	case given && own+others <= free && free-asked < others, given && own+others > free && others > 0 && asked > own:
		s.wrong("project %s gets %d of %d free nodes, and lacks %d of its reserved nodes: other projects lack %d of theirs", p.id, asked, free, own, others)
	case given && own > 0:
		s.counts["reserved nodes given to their project"]++
	case !given && asked <= free && others > 0:
		s.counts["requests refused for a reservation"]++
	}
}
