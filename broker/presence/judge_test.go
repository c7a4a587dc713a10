package presence

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/hostler/hostler/broker"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// site makes n nodes of a site whose last contact was the given time before noon.
func site(name string, n int, status broker.NodeStatus, silent time.Duration) []broker.Node {
	var out []broker.Node
	for i := range n {
		out = append(out, broker.Node{ID: fmt.Sprintf("%s-%s-%d-%s", name, status, i, silent), Site: name, Status: status, LastAgentContactAt: noon.Add(-silent)})
	}
	return out
}

// counted makes the fleet of these nodes, with heard nodes as numbers only.
func counted(nodes []broker.Node) Fleet {
	f := Fleet{Heard: map[string]int{}}
	for _, n := range nodes {
		if n.Status == broker.Active && noon.Sub(n.LastAgentContactAt) <= Overdue {
			f.Heard[n.Site]++
		} else if n.Status == broker.Active || n.Status == broker.Offline {
			f.Nodes = append(f.Nodes, n)
		}
	}
	return f
}

func TestTheRulesOfSilence(t *testing.T) {
	const short, long = 10 * time.Second, 10 * time.Minute
	owed := site("a", 1, broker.Offline, short)
	owed[0].TurnoverOwed = true
	for _, tt := range []struct {
		name    string
		nodes   []broker.Node
		hearing time.Duration // before noon
		offline int
		active  int
		alerts  string
	}{
		{name: "heard stays active", nodes: site("a", 1, broker.Active, short), hearing: time.Hour},
		{name: "silent goes offline", nodes: site("a", 1, broker.Active, long), hearing: time.Hour, offline: 1, alerts: "site_silent site/a"},
		{name: "one of two is not the site", nodes: slices.Concat(site("a", 1, broker.Active, long), site("a", 1, broker.Active, short)), hearing: time.Hour, offline: 1},
		{name: "the last one of a site is", nodes: slices.Concat(site("a", 1, broker.Active, long), site("a", 1, broker.Offline, long)), hearing: time.Hour, offline: 1, alerts: "site_silent site/a"},
		{name: "at the threshold stays", nodes: site("a", 1, broker.Active, 3*time.Minute), hearing: time.Hour},
		{name: "heard again comes back", nodes: site("a", 1, broker.Offline, short), hearing: time.Hour, active: 1},
		{name: "still silent stays offline", nodes: site("a", 1, broker.Offline, long), hearing: time.Hour, alerts: "site_silent site/a"},
		{name: "an owed turnover keeps it offline", nodes: owed, hearing: time.Hour},
		{name: "silence before the start does not count", nodes: site("a", 1, broker.Active, long), hearing: time.Minute},
		{name: "silence since the start does", nodes: site("a", 1, broker.Active, long), hearing: 4 * time.Minute, offline: 1, alerts: "site_silent site/a"},
		{
			name: "other statuses never change", hearing: time.Hour,
			nodes: slices.Concat(
				site("a", 1, broker.BootstrapIssued, long), site("a", 1, broker.Enrolling, long), site("a", 1, broker.Quarantined, short),
				site("a", 1, broker.Draining, long), site("a", 1, broker.Retired, short), site("a", 1, broker.Removing, long),
			),
		},
		{name: "four of four is no share of a site", nodes: site("a", 4, broker.Active, long), hearing: time.Hour, offline: 4, alerts: "site_silent site/a"},
		{name: "five of five is", nodes: site("a", 5, broker.Active, long), hearing: time.Hour, alerts: "site_silent site/a"},
		{
			name: "ten of a hundred go", hearing: time.Hour, offline: 10,
			nodes: slices.Concat(site("a", 10, broker.Active, long), site("a", 90, broker.Active, short)),
		},
		{
			name: "eleven of a hundred do not", hearing: time.Hour, alerts: "site_silent site/a",
			nodes: slices.Concat(site("a", 11, broker.Active, long), site("a", 89, broker.Active, short)),
		},
		{
			name: "nodes about to be silent count", hearing: time.Hour, alerts: "site_silent site/a",
			nodes: slices.Concat(site("a", 1, broker.Active, long), site("a", 10, broker.Active, 2*time.Minute), site("a", 89, broker.Active, short)),
		},
		{name: "overdue alone raises nothing", nodes: slices.Concat(site("a", 20, broker.Active, 2*time.Minute), site("a", 1, broker.Active, short)), hearing: time.Hour},
		{
			name: "one dark site does not shield another", hearing: time.Hour, offline: 1, alerts: "site_silent site/a",
			nodes: slices.Concat(site("a", 20, broker.Active, long), site("b", 1, broker.Active, long), site("b", 20, broker.Active, short)),
		},
		{
			name: "coming back is never held up", hearing: time.Hour, active: 50,
			nodes: site("a", 50, broker.Offline, short),
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			changes, alerts := Judge(noon, noon.Add(-tt.hearing), Fleet{Nodes: tt.nodes}, DefaultPolicy)
			got := map[broker.NodeStatus]int{}
			for _, c := range changes {
				got[c.To]++
			}
			if got[broker.Offline] != tt.offline || got[broker.Active] != tt.active {
				t.Errorf("%d to offline and %d to active, want %d and %d", got[broker.Offline], got[broker.Active], tt.offline, tt.active)
			}
			var said []string
			for _, a := range alerts {
				said = append(said, a.Code+" site/"+a.Site)
			}
			if strings.Join(said, ";") != tt.alerts {
				t.Errorf("alerts %q, want %q", said, tt.alerts)
			}
		})
	}
}

// A look that began before a node fell silent, and read it afterwards, does not bring it back.
func TestANodeThatFellSilentDuringALookStaysOffline(t *testing.T) {
	f := counted(site("a", 1, broker.Offline, 30*time.Second))
	f.ReadAt = noon.Add(5 * time.Minute)
	if changes, _ := Judge(noon, noon.Add(-time.Hour), f, DefaultPolicy); len(changes) > 0 {
		t.Errorf("changes: %+v", changes)
	}
}

func TestPollsHaveStoppedWhenNobodyIsHeard(t *testing.T) {
	for _, tt := range []struct {
		name  string
		nodes []broker.Node
		want  bool
	}{
		{"no nodes", nil, false},
		{"one node that is off", site("a", 1, broker.Active, time.Hour), false},
		{"one node that is off, beside one that is offline", slices.Concat(site("a", 1, broker.Active, time.Hour), site("a", 1, broker.Offline, time.Hour)), false},
		{"two on one site", site("a", 2, broker.Active, time.Hour), true},
		{"four on two sites", slices.Concat(site("a", 3, broker.Active, time.Hour), site("b", 1, broker.Active, time.Hour)), true},
		{"one of two is heard", slices.Concat(site("a", 1, broker.Active, time.Hour), site("a", 1, broker.Active, time.Second)), false},
		{"five on five sites", slices.Concat(site("a", 1, broker.Active, time.Hour), site("b", 1, broker.Active, time.Hour), site("c", 1, broker.Active, time.Hour), site("d", 1, broker.Active, time.Hour), site("e", 1, broker.Active, time.Hour)), true},
		{"one is heard", slices.Concat(site("a", 50, broker.Active, time.Hour), site("b", 1, broker.Active, time.Second)), false},
		{"offline ones are not expected", site("a", 50, broker.Offline, time.Hour), false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if _, got := Stopped(noon, Fleet{Nodes: tt.nodes}, DefaultPolicy); got != tt.want {
				t.Errorf("stopped: %v", got)
			}
		})
	}
}

// Whatever is observed: only active and offline change, only into each other, each node once, and
// never more of a site at once than the share.
func TestSilenceMovesOnlyActiveAndOffline(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		nodes := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) broker.Node {
			return broker.Node{
				Site:               rapid.SampledFrom([]string{"", "a", "b"}).Draw(t, "site"),
				Status:             rapid.SampledFrom(broker.NodeStatuses).Draw(t, "status"),
				TurnoverOwed:       rapid.Bool().Draw(t, "owed"),
				LastAgentContactAt: noon.Add(-time.Duration(rapid.IntRange(0, 900).Draw(t, "silent")) * time.Second),
			}
		}), 0, 60).Draw(t, "nodes")
		for i := range nodes {
			nodes[i].ID = fmt.Sprint(i)
		}
		hearing := noon.Add(-time.Duration(rapid.IntRange(0, 900).Draw(t, "hearing")) * time.Second)
		changes, alerts := Judge(noon, hearing, Fleet{Nodes: nodes}, DefaultPolicy)
		short := counted(nodes)
		if c, a := Judge(noon, hearing, short, DefaultPolicy); !slices.Equal(c, changes) || !slices.Equal(a, alerts) {
			t.Fatalf("where those that were heard are counted, it is %v %v and not %v %v", c, a, changes, alerts)
		}
		_, stopped := Stopped(noon, Fleet{Nodes: nodes}, DefaultPolicy)
		if _, is := Stopped(noon, short, DefaultPolicy); is != stopped {
			t.Fatalf("where those that were heard are counted, polls have stopped: %v, and not %v", is, stopped)
		}
		gone, total := map[string]int{}, map[string]int{}
		for _, n := range nodes {
			if n.Status == broker.Active || n.Status == broker.Offline {
				total[n.Site]++
			}
		}
		for _, c := range changes {
			i := slices.IndexFunc(nodes, func(n broker.Node) bool { return n.ID == c.NodeID })
			n := nodes[i]
			if n.Status != c.From {
				t.Fatalf("node is %s, the change is from %s", n.Status, c.From)
			}
			if err := broker.Transition(n, c.To, broker.OwnerHeartbeat); err != nil {
				t.Fatal(err)
			}
			if c.To == broker.Offline {
				gone[n.Site]++
				if noon.Sub(hearing) <= DefaultPolicy.Silence {
					t.Fatal("went offline although this system has not heard for long enough")
				}
			}
		}
		for name, n := range gone {
			if n >= DefaultPolicy.AtLeast && float64(n) > DefaultPolicy.Share*float64(total[name]) {
				t.Fatalf("%d of %d nodes of site %q went offline at once", n, total[name], name)
			}
		}
	})
}
