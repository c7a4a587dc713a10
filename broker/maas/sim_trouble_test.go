//go:build !race

package maas_test

import (
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/chain"
	"github.com/hostler/hostler/test/maassim"
)

// someProfile is the site's, or another one there: with another interval, or without
// a second attempt.
func (s *simulation) someProfile() broker.Profile {
	p := s.profile
	p.Policy.StageRetries = maps.Clone(p.Policy.StageRetries)
	p.Policy.HardwareSyncInterval = []string{"5m", "10m"}[s.by.IntN(2)]
	if s.chance(20) {
		p.Policy.StageRetries["deploy_via_maas"] = 0
	}
	return p
}

// ownTroubles are those that the site has no part in: what one run cannot have of the
// broker's own, and a node that a person lets in past a run that has stopped.
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

// nodeOf is the node of a run, as its state has it.
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

// answered notes what lets a run say that the whole site is away.
func (s *simulation) answered(req *http.Request, res *http.Response, err error) {
	identity := strings.HasSuffix(req.URL.Path, "/version/") || req.URL.Query().Get("op") == "whoami"
	if identity && (err != nil || res.StatusCode != http.StatusOK || strings.HasPrefix(res.Header.Get("Content-Type"), "text/html")) || err == nil && res.StatusCode == http.StatusUnauthorized {
		s.unanswered = true
	}
}

// late has an allocate carried out when nobody waits for it any more.
func (s *simulation) late(req *http.Request, id, run string) (*http.Response, error) {
	kept := req.Clone(ctx)
	req.Body, kept.Body = twice(s.t, req.Body)
	s.clock.Advance(time.Duration(1+s.by.IntN(60)) * time.Second)
	s.later(time.Duration(1+s.by.IntN(90))*time.Second, func() {
		before, _ := s.region.Machine(id)
		_, _ = s.region.RoundTripper().RoundTrip(kept)
		if after, there := s.region.Machine(id); there && after.Status == maassim.Allocated && before.Status == maassim.Ready {
			s.holder[id] = run
		}
	})
	return nil, io.ErrUnexpectedEOF
}

// left sees that no run which has ended has left a machine that nobody has.
func (s *simulation) left() {
	for _, m := range s.region.Machines() {
		run := s.holder[m.SystemID]
		if m.Status != maassim.Allocated || m.Owner != "admin" || !slices.Contains(s.ids, run) || !s.run(run).Status.Ended() {
			continue
		}
		if !slices.ContainsFunc(s.region.History(m.SystemID), func(c maassim.Change) bool { return c.By == "somebody" }) {
			s.wrong("run %s is %s, and machine %s is Allocated for it", run, s.run(run).Status, m.SystemID)
		}
	}
}
