//go:build !race

package onboarding_test

import (
	"errors"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/chain"
	"github.com/hostler/hostler/broker/chain/chaintest"
	"github.com/hostler/hostler/test/maassim"
)

// someProfile returns one of the site's two profiles with random settings: with the usual retries,
// with none, or with three of each stage.
func (s *simulation) someProfile() broker.Profile {
	p := s.profile
	p.Policy.HardwareSyncInterval = []string{"5m", "10m"}[s.by.IntN(2)]
	if s.chance(40) {
		p.ID, p.Name = "profile-2", "fabric"
		p.Policy.EnablePhase2RoCE = true
		p.Policy.RequireHWSync = s.chance(50)
	}
	p.Policy.StageRetries = maps.Clone(p.Policy.StageRetries)
	switch n := s.by.IntN(5); n {
	case 0, 3:
		for _, stage := range append(slices.Clone(stages), "recover_for_datasource_retry") {
			p.Policy.StageRetries[stage] = n
		}
	case 1:
		p.Policy.StageRetries["deploy_via_maas"] = 0
	}
	return p
}

// fabric gives RoCE addresses to some of the machines: of a subnet with two addresses, and of a
// subnet unknown to MAAS.
func (s *simulation) fabric(hostname string) {
	if s.chance(60) {
		cidr := []string{"172.30.9.60/31", "172.30.9.61/31", "172.31.0.7/24"}[s.by.IntN(3)]
		s.book.RoCE = append(s.book.RoCE, broker.RoCEAssignment{SiteID: s.site.ID, Hostname: hostname, Interface: "eno8403", IPv4CIDR: cidr})
	}
}

// turn comes before each step, and chooses which of two brokers makes the step.
func (s *simulation) turn() {
	s.due()
	if s.second != nil && s.chance(50) {
		s.engine, s.second = s.second, s.engine
	}
}

// meanwhile has the other broker make a step while a call of this broker is on its way. The call
// takes until a run is due, but never as long as this broker's lease; and people act.
func (s *simulation) meanwhile() {
	if s.second == nil || s.within || !s.chance(4) {
		return
	}
	const most = 45 * time.Second
	next, err := s.store.NextDue(ctx)
	s.must(err)
	if next.Sub(s.began) < most {
		s.clock.AdvanceTo(next)
	}
	if s.clock.Now().Sub(s.began) > most {
		return
	}
	began, seen, stepping, dies := s.began, s.seen, s.stepping, s.dies
	s.within, s.seen, s.dies = true, map[string]bool{}, false
	s.due()
	worked, err := s.second.Step(ctx)
	if worked {
		s.together++
	}
	if errors.Is(err, chaintest.ErrKilled) {
		s.second = s.broker()
	} else if err != nil && !errors.Is(err, chain.ErrLost) {
		s.t.Error(err)
	}
	s.within, s.began, s.seen, s.stepping, s.dies = false, began, seen, stepping, dies
}

// ownTroubles draws faults outside the site: a call of the broker's own book that fails for one run
// only, and a node activated by a person while its run has stopped.
func (s *simulation) ownTroubles() {
	if s.chance(30) {
		method := []string{"Node", "Bundle", "Prepare", "Activate", "ExtendToken", "Reseed", "Quarantine", "Remove"}[s.by.IntN(8)]
		victim, from, lasts := s.ids[s.by.IntN(len(s.ids))], time.Duration(s.by.IntN(3600))*time.Second, time.Duration(s.by.IntN(3600))*time.Second
		down := false
		s.later(from, func() { down = true })
		s.later(from+lasts, func() { down = false })
		s.book.Broken = func(m string) error {
			if down && m == method && s.stepping == victim {
				return broker.Errorf(broker.Unavailable, "secret_forbidden", "cannot write a secret of run %s: it is denied", victim)
			}
			return nil
		}
	}
	if s.chance(30) {
		s.later(time.Duration(3600+s.by.IntN(4*3600))*time.Second, func() {
			for _, id := range s.ids {
				r := s.run(id)
				n := s.nodeOf(r)
				m, _ := s.region.Machine(n.MAASSystemID)
				if r.Status.Stopped() && r.Direction == chain.Forward && n.Epoch > 0 && n.Status == broker.Enrolling && m.Status == maassim.Deployed && m.Annotations["hostler-run"] == id {
					s.letIn[n.ID] = true
					s.book.Put(n.ID, broker.Active)
				}
			}
		})
	}
}

// nodeOf returns the node of a run's state.
func (s *simulation) nodeOf(r chain.Record) broker.Node {
	for _, n := range s.book.All() {
		if strings.Contains(string(r.State), `"node_id":"`+n.ID+`"`) {
			return n
		}
	}
	return broker.Node{}
}

// inUse reports whether somebody may be working on a node.
func (s *simulation) inUse(nodeID string) bool {
	return slices.ContainsFunc(s.book.All(), func(n broker.Node) bool {
		return n.ID == nodeID && (n.Status == broker.Active || n.Status == broker.Offline || n.Status == broker.Draining)
	})
}

// answered records the answers after which a run may hold the whole site.
func (s *simulation) answered(req *http.Request, res *http.Response, err error) {
	identity := strings.HasSuffix(req.URL.Path, "/version/") || req.URL.Query().Get("op") == "whoami"
	if identity && (err != nil || res.StatusCode != http.StatusOK || strings.HasPrefix(res.Header.Get("Content-Type"), "text/html")) || err == nil && res.StatusCode == http.StatusUnauthorized {
		s.unansweredAt = s.clock.Now()
	}
}

// tardy are the operations that a region may carry out after the caller has given up.
var tardy = []string{"allocate", "set_workload_annotations", "deploy", "release", "commission"}

// late has a change carried out after its broker has given up waiting or has died; often somebody
// cancels the run meanwhile.
func (s *simulation) late(req *http.Request, op, id string) (*http.Response, error) {
	run := s.stepping
	kept := req.Clone(ctx)
	req.Body, kept.Body = twice(s.t, req.Body)
	if s.dies = s.chance(40); !s.dies {
		s.clock.Advance(time.Duration(1+s.by.IntN(60)) * time.Second)
	}
	if s.chance(50) {
		s.later(time.Duration(s.by.IntN(90))*time.Second, func() { s.order(run, chain.Cancel) })
	}
	s.later(time.Duration(1+s.by.IntN(170))*time.Second, func() {
		before, _ := s.region.Machine(id)
		if _, err := s.carry(kept, op, id, run); err != nil {
			return // the region is away just then
		}
		after, there := s.region.Machine(id)
		if op == "deploy" && after.Status != before.Status && s.handled(id) {
			// A person released the machine while the call was on its way, and MAAS takes the call
			// for the person's own. No broker can prevent that.
			s.passes[run]++
		}
		if !there || after.Status == before.Status || s.handled(id) {
			return
		}
		if op == "commission" {
			return // the machine has no owner, or MAAS refuses: nobody waits for the commissioning
		}
		if r := s.run(run); r.Status.Ended() || op != "allocate" && before.Annotations["hostler-run"] != run && s.holder[id] != run {
			s.wrong("%s of run %s, which is %s, makes machine %s of %q %s: it was %s of %q, marked for %q", op, run, r.Status, id, after.Owner, after.Status, before.Status, before.Owner, before.Annotations["hostler-run"])
		}
	})
	return nil, io.ErrUnexpectedEOF
}

// handled reports whether a person changed a machine by hand.
func (s *simulation) handled(systemID string) bool {
	return slices.ContainsFunc(s.region.History(systemID), func(c maassim.Change) bool { return c.By == "somebody" })
}

// left checks that no ended run has left a machine Allocated.
func (s *simulation) left() {
	for _, m := range s.region.Machines() {
		run := s.holder[m.SystemID]
		if m.Status != maassim.Allocated || m.Owner != "admin" || !slices.Contains(s.ids, run) || !s.run(run).Status.Ended() {
			continue
		}
		if !s.handled(m.SystemID) {
			s.wrong("run %s is %s, and machine %s is Allocated for it", run, s.run(run).Status, m.SystemID)
		}
	}
}
