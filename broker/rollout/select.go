package rollout

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/taskcatalog"
	"github.com/hostler/hostler/taskcatalog/release"
)

// Candidate is a node with its facts at the request of a rollout.
type Candidate struct {
	Node    broker.Node
	Agent   broker.Agent
	Region  string // of its site
	Busy    bool   // a tenant is on the node
	Rollout string // the live rollout with this node as an unfinished member; empty: none
}

// Request is an operator's request for a rollout.
type Request struct {
	Release       Release
	Selector      string
	Plan          Plan
	OnFailure     OnFailure
	Safety        broker.SafetyPolicy
	AllowRollback bool
	Force         bool
	Reason        string
	RequestedBy   string
}

// New is the first state of a rollout to the candidates that match its release. Codes:
// rollout_invalid, reason_missing, rollout_empty.
func New(req Request, all []Candidate) (Rollout, error) {
	s := Rollout{
		Release: req.Release, Selector: req.Selector, Plan: req.Plan, OnFailure: req.OnFailure, Safety: req.Safety,
		AllowRollback: req.AllowRollback, Force: req.Force, Reason: req.Reason, RequestedBy: req.RequestedBy,
	}
	if err := s.valid(); err != nil {
		return s, err
	}
	var in []Candidate
	for _, c := range all {
		if code, why := s.exclusion(c); code != "" {
			s.exclude(c, code, why)
			continue
		}
		in = append(in, c)
	}
	if len(in) == 0 {
		return s, broker.Errorf(broker.Refused, "rollout_empty", "cannot roll %s out: no node that %q matches needs the release%s",
			s.Release.Version, taskcatalog.Clean(s.Selector, 200), s.leftOut())
	}
	s.divide(in)
	s.Carried = s.Members
	return s, nil
}

func (s *Rollout) valid() error {
	bad := func(format string, args ...any) error {
		return broker.Errorf(broker.Invalid, "rollout_invalid", "cannot roll "+s.Release.Version+" out: "+format, args...)
	}
	p := s.Plan
	rises := slices.IsSorted(p.Waves) && len(slices.Compact(slices.Clone(p.Waves))) == len(p.Waves)
	switch {
	case s.OnFailure != Pause && s.OnFailure != Rollback:
		return bad("%q is not an action on failure (pause, rollback)", taskcatalog.Clean(string(s.OnFailure), 40))
	case !slices.Contains(broker.SafetyPolicies, s.Safety):
		return bad("%q is not a safety policy (idle, after_drain, forced)", taskcatalog.Clean(string(s.Safety), 40))
	case p.WaveBy != "" && len(p.Waves) > 0:
		return bad("waves are either by share or by %s", taskcatalog.Clean(p.WaveBy, 64))
	case p.WaveBy == "" && (len(p.Waves) == 0 || !rises || p.Waves[0] < 1 || p.Waves[len(p.Waves)-1] != 100):
		return bad("the shares of the waves %v do not rise to 100", p.Waves)
	case p.Canary < 0 || p.Concurrency < 1 || p.SoakSeconds < 0 || p.MaxFailures < 1:
		return bad("concurrency and max_failures must be at least 1, canary and soak at least 0")
	case s.Reason == "" && (s.Safety == broker.Forced || s.AllowRollback || s.Force):
		return broker.Errorf(broker.Invalid, "reason_missing", "cannot roll %s out without a reason, which is recorded (--reason R)",
			s.Release.Version)
	}
	return nil
}

// exclusion says why a node is left out; empty: it is a member.
func (s *Rollout) exclusion(c Candidate) (code, why string) {
	n, a, want := c.Node, c.Agent, s.Release
	pinned := a.Channel == broker.ChannelPinned
	switch {
	case n.Status == broker.Removing || n.Status == broker.Deleted:
		return "node_status", "the node leaves the fleet"
	case n.Epoch == 0:
		return "never_enrolled", "its agent never enrolled"
	case n.AgentVersion == want.Version && a.Commit == want.Commit && a.SHA256 == want.SHA256:
		return "in_sync", "it runs " + want.Version
	case pinned && a.Pinned != want.Version:
		return "pinned_elsewhere", "the node is pinned to " + a.Pinned
	case !pinned && want.Channel != broker.ChannelStable && a.Channel != want.Channel:
		return "channel", fmt.Sprintf("its channel is %s, and %s belongs to %s", a.Channel, want.Version, want.Channel)
	case !s.AllowRollback && release.ValidVersion(n.AgentVersion) && release.Compare(n.AgentVersion, want.Version) > 0:
		return "runs_newer", "it runs " + taskcatalog.Clean(n.AgentVersion, 64)
	case c.Rollout != "":
		return "in_rollout", "rollout " + c.Rollout + " has it"
	}
	return "", ""
}

// lateExclusion says why a member gets nothing when its turn comes: a reason for exclusion has
// arisen since the request. A node that the selector lists by name stays selected.
func (s *Rollout) lateExclusion(c Candidate) (code, why string) {
	if code, why = s.exclusion(c); code != "" {
		return code, why
	}
	if sel, err := broker.ParseSelector(s.Selector); err == nil && sel.Refs() == nil && !sel.Matches(c.Node) {
		return "not_selected", "the selector no longer matches the node"
	}
	return "", ""
}

// Excluded are the excluded nodes, a line for each reason, of some sites (nil: all).
func (s *Rollout) Excluded(sites []string) (all []LeftOut) {
	for _, l := range s.LeftOut {
		if sites != nil && !slices.Contains(sites, l.Site) {
			continue
		}
		at := slices.IndexFunc(all, func(o LeftOut) bool { return o.Code == l.Code && o.Why == l.Why })
		if at < 0 {
			at = len(all)
			all = append(all, LeftOut{Code: l.Code, Why: l.Why})
		}
		o := &all[at]
		o.Count += l.Count
		o.Nodes = append(o.Nodes, l.Nodes[:min(len(l.Nodes), MostNamed-len(o.Nodes))]...)
	}
	return all
}

// MostNamed is how many nodes are listed by name for one reason.
const MostNamed = 20

func (s *Rollout) exclude(c Candidate, code, why string) {
	at := slices.IndexFunc(s.LeftOut, func(l LeftOut) bool { return l.Code == code && l.Why == why && l.Site == c.Node.Site })
	if at < 0 {
		at = len(s.LeftOut)
		s.LeftOut = append(s.LeftOut, LeftOut{Code: code, Why: why, Site: c.Node.Site})
	}
	l := &s.LeftOut[at]
	if l.Count++; l.Count <= MostNamed {
		l.Nodes = append(l.Nodes, c.Node.Hostname)
	}
}

func (s *Rollout) leftOut() string {
	var words []string
	for _, l := range s.Excluded(nil) {
		words = append(words, fmt.Sprintf("%d left out because %s", l.Count, l.Why))
	}
	if words == nil {
		return ""
	}
	return " (" + strings.Join(words, "; ") + ")"
}

// divide puts the members into waves, in order of hostname. Members without tenants become canaries
// before members with tenants do.
func (s *Rollout) divide(in []Candidate) {
	slices.SortFunc(in, func(a, b Candidate) int {
		return cmp.Or(strings.Compare(a.Node.Hostname, b.Node.Hostname), strings.Compare(a.Node.ID, b.Node.ID))
	})
	wave := make([]int, len(in)) // -1: a canary; 0: in none yet
	canaries := 0
	for _, busy := range []bool{false, true} {
		for i, c := range in {
			if c.Busy == busy && canaries < s.Plan.Canary {
				wave[i], canaries = -1, canaries+1
			}
		}
	}
	s.Waves = []Wave{{Name: "canary"}}
	if s.Plan.WaveBy != "" {
		s.byValue(in, wave)
	} else {
		s.byShare(in, wave, canaries)
	}
	for i, c := range in {
		s.Members = append(s.Members, Member{
			NodeID: c.Node.ID, Hostname: c.Node.Hostname, Wave: max(wave[i], 0),
			From: taskcatalog.Clean(c.Node.AgentVersion, 64), Result: Waiting,
		})
	}
}

func (s *Rollout) byShare(in []Candidate, wave []int, taken int) {
	next := 0
	for _, share := range s.Plan.Waves {
		s.Waves = append(s.Waves, Wave{Name: fmt.Sprintf("%d %%", share)})
		for upTo := (share*len(in) + 99) / 100; next < len(in) && taken < upTo; next++ {
			if wave[next] == 0 {
				wave[next], taken = len(s.Waves)-1, taken+1
			}
		}
	}
}

// byValue makes a wave of each value, in the order of the values; nodes without a value come
// last.
func (s *Rollout) byValue(in []Candidate, wave []int) {
	values := map[string]bool{}
	for _, c := range in {
		values[c.value(s.Plan.WaveBy)] = true
	}
	names := []string{}
	for v := range values {
		if v != "" {
			names = append(names, v)
		}
	}
	slices.Sort(names)
	if values[""] {
		names = append(names, "")
	}
	for _, v := range names {
		s.Waves = append(s.Waves, Wave{Name: s.Plan.WaveBy + "=" + taskcatalog.Clean(v, 100)})
	}
	at := make(map[string]int, len(names))
	for i, v := range names {
		at[v] = 1 + i
	}
	for i, c := range in {
		if wave[i] == 0 {
			wave[i] = at[c.value(s.Plan.WaveBy)]
		}
	}
}

// value is a node's value of a label or fact, or the region of its site.
func (c Candidate) value(key string) string {
	v, ok := broker.Trait(c.Node, key)
	if !ok && key == "region" {
		return c.Region
	}
	return v
}
