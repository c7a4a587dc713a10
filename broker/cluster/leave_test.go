package cluster

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/taskcatalog"
)

// leaving asks for the step cluster.leave, and returns what the node is told.
func (s *site) leaving(t *testing.T) (taskcatalog.ClusterMembership, error) {
	t.Helper()
	var is taskcatalog.ClusterMembership
	got, err := s.ask(t, "cluster_leave", "leave")
	if err == nil {
		err = json.Unmarshal([]byte(got.Secret), &is)
	}
	return is, err
}

const drained = "drain for hostler: operation op-1 (slurm.node.bootstrap@v1):"

// A node that leaves gets no new work, is forgotten when it has none, and gets no order in between.
func TestAClusterLetsANodeGo(t *testing.T) {
	s := newSite(t, plan)
	s.fake.after = map[string]Membership{drained: {State: Draining, Words: "MIXED+DRAIN"}, "remove": {State: Absent, Words: "no such node"}}
	for _, want := range []struct {
		is    Membership // what the cluster says by then; zero: what it said last
		tells string
		asked string
	}{
		{Membership{}, "draining MIXED+DRAIN", "look gpu-7, " + drained + " gpu-7"},
		{Membership{}, "draining MIXED+DRAIN", "look gpu-7, " + drained + " gpu-7"},
		{Membership{State: Drained, Words: "IDLE+DRAIN"}, "absent no such node", "look gpu-7, remove gpu-7, look gpu-7"},
		{Membership{}, "absent no such node", "look gpu-7"},
	} {
		if want.is.State != "" {
			s.fake.is = want.is
		}
		s.fake.asked = nil
		is, err := s.leaving(t)
		if got := strings.Join(s.fake.asked, ", "); err != nil || is.State+" "+is.Words != want.tells || got != want.asked {
			t.Errorf("%+v %v, asked %s, want %+v", is, err, got, want)
		}
	}
}

func TestAnOrderFollowsWhatTheClusterSays(t *testing.T) {
	for state, order := range map[State]string{
		Member: drained, Joining: drained, Down: drained, Draining: drained, Drained: "remove",
		Absent: "", Unknown: "", "": "",
	} {
		s := newSite(t, plan)
		s.fake.is.State = state
		is, err := s.leaving(t)
		want := "look gpu-7"
		switch order {
		case "":
		case "remove":
			want = "look gpu-7, remove gpu-7, look gpu-7"
		default:
			want = "look gpu-7, " + order + " gpu-7"
		}
		// The cluster says the same after the order: an order that is accepted has not happened by that.
		if got := strings.Join(s.fake.asked, ", "); err != nil || got != want || is.State != string(state) {
			t.Errorf("%q: told %q, asked %s, %v", state, is.State, got, err)
		}
	}
}

func TestAnOrderFails(t *testing.T) {
	for _, state := range []State{Member, Drained} {
		s := newSite(t, plan)
		s.fake.is.State = state
		s.fake.orders = broker.Errorf(broker.Refused, "cluster_refused", "busy")
		if is, err := s.leaving(t); err != s.fake.orders {
			t.Errorf("%s: told %+v, %v", state, is, err)
		}
	}
}

// A node that orders its drain itself does so by the id that the cluster has of it.
func TestANodeThatLeavesHearsItsID(t *testing.T) {
	s := newSite(t, plan)
	s.fake.is = Membership{State: Member, Words: "ALIVE", ID: "a1"}
	if is, err := s.leaving(t); err != nil || is.ID != "a1" {
		t.Errorf("%+v %v", is, err)
	}
}

// What the plan says of force reaches the cluster, and what was cut off reaches the node and the audit log.
func TestWhatIsCutOffIsTold(t *testing.T) {
	s := newSite(t, strings.Replace(plan, `"leave","kind":"cluster.leave","with":{`, `"leave","kind":"cluster.leave","with":{"force_after":90,`, 1))
	order := strings.TrimSuffix(drained, ":") + " by force after 1m30s:"
	s.fake.after = map[string]Membership{order: {State: Draining, Words: "x", Cut: []string{"team/db-0"}}}
	got, err := s.ask(t, "cluster_leave", "leave")
	if err != nil || got.Secret != `{"state":"draining","words":"x","controller":"ctl:6817","node":"gpu-7","cut":["team/db-0"]}` || !strings.HasSuffix(got.Opens, "; cut off: team/db-0") {
		t.Errorf("%+v %v, asked %v", got, err, s.fake.asked)
	}
}
