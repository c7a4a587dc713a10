package reconcile_test

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/maas"
	"github.com/hostler/hostler/broker/reconcile"
)

var (
	update = flag.Bool("update", false, "write the golden files anew")
	noon   = time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)
)

// sound is a machine that agrees with its node.
func sound() reconcile.Machine {
	return reconcile.Machine{At: noon, Status: maas.Deployed, StatusName: "Deployed", Power: "on", IPs: []string{"10.10.0.7"}, Address: "10.10.0.7", Mark: "n-1"}
}

func node(status broker.NodeStatus) reconcile.Node {
	return reconcile.Node{
		Node:   broker.Node{ID: "n-1", Hostname: "gpu-1", Status: status, MAASSystemID: "4y3h7n", LastAgentContactAt: noon.Add(-10 * time.Second)},
		Host:   "10.10.0.7",
		Marked: true,
	}
}

// everything observes every rule.
func everything() reconcile.Policy {
	p := reconcile.DefaultPolicy
	p.Modes = map[string]reconcile.Mode{"retired_deployed": reconcile.Observe}
	return p
}

// Each row of the table matches this change of a sound pair, and no smaller change.
func TestEveryRowOfTheTable(t *testing.T) {
	in := func(s maas.Status) func(*reconcile.Machine, *reconcile.Node) {
		return func(m *reconcile.Machine, _ *reconcile.Node) {
			m.Status, m.StatusName = s, fmt.Sprint("status ", int(s))
		}
	}
	for _, row := range []struct {
		name   string
		node   broker.NodeStatus
		change func(*reconcile.Machine, *reconcile.Node)
		rule   string
		action reconcile.Action
		alert  reconcile.Level
		bad    reconcile.Severity
	}{
		{"Deployed and active", broker.Active, nil, "", "", "", ""},
		{"Deployed and offline", broker.Offline, nil, "agent_silent", reconcile.AlertOnly, reconcile.AlertWarn, reconcile.Medium},
		{"Deployed, silent, and active all the same", broker.Active, func(_ *reconcile.Machine, n *reconcile.Node) { n.LastAgentContactAt = noon.Add(-time.Hour) }, "agent_silent", reconcile.AlertOnly, reconcile.AlertWarn, reconcile.Medium},
		{"Ready and active", broker.Active, in(maas.Ready), "released", reconcile.Quarantine, reconcile.AlertCritical, reconcile.Critical},
		{"Releasing and active", broker.Active, in(maas.Releasing), "released", reconcile.Quarantine, reconcile.AlertCritical, reconcile.Critical},
		{"Failed testing and active", broker.Active, in(maas.FailedTesting), "hardware_failed", reconcile.Quarantine, reconcile.AlertCritical, reconcile.High},
		{"Broken and active", broker.Active, in(maas.Broken), "hardware_failed", reconcile.Quarantine, reconcile.AlertCritical, reconcile.High},
		{"Commissioning and active", broker.Active, in(maas.Commissioning), "recommissioned", reconcile.AlertOnly, reconcile.AlertWarn, reconcile.Medium},
		{"another address and active", broker.Active, func(m *reconcile.Machine, _ *reconcile.Node) { m.IPs, m.Address = []string{"10.10.0.8"}, "10.10.0.8" }, "readdressed", reconcile.Readdress, reconcile.AlertInfo, reconcile.Medium},
		{"absent and active", broker.Active, func(m *reconcile.Machine, _ *reconcile.Node) { *m = reconcile.Machine{At: noon, Absent: true} }, "absent", reconcile.Quarantine, reconcile.AlertCritical, reconcile.Critical},
		{"Deployed and retired", broker.Retired, nil, "retired_deployed", reconcile.Decommission, reconcile.AlertInfo, reconcile.Low},

		{"Deploying and active", broker.Active, in(maas.Deploying), "redeployed", reconcile.Quarantine, reconcile.AlertCritical, reconcile.Critical},
		{"in rescue mode and active", broker.Active, in(maas.RescueMode), "in_maintenance", reconcile.AlertOnly, reconcile.AlertWarn, reconcile.Medium},
		{"off and silent, yet active", broker.Active, func(m *reconcile.Machine, n *reconcile.Node) {
			m.Power, n.LastAgentContactAt = "off", noon.Add(-time.Hour)
		}, "powered_off", reconcile.AlertOnly, reconcile.AlertWarn, reconcile.High},
		{"off by MAAS's word, and heard", broker.Active, func(m *reconcile.Machine, _ *reconcile.Node) { m.Power = "off" }, "", "", "", ""},
		{"without the mark that it had", broker.Active, func(m *reconcile.Machine, _ *reconcile.Node) { m.Mark = "" }, "mark_changed", reconcile.Quarantine, reconcile.AlertCritical, reconcile.Critical},
		{"with another node's mark", broker.Active, func(m *reconcile.Machine, n *reconcile.Node) { m.Mark, n.Marked = "n-2", false }, "mark_changed", reconcile.Quarantine, reconcile.AlertCritical, reconcile.Critical},
		{"never marked", broker.Active, func(m *reconcile.Machine, n *reconcile.Node) { m.Mark, n.Marked = "", false }, "", "", "", ""},
		{"one of its addresses is the node's", broker.Active, func(m *reconcile.Machine, _ *reconcile.Node) {
			m.IPs, m.Address = []string{"10.10.0.7", "10.10.0.8"}, "10.10.0.8"
		}, "", "", "", ""},
		{"MAAS tells of no address", broker.Active, func(m *reconcile.Machine, _ *reconcile.Node) { m.IPs, m.Address = nil, "" }, "", "", "", ""},
		{"hardware sync is late", broker.Active, func(m *reconcile.Machine, _ *reconcile.Node) { m.SyncLate = true }, "hw_sync_stale", reconcile.Reseed, reconcile.AlertWarn, reconcile.Medium},
		{"Ready and retired", broker.Retired, in(maas.Ready), "retired_taken", reconcile.AlertOnly, reconcile.AlertWarn, reconcile.High},
		{"Ready and quarantined", broker.Quarantined, in(maas.Ready), "", "", "", ""},
		{"Ready, and quarantined for that", broker.Quarantined, func(m *reconcile.Machine, n *reconcile.Node) { m.Status, n.Open = maas.Ready, "released" }, "released", reconcile.Quarantine, reconcile.AlertCritical, reconcile.Critical},
		{"Deploying, and quarantined since it was Ready", broker.Quarantined, func(m *reconcile.Machine, n *reconcile.Node) { m.Status, n.Open = maas.Deploying, "released" }, "redeployed", reconcile.Quarantine, reconcile.AlertCritical, reconcile.Critical},
	} {
		t.Run(row.name, func(t *testing.T) {
			m, n := sound(), node(row.node)
			if row.change != nil {
				row.change(&m, &n)
			}
			f, found := reconcile.Judge(m, n, everything())
			if found != (row.rule != "") || f.ID != row.rule || f.Action != row.action || f.Alert != row.alert || f.Severity != row.bad {
				t.Errorf("%q: %s, alert %s, severity %s; want %q: %s, %s, %s", f.ID, f.Action, f.Alert, f.Severity, row.rule, row.action, row.alert, row.bad)
			}
			for _, held := range []reconcile.Node{withRun(n), owing(n)} {
				if f, found := reconcile.Judge(m, held, everything()); found {
					t.Errorf("with a run, or owing a turnover, it is judged %s", f.ID)
				}
			}
			p := everything()
			p.Modes = map[string]reconcile.Mode{row.rule: reconcile.Off}
			if f, found := reconcile.Judge(m, n, p); row.rule != "" && found && f.ID == row.rule {
				t.Error("it is found although it is off")
			}
		})
	}
}

func withRun(n reconcile.Node) reconcile.Node { n.InRun = true; return n }
func owing(n reconcile.Node) reconcile.Node   { n.TurnoverOwed = true; return n }

// The golden file shows the whole table: each status of MAAS with each status of a node.
func TestTheWholeTableIsAsAgreed(t *testing.T) {
	const golden = "testdata/rules.golden"
	var b strings.Builder
	for s := maas.New; s <= maas.FailedTesting+1; s++ {
		for _, status := range broker.NodeStatuses {
			m, n := sound(), node(status)
			if m.Status = s; s > maas.FailedTesting {
				m = reconcile.Machine{At: noon, Absent: true}
			}
			f, found := reconcile.Judge(m, n, everything())
			if found {
				fmt.Fprintf(&b, "%-7s %-12s %-16s %s\n", map[bool]string{true: "absent", false: fmt.Sprint(int(s))}[m.Absent], status, f.ID, f.Action)
			}
		}
	}
	if *update {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(golden, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if b.String() != string(want) {
		t.Errorf("the table differs from %s (go test ./broker/reconcile -update, and read the diff):\n%s", golden, b.String())
	}
}

func TestEveryStatusOfMAASMeansSomethingForANodeInUse(t *testing.T) {
	for s := maas.New; s <= maas.FailedTesting; s++ {
		m := sound()
		m.Status = s
		if _, found := reconcile.Judge(m, node(broker.Active), everything()); found == (s == maas.Deployed) {
			t.Errorf("status %d of an active node is found: %v", s, found)
		}
	}
}

// The reconciler makes one transition: to quarantined, from each status of its rules. The table of
// transitions allows it no other.
func TestQuarantineIsTheReconcilersToMake(t *testing.T) {
	from := map[broker.NodeStatus]bool{}
	for _, r := range reconcile.Rules {
		if r.Action == reconcile.Quarantine {
			for _, s := range r.Nodes {
				from[s] = true
			}
		}
	}
	for _, s := range broker.NodeStatuses {
		err := broker.Transition(broker.Node{ID: "n-1", Status: s}, broker.Quarantined, broker.OwnerReconciler)
		if from[s] != (err == nil) {
			t.Errorf("%s to quarantined: the rules make it: %v, the table says %v", s, from[s], err)
		}
	}
}

func TestTheDefaultsActOnNothing(t *testing.T) {
	for _, r := range reconcile.Rules {
		want := reconcile.Observe
		if r.ID == "retired_deployed" {
			want = reconcile.Off
		}
		if got := reconcile.DefaultPolicy.Mode(r.ID); got != want {
			t.Errorf("%s is %s on a new site, want %s", r.ID, got, want)
		}
		if r.ID == reconcile.Unmanaged && (r.Action != reconcile.AlertOnly || r.Alert != reconcile.AlertDebug || len(r.Nodes) > 0) {
			t.Errorf("something is done about machines that are no node's: %+v", r)
		}
		if r.Text == "" || r.MAAS == "" || r.ID != reconcile.Unmanaged && r.Expected == "" {
			t.Errorf("%s lacks words", r.ID)
		}
	}
}

func TestTooManyIsAShareAndAtLeastAFew(t *testing.T) {
	for _, row := range []struct {
		changes, nodes int
		want           bool
	}{{4, 4, false}, {5, 5, true}, {5, 49, true}, {5, 50, false}, {10, 100, false}, {11, 100, true}, {501, 5000, true}} {
		if got := reconcile.DefaultPolicy.TooMany(row.changes, row.nodes); got != row.want {
			t.Errorf("%d of %d is too many: %v", row.changes, row.nodes, got)
		}
	}
}

func TestABadPolicyIsRefused(t *testing.T) {
	for name, p := range map[string]reconcile.Policy{
		"an unknown rule":         {Modes: map[string]reconcile.Mode{"relesed": reconcile.Act}},
		"an unknown mode":         {Modes: map[string]reconcile.Mode{"released": "maybe"}},
		"a mode for strangers":    {Modes: map[string]reconcile.Mode{reconcile.Unmanaged: reconcile.Act}},
		"a share over all":        {MaxSharePercent: 101},
		"a negative share":        {MaxSharePercent: -1},
		"no time to confirm":      {ConfirmSeconds: 1},
		"a negative number":       {AtLeast: -1},
		"no grace for the paused": {RetiredGraceSeconds: 60},
		"a flood of runs":         {DecommissionsAtOnce: 101},
	} {
		if err := p.Check(); err == nil || broker.AsError(err).Code != "reconcile_policy_invalid" {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := reconcile.DefaultPolicy.Check(); err != nil {
		t.Error(err)
	}
}

// Whatever is observed, a rule that is off is not found, a held node is not judged, and a finding
// is about nodes in that status.
func TestJudgeIsTotal(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := reconcile.Machine{
			At: noon, Absent: rapid.Bool().Draw(t, "absent"), Status: maas.Status(rapid.IntRange(-1, 30).Draw(t, "status")),
			Power: rapid.SampledFrom([]string{"on", "off", "unknown", ""}).Draw(t, "power"), Mark: rapid.SampledFrom([]string{"", "n-1", "n-2"}).Draw(t, "mark"),
			SyncLate: rapid.Bool().Draw(t, "late"), Address: rapid.SampledFrom([]string{"", "10.0.0.1", "10.0.0.2"}).Draw(t, "address"),
		}
		if m.Address != "" {
			m.IPs = []string{m.Address}
		}
		n := node(rapid.SampledFrom(broker.NodeStatuses).Draw(t, "node"))
		n.Host = rapid.SampledFrom([]string{"", "10.0.0.1"}).Draw(t, "host")
		n.Open = rapid.SampledFrom([]string{"", "released", "readdressed", "gone"}).Draw(t, "open")
		n.InRun, n.TurnoverOwed = rapid.Bool().Draw(t, "run"), rapid.Bool().Draw(t, "owed")
		p := reconcile.DefaultPolicy
		p.Modes = map[string]reconcile.Mode{}
		for _, r := range reconcile.Rules {
			p.Modes[r.ID] = rapid.SampledFrom(reconcile.Modes).Draw(t, r.ID)
		}
		f, found := reconcile.Judge(m, n, p)
		switch {
		case !found:
		case n.Held():
			t.Fatalf("a held node is judged %s", f.ID)
		case f.Mode == reconcile.Off || f.Mode != p.Modes[f.ID]:
			t.Fatalf("%s is found in mode %s", f.ID, f.Mode)
		case n.Status != broker.Quarantined && !slices.Contains(f.Nodes, n.Status):
			t.Fatalf("%s is found of a node that is %s", f.ID, n.Status)
		}
	})
}
