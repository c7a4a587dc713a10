package adminapi_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/server/servertest"
	"github.com/hostler/hostler/taskcatalog"
)

// told is a node's report about a program that came out of a build.
var told = &taskcatalog.AgentBuild{Commit: "abc", SHA256: strings.Repeat("1", 64)}

func (r *rack) agent(node string) api.AgentLifecycle {
	r.t.Helper()
	return servertest.Must[api.AgentLifecycle](r.t, r.Broker, http.MethodGet, "/nodes/"+node+"/agent-lifecycle", nil)
}

func TestWhatAnAgentIsAndWhatIsWantedOfIt(t *testing.T) {
	r := newRack(t, `{}`)
	g1 := r.NewNode(t, api.NodeCreate{Hostname: "g1", Site: "dc1"}).Settle(t)
	r.NewNode(t, api.NodeCreate{Hostname: "g2", Site: "dc1"}).Settle(t)
	servertest.Must[api.NodeBootstrap](t, r.Broker, http.MethodPost, "/nodes", api.NodeCreate{Hostname: "never", Site: "dc1"})

	if a := r.agent("g1"); a.DriftState != "unknown" || a.Badge != "Unknown build" || a.ReportedAgentVersion != "test" || a.AgentChannel != "stable" || a.DesiredDeliveryMode != "rebootstrap" || len(a.DriftReasons) == 0 || a.LatestRun != nil {
		t.Errorf("of a build that nobody knows: %+v", a)
	}
	g1.Renew(t, "1.4.0", told)
	if a := r.agent("g1"); a.DriftState != "in_sync" || a.ReportedCommit != "abc" || a.ReportedDigest != told.SHA256 || a.ReportedAt.IsZero() {
		t.Errorf("of a build that is known: %+v", a)
	}
	all := servertest.Must[api.AgentLifecycleList](t, r.Broker, http.MethodGet, "/agent-lifecycle", nil)
	if want := (api.AgentCounts{Current: 1, Drift: 1, Unknown: 1}); all.Counts != want || len(all.Items) != 2 {
		t.Errorf("of a fleet: %+v", all)
	}
	drift := servertest.Must[api.AgentLifecycleList](t, r.Broker, http.MethodGet, "/agent-lifecycle?drift=true&limit=1", nil)
	if len(drift.Items) != 1 || drift.Items[0].Hostname != "g2" || drift.Next != "" || drift.Counts != all.Counts {
		t.Errorf("of what drifts: %+v", drift)
	}
	if s := servertest.Must[api.Status](t, r.Broker, http.MethodGet, "/status", nil); s.Agents != all.Counts {
		t.Errorf("at a glance: %+v", s.Agents)
	}

	pinned := servertest.Must[api.AgentLifecycle](t, r.Broker, http.MethodPut, "/nodes/g1/agent-lifecycle", api.AgentWant{AgentChannel: "pinned", PinnedVersion: "1.3.0", DesiredDeliveryMode: "manual_install"})
	if pinned.DriftState != "version_drift" || pinned.DesiredAgentVersion != "1.3.0" || pinned.DesiredDeliveryMode != "manual_install" || pinned.Badge != "Outdated" {
		t.Errorf("pinned to another version: %+v", pinned)
	}
	for name, w := range map[string]api.AgentWant{
		"pinned to nothing":              {AgentChannel: "pinned", PinnedVersion: "newest"},
		"a version of no pin":            {AgentChannel: "stable", PinnedVersion: "1.3.0"},
		"a version where nothing is one": {AgentChannel: "candidate", PinnedVersion: "1.3.0"},
	} {
		if a := r.Ask(t, r.Token, http.MethodPut, "/nodes/g2/agent-lifecycle", w); a.Code() != "agent_lifecycle_invalid" {
			t.Errorf("%s: %d %s", name, a.Status, a.Body)
		}
	}
	if a := r.agent("g2"); a.AgentChannel != "stable" {
		t.Errorf("a refusal has changed something: %+v", a)
	}
	if back := servertest.Must[api.AgentLifecycle](t, r.Broker, http.MethodPut, "/nodes/g1/agent-lifecycle", api.AgentWant{AgentChannel: "stable"}); back.DriftState != "in_sync" || back.DesiredDeliveryMode != "manual_install" {
		t.Errorf("back on its channel: %+v", back)
	}
}

func TestAConfigurationIsRepairedAndTheNodeLookedAt(t *testing.T) {
	r := newRack(t, `{}`)
	g1 := r.NewNode(t, api.NodeCreate{Hostname: "g1", Site: "dc1"}).Settle(t)
	start := api.AgentLifecycleStart{Scenario: "config_repair"}
	first := r.AskOnce(t, "k1", r.Token, http.MethodPost, "/nodes/g1/agent-lifecycle", start)
	again := r.AskOnce(t, "k1", r.Token, http.MethodPost, "/nodes/g1/agent-lifecycle", start)
	if first.Status != http.StatusOK || again.Status != http.StatusOK {
		t.Fatalf("%d %s, then %d %s", first.Status, first.Body, again.Status, again.Body)
	}
	runs := servertest.Must[api.AgentLifecycleRuns](t, r.Broker, http.MethodGet, "/agent-lifecycle/runs?node_id=g1", nil)
	if len(runs.Items) != 1 {
		t.Fatalf("one key has begun %d runs", len(runs.Items))
	}
	run := runs.Items[0]
	if run.List != "config" || run.SafetyPolicy != "idle" || run.Mode != "rebootstrap" || !strings.Contains(string(first.Body), run.RunID) || !strings.Contains(string(again.Body), run.RunID) {
		t.Errorf("the run is %+v", run)
	}
	if a := r.Ask(t, r.Token, http.MethodPost, "/nodes/g1/agent-lifecycle", start); a.Code() != "node_in_run" {
		t.Errorf("a second run at a time: %d %s", a.Status, a.Body)
	}
	d, task := g1.Next(t)
	if task.Type != "node.heartbeat_check" {
		t.Fatalf("it is asked for %s", task.Type)
	}
	g1.Finish(t, d, task, taskcatalog.OutcomeSucceeded, taskcatalog.HeartbeatCheckResult{AgentVersion: "test", BootID: "b", Now: r.Now().UTC()}, taskcatalog.Report{})
	show := func() api.AgentLifecycleDetail {
		return servertest.Must[api.AgentLifecycleDetail](t, r.Broker, http.MethodGet, "/agent-lifecycle/runs/"+run.RunID, nil)
	}
	servertest.Eventually(t, "the wait for a renewal", func() bool {
		r.Advance(15 * time.Millisecond)
		return strings.Contains(show().Waiting, "asked to renew")
	})
	if a := r.agent("g1"); a.LastDeliveryResult != "running" || a.LastDeliveryCorrelationID != run.RunID || a.LatestRun == nil || a.LatestRun.RunID != run.RunID {
		t.Errorf("meanwhile %+v", a)
	}
	g1.Renew(t, "1.4.0", told)
	servertest.Eventually(t, "the end", func() bool { r.Advance(15 * time.Millisecond); return show().Ended })
	end := show()
	if end.Status != "completed" || len(end.Stages) != 6 || end.Stages[1].Status != "skipped" || len(end.Events) == 0 {
		t.Errorf("it ended as %+v", end)
	}
	if a := r.agent("g1"); a.LastDeliveryResult != "confirmed" || a.LastDeliveryAttemptAt.IsZero() {
		t.Errorf("afterwards %+v", a)
	}
}

func TestWorkOnAnAgentIsRefusedWhileATenantIsThere(t *testing.T) {
	r := fleet(t, "dc1/g1")
	r.letIn("g1", "a-42", "acme")
	a := r.Ask(t, r.Token, http.MethodPost, "/nodes/g1/agent-lifecycle", api.AgentLifecycleStart{Scenario: "certificate_repair"})
	if a.Status != http.StatusConflict || a.Code() != "allocation_live" || !strings.Contains(string(a.Body), "a-42 of tenant acme") {
		t.Errorf("%d %s", a.Status, a.Body)
	}
	rows := servertest.Must[api.AuditList](t, r.Broker, http.MethodGet, "/audit?action=run.start&node=g1", nil)
	if len(rows.Items) != 1 || rows.Items[0].Code != "allocation_live" {
		t.Errorf("the audit log has %+v", rows.Items)
	}
	operator := r.NewToken(t, api.TokenCreate{Name: "op", Role: "operator"})
	for name, s := range map[string]api.AgentLifecycleStart{
		"forced":     {Scenario: "certificate_repair", SafetyPolicy: "forced", Reason: "now"},
		"a rollback": {Scenario: "in_place_upgrade", AllowRollback: true, Reason: "now"},
		"by force":   {Scenario: "in_place_upgrade", Force: true, Reason: "now"},
	} {
		if a := r.Ask(t, operator, http.MethodPost, "/nodes/g1/agent-lifecycle", s); a.Status != http.StatusForbidden || a.Code() != "role_insufficient" {
			t.Errorf("an operator, %s: %d %s", name, a.Status, a.Body)
		}
	}
	for name, row := range map[string]struct {
		s    api.AgentLifecycleStart
		code string
	}{
		"forced for no reason": {api.AgentLifecycleStart{Scenario: "certificate_repair", SafetyPolicy: "forced"}, "reason_missing"},
		"no release":           {api.AgentLifecycleStart{Scenario: "in_place_upgrade", SafetyPolicy: "after_drain"}, "release_missing"},
		"an unknown release":   {api.AgentLifecycleStart{Scenario: "in_place_upgrade", TargetVersion: "9.9.9"}, "agent_release_unknown"},
		"no such scenario":     {api.AgentLifecycleStart{Scenario: "run_shell"}, "invalid_request"},
		"MAAS has none of it":  {api.AgentLifecycleStart{Mode: "reimage", Scenario: "certificate_repair", SafetyPolicy: "after_drain", Reason: "r"}, "turnover_invalid"},
	} {
		if a := r.Ask(t, r.Token, http.MethodPost, "/nodes/g1/agent-lifecycle", row.s); a.Code() != row.code {
			t.Errorf("%s: %d %s", name, a.Status, a.Body)
		}
	}
	if all := servertest.Must[api.AgentLifecycleRuns](t, r.Broker, http.MethodGet, "/agent-lifecycle/runs", nil); len(all.Items) != 0 {
		t.Fatalf("after refusals there are %d runs", len(all.Items))
	}
	// Waiting is a run's state, and a cancel ends it.
	run := servertest.Must[api.AgentLifecycleRun](t, r.Broker, http.MethodPost, "/nodes/g1/agent-lifecycle", api.AgentLifecycleStart{Scenario: "certificate_repair", SafetyPolicy: "after_drain"})
	show := func() api.AgentLifecycleDetail {
		return servertest.Must[api.AgentLifecycleDetail](t, r.Broker, http.MethodGet, "/agent-lifecycle/runs/"+run.RunID, nil)
	}
	servertest.Eventually(t, "the wait for the tenant", func() bool {
		r.Advance(15 * time.Millisecond)
		return strings.Contains(show().Waiting, "a-42 of tenant acme")
	})
	servertest.Must[api.AgentLifecycleRun](t, r.Broker, http.MethodPost, "/agent-lifecycle/runs/"+run.RunID+"/cancel", api.RunOrder{Reason: "not today"})
	servertest.Eventually(t, "the cancel", func() bool { r.Advance(15 * time.Millisecond); return show().Status == "cancelled" })
	if a := r.Ask(t, r.Token, http.MethodGet, "/decommissions/"+run.RunID, nil); a.Status != http.StatusNotFound {
		t.Errorf("it is shown as a turnover: %d", a.Status)
	}
}
