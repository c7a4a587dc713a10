package adminapi_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/rollout"
	"github.com/hostler/hostler/broker/server/servertest"
	"github.com/hostler/hostler/taskcatalog"
	"github.com/hostler/hostler/taskcatalog/release/releasetest"
)

// releases publishes versions of the agent.
func (r *rack) releases(versions ...string) {
	r.t.Helper()
	key, public := releaseKey(r.t)
	servertest.Must[api.Trust](r.t, r.Broker, http.MethodPost, "/trust/release-keys", api.ReleaseKeyPut{PublicKey: public, Reason: "our CI"})
	for _, v := range versions {
		signed := releasetest.Make(r.t, []byte("agent "+v), releasetest.Statement(v), key)
		putLayer(r.t, r.Broker, signed.Layer)
		servertest.Must[api.AgentRelease](r.t, r.Broker, http.MethodPost, "/agent-releases", publishing(signed))
	}
}

func (r *rack) rollout(id string) api.RolloutDetail {
	r.t.Helper()
	return servertest.Must[api.RolloutDetail](r.t, r.Broker, http.MethodGet, "/rollouts/"+id, nil)
}

func (r *rack) becomes(id, status string) api.RolloutDetail {
	r.t.Helper()
	var d api.RolloutDetail
	servertest.Eventually(r.t, "the rollout is "+status, func() bool {
		r.Advance(20 * time.Millisecond)
		d = r.rollout(id)
		return d.Status == status
	})
	return d
}

func TestARolloutThatStopsGoesOnAndIsAborted(t *testing.T) {
	r := newRack(t, `{}`)
	r.releases("1.2.3")
	g1 := r.NewNode(t, api.NodeCreate{Hostname: "g1", Site: "dc1"}).Settle(t)
	g2 := r.NewNode(t, api.NodeCreate{Hostname: "g2", Site: "dc1"}).Settle(t)
	start := api.RolloutStart{Release: "1.2.3", Selector: "site=dc1", Reason: "newer", Waves: []int{100}}
	first := r.AskOnce(t, "k1", r.Token, http.MethodPost, "/rollouts", start)
	again := r.AskOnce(t, "k1", r.Token, http.MethodPost, "/rollouts", start)
	if first.Status != http.StatusOK || again.Status != http.StatusOK {
		t.Fatalf("%d %s, then %d %s", first.Status, first.Body, again.Status, again.Body)
	}
	list := servertest.Must[api.RolloutList](t, r.Broker, http.MethodGet, "/rollouts?site=dc1", nil)
	if len(list.Items) != 1 {
		t.Fatalf("one key has begun %d rollouts", len(list.Items))
	}
	id := list.Items[0].RolloutID
	if o := list.Items[0]; o.Canary != 1 || o.Concurrency != 10 || o.SoakSeconds != 600 || o.MaxFailures != 1 || o.OnFailure != "pause" || o.SafetyPolicy != "idle" || o.Members != 2 || o.Site != "dc1" || len(o.Waves) != 2 {
		t.Errorf("it is %+v", o)
	}
	if a := r.Ask(t, r.Token, http.MethodPost, "/rollouts", start); a.Code() != "rollout_empty" || !strings.Contains(string(a.Body), id) {
		t.Errorf("another over the same nodes: %d %s", a.Status, a.Body)
	}
	d, task := g1.Next(t)
	if task.Type != "node.self_update" {
		t.Fatalf("it is asked for %s", task.Type)
	}
	if m := r.rollout(id).Nodes[0]; m.Hostname != "g1" || m.Wave != "canary" || m.Result != "running" || m.Stage != "update_agent" || m.RunID == "" {
		t.Errorf("the canary is %+v", m)
	}
	rolledBack := taskcatalog.SelfUpdateResult{
		Phase: taskcatalog.PhaseUpdate, FromVersion: "test", ToVersion: "1.2.3", Outcome: taskcatalog.UpdateRolledBack, Reason: "no_contact", Slots: []taskcatalog.UpdateSlot{},
	}
	g1.Finish(t, d, task, taskcatalog.OutcomeFailed, rolledBack, taskcatalog.Report{})
	at := r.becomes(id, "failed_manual_intervention")
	if at.ErrorCode != "rollout_paused" || at.Counts["rolled_back"] != 1 || at.Counts["waiting"] != 1 || at.Failures != 1 || at.Nodes[0].Code != "rolled_back" || !at.Nodes[0].Counts || !strings.Contains(at.RecommendedNextAction, "hostler rollout resume "+id) || len(at.Events) == 0 {
		t.Errorf("it stopped as %+v", at)
	}
	if brief := servertest.Must[api.RolloutDetail](t, r.Broker, http.MethodGet, "/rollouts/"+id+"?brief=true", nil); len(brief.Nodes) != 0 || brief.Counts["rolled_back"] != 1 {
		t.Errorf("in brief %+v", brief)
	}

	act := func(action string, o api.RolloutOrder) api.Rollout {
		t.Helper()
		return servertest.Must[api.Rollout](t, r.Broker, http.MethodPost, "/rollouts/"+id+"/"+action, o)
	}
	act("resume", api.RolloutOrder{})
	if now := r.rollout(id); now.Failures != 0 && now.Status == "running" && now.Counts["running"] > 0 {
		t.Errorf("what failed counts still: %+v", now)
	}
	for _, action := range []string{"pause", "abort"} {
		if a := r.Ask(t, r.Token, http.MethodPost, "/rollouts/"+id+"/"+action, api.RolloutOrder{}); a.Code() != "reason_missing" {
			t.Errorf("%s without a reason: %d %s", action, a.Status, a.Body)
		}
	}
	servertest.Eventually(t, "the other node is worked on", func() bool {
		at := r.rollout(id)
		return at.Nodes[1].Stage == "update_agent"
	})
	d, task = g2.Next(t)
	if p := act("pause", api.RolloutOrder{Reason: "lunch"}); p.Status != "running" {
		t.Errorf("with a node under way it is %s", p.Status)
	}
	if a := r.Ask(t, r.Token, http.MethodPost, "/rollouts/"+id+"/resume", api.RolloutOrder{}); a.Code() != "rollout_stopping" {
		t.Errorf("resumed before it has stopped: %d %s", a.Status, a.Body)
	}
	g2.Finish(t, d, task, taskcatalog.OutcomeFailed, rolledBack, taskcatalog.Report{})
	if p := r.becomes(id, "failed_manual_intervention"); p.ErrorCode != "marked_by_operator" || !strings.Contains(p.RecommendedNextAction, "rollout resume") || !strings.Contains(p.ErrorMessage, "lunch") || p.Counts["rolled_back"] != 2 {
		t.Errorf("paused it is %+v", p)
	}
	act("pause", api.RolloutOrder{Reason: "lunch"})
	operator := r.NewToken(t, api.TokenCreate{Name: "op", Role: "operator"})
	if a := r.Ask(t, operator, http.MethodPost, "/rollouts/"+id+"/resume", api.RolloutOrder{RetryFailed: true}); a.Status != http.StatusForbidden {
		t.Errorf("an operator tries again what failed: %d %s", a.Status, a.Body)
	}
	act("abort", api.RolloutOrder{Reason: "no more"})
	rows := servertest.Must[api.AuditList](t, r.Broker, http.MethodGet, "/audit?action=run.cancel&limit=100", nil)
	found := false
	for _, e := range rows.Items {
		found = found || e.Subject == "run/"+id && e.Reason == "no more" && e.Actor == "admin"
	}
	if !found {
		t.Errorf("the audit log has %+v", rows.Items)
	}
	seen := documented(t, r.Broker)
	for _, typ := range []string{"agent.rollout.started", "agent.rollout.manual_intervention_required", "agent.upgrade.started", "agent.upgrade.failed", "agent.rollback.completed"} {
		if seen[typ] == 0 {
			t.Errorf("nobody was told %s, but %v", typ, seen)
		}
	}
}

func TestWhoMayRollOutWhat(t *testing.T) {
	r := newRack(t, `{}`)
	r.releases("1.2.3")
	r.NewNode(t, api.NodeCreate{Hostname: "node-1", Site: "dc1"}).Settle(t)
	r.NewNode(t, api.NodeCreate{Hostname: "node-2", Site: "dc2"}).Settle(t)
	operator := r.NewToken(t, api.TokenCreate{Name: "op", Role: "operator"})
	ofDC1 := r.NewToken(t, api.TokenCreate{Name: "dc1", Role: "operator", Sites: []string{"dc1"}})
	both := r.NewToken(t, api.TokenCreate{Name: "both", Role: "operator", Sites: []string{"dc1", "dc2"}})
	for name, row := range map[string]struct {
		token string
		s     api.RolloutStart
		code  string
	}{
		"forced by an operator":        {operator, api.RolloutStart{Release: "1.2.3", Selector: "all", SafetyPolicy: "forced", Reason: "now"}, "role_insufficient"},
		"a rollback by one":            {operator, api.RolloutStart{Release: "1.2.3", Selector: "all", AllowRollback: true, Reason: "now"}, "role_insufficient"},
		"by force":                     {operator, api.RolloutStart{Release: "1.2.3", Selector: "all", Force: true, Reason: "now"}, "role_insufficient"},
		"forced for no reason":         {r.Token, api.RolloutStart{Release: "1.2.3", Selector: "all", SafetyPolicy: "forced"}, "reason_missing"},
		"an unknown release":           {r.Token, api.RolloutStart{Release: "9.9.9", Selector: "all"}, "agent_release_unknown"},
		"no selector":                  {r.Token, api.RolloutStart{Release: "1.2.3", Selector: "a,,b"}, "selector_invalid"},
		"nobody":                       {r.Token, api.RolloutStart{Release: "1.2.3", Selector: "rack=none"}, "rollout_empty"},
		"waves that do not rise":       {r.Token, api.RolloutStart{Release: "1.2.3", Selector: "all", Waves: []int{100, 50}}, "rollout_invalid"},
		"two sites by a token of both": {both, api.RolloutStart{Release: "1.2.3", Selector: "all"}, "rollout_sites"},
		"a node that is not seen":      {ofDC1, api.RolloutStart{Release: "1.2.3", Selector: "node-2"}, "node_not_found"},
	} {
		if a := r.Ask(t, row.token, http.MethodPost, "/rollouts", row.s); a.Code() != row.code {
			t.Errorf("%s: %d %s", name, a.Status, a.Body)
		}
	}
	whole := servertest.Must[api.Rollout](t, r.Broker, http.MethodPost, "/rollouts", api.RolloutStart{Release: "1.2.3", Selector: "node-2"})
	own := r.Ask(t, ofDC1, http.MethodPost, "/rollouts", api.RolloutStart{Release: "1.2.3", Selector: "all"})
	if own.Status != http.StatusOK || strings.Contains(string(own.Body), "node-2") {
		t.Errorf("all that it sees: %d %s", own.Status, own.Body)
	}
	for _, path := range []string{"/rollouts/" + whole.RolloutID, "/rollouts/" + whole.RolloutID + "/pause"} {
		method := http.MethodGet
		if strings.HasSuffix(path, "pause") {
			method = http.MethodPost
		}
		if a := r.Ask(t, ofDC1, method, path, api.RolloutOrder{}); a.Status != http.StatusNotFound {
			t.Errorf("%s %s: %d %s", method, path, a.Status, a.Body)
		}
	}
	page := servertest.Must[api.RolloutList](t, r.Broker, http.MethodGet, "/rollouts?limit=1", nil)
	if len(page.Items) != 1 || page.Next == "" {
		t.Errorf("a page is %+v", page)
	}
	if rest := servertest.Must[api.RolloutList](t, r.Broker, http.MethodGet, "/rollouts?limit=1&cursor="+page.Next, nil); len(rest.Items) != 1 || rest.Items[0].RolloutID == page.Items[0].RolloutID {
		t.Errorf("the next is %+v", rest)
	}
	for name, a := range map[string]string{"of the node's runs": "/agent-lifecycle/runs/" + whole.RolloutID, "of turnovers": "/decommissions/" + whole.RolloutID} {
		if got := r.Ask(t, r.Token, http.MethodGet, a, nil); got.Status != http.StatusNotFound {
			t.Errorf("it is shown as one %s: %d", name, got.Status)
		}
	}
	if d := servertest.Must[api.RunDetail](t, r.Broker, http.MethodGet, "/runs/"+whole.RolloutID, nil); d.Kind != rollout.Kind || d.Subject != whole.Release || len(d.Stages) == 0 {
		t.Errorf("among all runs it is shown as %+v", d)
	}
	if got := r.Ask(t, r.Token, http.MethodPost, "/runs/"+whole.RolloutID+"/cancel", api.RunOrder{Reason: "not as other runs"}); got.Code() != "run_actions_own" {
		t.Errorf("an action that rollouts have otherwise: %d %s", got.Status, got.Body)
	}
}

// An abort continues to its end: it cannot be paused, and nothing leads forward from it.
func TestARolloutThatIsAborted(t *testing.T) {
	r := newRack(t, `{}`)
	r.releases("1.2.3")
	g1 := r.NewNode(t, api.NodeCreate{Hostname: "g1", Site: "dc1"}).Settle(t)
	id := servertest.Must[api.Rollout](t, r.Broker, http.MethodPost, "/rollouts", api.RolloutStart{Release: "1.2.3", Selector: "g1"}).RolloutID
	d, task := g1.Next(t)
	reason := api.RolloutOrder{Reason: "no more"}
	servertest.Must[api.Rollout](t, r.Broker, http.MethodPost, "/rollouts/"+id+"/abort", reason)
	for _, action := range []string{"pause", "resume"} {
		if a := r.Ask(t, r.Token, http.MethodPost, "/rollouts/"+id+"/"+action, reason); a.Code() != "rollout_aborting" || !strings.Contains(string(a.Body), "hostler rollout watch "+id) {
			t.Errorf("%s: %d %s", action, a.Status, a.Body)
		}
	}
	servertest.Must[api.Rollout](t, r.Broker, http.MethodPost, "/rollouts/"+id+"/abort", reason)
	g1.Finish(t, d, task, taskcatalog.OutcomeFailed, taskcatalog.SelfUpdateResult{
		Phase: taskcatalog.PhaseUpdate, FromVersion: "test", ToVersion: "1.2.3", Outcome: taskcatalog.UpdateRolledBack, Reason: "no_contact", Slots: []taskcatalog.UpdateSlot{},
	}, taskcatalog.Report{})
	if at := r.becomes(id, "cancelled"); at.Counts["rolled_back"] != 1 {
		t.Errorf("it ended as %+v", at)
	}
}

// Callers see the left-out nodes of their own sites only.
func TestWhoWasLeftOutIsToldToWhoSeesThem(t *testing.T) {
	r := newRack(t, `{}`)
	r.releases("1.2.3")
	r.NewNode(t, api.NodeCreate{Hostname: "g1", Site: "dc1"}).Settle(t)
	for site, name := range map[string]string{"dc1": "far1", "dc2": "far2"} { // they never come
		r.OnRecord(t, site)
		servertest.Must[api.NodeBootstrap](t, r.Broker, http.MethodPost, "/nodes", api.NodeCreate{Hostname: name, Site: site})
	}
	id := servertest.Must[api.Rollout](t, r.Broker, http.MethodPost, "/rollouts", api.RolloutStart{Release: "1.2.3", Selector: "all"}).RolloutID
	ofDC1 := r.NewToken(t, api.TokenCreate{Name: "dc1", Role: "viewer", Sites: []string{"dc1"}})
	for token, want := range map[string][]string{r.Token: {"far1", "far2"}, ofDC1: {"far1"}} {
		for _, path := range []string{"/rollouts", "/rollouts/" + id} {
			a := r.Ask(t, token, http.MethodGet, path, nil)
			for _, name := range []string{"far1", "far2"} {
				if told := strings.Contains(string(a.Body), `"`+name+`"`); told != slices.Contains(want, name) {
					t.Errorf("%s with %s is told %v: %d %s", path, name, told, a.Status, a.Body)
				}
			}
		}
	}
	if all := r.rollout(id); len(all.LeftOut) != 1 || all.LeftOut[0].Count != 2 || len(all.LeftOut[0].Nodes) != 2 {
		t.Errorf("left out %+v", all.LeftOut)
	}
}
