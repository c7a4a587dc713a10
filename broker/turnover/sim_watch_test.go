//go:build !race

package turnover_test

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/maas"
	"github.com/hostler/hostler/broker/reconcile"
	"github.com/hostler/hostler/broker/turnover/turnovertest"
	"github.com/hostler/hostler/test/maassim"
)

// looking is the state of the reconciler's looks.
type looking struct {
	now    bool
	began  time.Time
	spell  string               // a temporary fault of MAAS's list
	listed bool                 // this look has read the whole list
	alone  map[string]time.Time // machines that this look has read separately, and when
	whole  []time.Time          // complete looks since the last incomplete look
	acts   []acted
}

type acted struct {
	at   time.Time
	node string
	what reconcile.Action
}

// watches is the reconciler of a site where every rule acts, at its usual interval. The leading
// broker changes from time to time.
func (s *simulation) watches() {
	p := &s.drifts.policy
	p.Modes = map[string]reconcile.Mode{}
	for _, r := range reconcile.Rules[:len(reconcile.Rules)-1] {
		p.Modes[r.ID] = reconcile.Act
	}
	p.MaxSharePercent, p.AtLeast = pick(s, 10, 40, 60, 100, 100), pick(s, 1, 2, 2, 2, 3)
	p.ConfirmSeconds, p.RetiredGraceSeconds, p.DecommissionsAtOnce = pick(s, 10, 30, 120), pick(s, 600, 3600), pick(s, 1, 1, 2)
	s.leads()
	s.watching = s.chance(75) || s.watching
	s.later(s.until(10*time.Minute), s.looks)
}

// leads is a broker that begins to lead.
func (s *simulation) leads() {
	s.watch = &reconcile.Watch{
		DB: s.drifts, Regions: &maas.Sites{Secrets: s.secrets, Now: s.clock.Now, Transport: func(broker.Site) http.RoundTripper { return s.through }},
		Now: s.clock.Now, Log: zap.NewNop(), Reseed: agentsOf{s}, Decommission: s.leavers,
	}
}

// looks looks, again and again.
func (s *simulation) looks() {
	const until = 4 * time.Hour
	if !s.watching {
		return
	}
	if s.clock.Now().Sub(s.began) < until {
		s.later(pick(s, 35*time.Second, reconcile.Every, reconcile.Every, reconcile.Every, reconcile.Every), s.looks)
	}
	if s.look.now {
		return // one look at a time
	}
	if s.chance(20) {
		s.look.spell = pick(s, "", "", "", "", "", "", "", "", "500", "empty", "half", "odd", "away")
	}
	s.look.now, s.look.began, s.look.listed, s.look.alone = true, s.clock.Now(), false, map[string]time.Time{}
	err := s.watch.Look(ctx, s.site)
	s.look.now = false
	s.counts["looks"]++
	switch {
	case s.look.listed && err == nil:
		s.look.whole = append(s.look.whole, s.look.began)
	default:
		s.look.whole = nil
	}
	if errors.Is(err, errLost) || s.chance(1) {
		s.leads()
		s.look.whole = nil
	} else if err != nil {
		s.wrong("the reconciler: %v", err)
	}
}

// watched is the reconciler's way to the region.
type watched struct{ s *simulation }

var errAway = errors.New("no route to host")

// RoundTrip checks that a look only reads.
func (w watched) RoundTrip(req *http.Request) (*http.Response, error) {
	s := w.s
	if req.Method != http.MethodGet {
		s.wrong("the reconciler asks MAAS for more than to be read: %s %s", req.Method, req.URL)
		return nil, errAway
	}
	if s.look.now && !s.within && s.stepping == "" && s.chance(5) {
		s.clock.Advance(time.Duration(s.by.IntN(60)) * time.Second)
		s.aside(&s.engine)
	}
	list := strings.HasSuffix(req.URL.Path, "/machines/") && req.URL.Query().Get("op") == ""
	switch s.look.spell {
	case "away":
		return nil, errAway
	case "500":
		return answering(req, http.StatusInternalServerError, "odd"), nil
	case "odd":
		return answering(req, http.StatusOK, "<html>one moment, please</html>"), nil
	case "empty":
		if list {
			return answering(req, http.StatusOK, "[]"), nil
		}
	}
	res, err := s.region.RoundTripper().RoundTrip(req)
	if err != nil {
		return res, err
	}
	switch id := s.aboutMachine(req); {
	case list:
		s.look.listed = res.StatusCode == http.StatusOK && strings.HasPrefix(res.Header.Get("Content-Type"), "application/json")
		if s.look.listed && s.look.spell == "half" {
			return s.halved(req, res)
		}
	case id != "" && (res.StatusCode == http.StatusOK || res.StatusCode == http.StatusNotFound):
		s.look.alone[id] = s.clock.Now()
	}
	return res, nil
}

// halved is a list that was cut on the way.
func (s *simulation) halved(req *http.Request, res *http.Response) (*http.Response, error) {
	raw, err := io.ReadAll(res.Body)
	var all []json.RawMessage
	if err == nil {
		err = json.Unmarshal(raw, &all)
	}
	s.must(err)
	some, err := json.Marshal(all[:len(all)/2])
	s.must(err)
	return answering(req, http.StatusOK, string(some)), nil
}

func answering(req *http.Request, status int, body string) *http.Response {
	return &http.Response{
		StatusCode: status, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(body)), Request: req,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
	}
}

// aboutMachine is the machine that a call reads separately.
func (s *simulation) aboutMachine(req *http.Request) string {
	part := strings.Split(strings.Trim(strings.TrimPrefix(req.URL.Path, "/MAAS/api/2.0/"), "/"), "/")
	if len(part) == 2 && part[0] == "machines" && req.URL.Query().Get("op") == "" {
		return part[1]
	}
	return ""
}

func (s *simulation) box(id string) *box {
	return s.boxes[slices.IndexFunc(s.boxes, func(b *box) bool { return b.id == id })]
}

// mayAct holds the rules for a reconciler's action on a node: no run has the node; MAAS reported
// the drift in a complete list just now and in an earlier list, and for the machine separately;
// and the drift is real.
func (s *simulation) mayAct(b *box, rule string) {
	node, now := s.book.Machine(b.id), s.clock.Now()
	confirm := time.Duration(s.drifts.policy.ConfirmSeconds) * time.Second
	r, _ := reconcile.RuleOf(rule)
	if run := s.live(b.id); run != nil || node.TurnoverOwed {
		s.wrong("the reconciler acts on node %s (%s), which run %v has, turnover owed %v", b.id, rule, run, node.TurnoverOwed)
	}
	if s.drifts.frozen() && r.Action != reconcile.Decommission && r.Action != reconcile.Reseed {
		s.wrong("the reconciler acts on node %s (%s), whose site is frozen", b.id, rule)
	}
	alone, read := s.look.alone[b.systemID]
	if !s.look.now || !s.look.listed || !read || now.Sub(alone) > time.Minute {
		s.wrong("the reconciler acts on node %s (%s) by what it has not seen: a whole list %v, the machine alone at %v", b.id, rule, s.look.listed, alone)
	}
	if len(s.look.whole) == 0 || now.Sub(s.look.whole[0]) < confirm {
		s.wrong("the reconciler acts on node %s (%s) by one observation: %v were whole", b.id, rule, s.look.whole)
	}
	m, there := s.region.Machine(b.systemID)
	if mark := m.Annotations["hostler-node"]; r.Action == reconcile.Quarantine && there && m.Status == maassim.Deployed && (mark == b.id || mark == "" && !s.drifts.states[b.id].Marked) {
		s.wrong("the reconciler quarantines node %s (%s), and its machine is as it should be", b.id, rule)
	}
}

// changes compares the reconciler's changes within an hour with the policy's share.
func (s *simulation) changes(b *box, what reconcile.Action) {
	now := s.clock.Now()
	s.look.acts = append(s.look.acts, acted{now, b.id, what})
	lately, nodes := map[string]bool{}, 0
	for _, a := range s.look.acts {
		if a.what == what && now.Sub(a.at) < time.Hour && s.book.Machine(a.node).Status != broker.Deleted {
			lately[a.node] = true
		}
	}
	for _, b := range s.boxes {
		switch s.book.Machine(b.id).Status {
		case broker.Active, broker.Offline, broker.Quarantined, broker.Draining, broker.Retired:
			if b.systemID != "" {
				nodes++
			}
		}
	}
	if s.drifts.policy.TooMany(len(lately), nodes) {
		s.wrong("the reconciler has changed %d of %d nodes within an hour (%s), of which the policy lets pass %d%%", len(lately), nodes, what, s.drifts.policy.MaxSharePercent)
	}
}

// mayDecommission holds the rules for a removal by the reconciler.
func (s *simulation) mayDecommission(b *box, node turnovertest.Machine) {
	began := 0
	for _, r := range s.runs {
		if r.drift && !s.run(r.id).Status.Ended() {
			began++
		}
	}
	if began > s.drifts.policy.DecommissionsAtOnce {
		s.wrong("%d nodes leave the fleet at once for drift", began)
	}
	grace := time.Duration(s.drifts.policy.RetiredGraceSeconds) * time.Second
	m, there := s.region.Machine(b.systemID)
	switch {
	case node.Status != broker.Retired || node.TurnoverOwed || slices.ContainsFunc(node.Users, broker.Occupant.Live):
		s.wrong("the reconciler has node %s leave, which is %s, owed %v, with %v on it", b.id, node.Status, node.TurnoverOwed, node.Users)
	case b.was != broker.Retired || s.clock.Now().Sub(b.since) < grace:
		s.wrong("the reconciler has node %s leave, which is retired since %s: it was to be left alone for %v", b.id, b.since.Format(time.TimeOnly), grace)
	case b.stays:
		s.wrong("the reconciler has node %s leave, which a person wants to stay", b.id)
	case !there || m.Status != maassim.Deployed:
		s.wrong("the reconciler has node %s leave, whose machine is %s", b.id, m.Status)
	}
}

// tookForDrift holds the rules for the moment at which such a run takes its node.
func (s *simulation) tookForDrift(r *begun, node turnovertest.Machine) {
	if node.Status != broker.Retired || slices.ContainsFunc(node.Users, broker.Occupant.Live) {
		s.wrong("run %s takes node %s for drift, which is %s, with %v on it", r.id, node.ID, node.Status, node.Users)
	}
}
