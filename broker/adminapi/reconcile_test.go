package adminapi_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/server"
	"github.com/hostler/hostler/broker/server/servertest"
	"github.com/hostler/hostler/test/maassim"
)

// reconciled is a broker with a site whose MAAS has the machines of the given number of active
// nodes.
func reconciled(t *testing.T, many int, on ...func(*server.Config)) (b *servertest.Broker, region *maassim.Region, nodes []*servertest.Node, systemIDs []string) {
	t.Helper()
	b = servertest.Start(t, on...)
	region, _ = siteAt(t, b)
	servertest.Must[api.SiteCredentialsSet](t, b, http.MethodPost, "/maas-sites/dc1/credentials", api.SiteCredentials{MAASToken: region.APIKey(), Reason: "first"})
	for i := range many {
		id := region.Arrange(maassim.Arranged{Hostname: "m", Hardware: maassim.Box(i + 1), Status: maassim.Deployed, Owner: "admin", Series: "ubuntu/noble", PowerOn: true})
		name := string(rune('a'+i)) + "1"
		boot := servertest.Must[api.NodeBootstrap](t, b, http.MethodPost, "/nodes", api.NodeCreate{Hostname: name, Site: "dc1", MAASSystemID: id})
		n := b.EnrollMachine(t, boot.Token, name, id).Settle(t)
		nodes, systemIDs = append(nodes, n), append(systemIDs, id)
	}
	return b, region, nodes, systemIDs
}

// look makes the broker look at the site twice, so that the second look confirms the first.
func look(t *testing.T, b *servertest.Broker) (r api.ReconciliationRun) {
	t.Helper()
	for range 2 {
		b.Advance(31 * time.Second)
		if r = servertest.Must[api.ReconciliationRun](t, b, http.MethodPost, "/reconciliation/run?site=dc1", nil); !r.Looked {
			t.Fatalf("the look did not end: %+v", r)
		}
	}
	return r
}

func TestDriftIsFoundListedAndResolved(t *testing.T) {
	b, region, nodes, ids := reconciled(t, 2)
	if r := look(t, b); r.Nodes != 2 || r.OK != 2 || r.Machines != 2 || r.Unmanaged != 0 || r.CompleteAt.IsZero() {
		t.Errorf("%+v", r)
	}
	if n := servertest.Must[api.Node](t, b, http.MethodGet, "/nodes/a1", nil); n.Host == "" {
		t.Error("the node has no address")
	}
	if err := region.ByHand(maassim.ReadyByHand, ids[0]); err != nil {
		t.Fatal(err)
	}
	b.Advance(2 * time.Second) // a list is valid for a second
	plan := servertest.Must[api.ReconciliationRun](t, b, http.MethodPost, "/reconciliation/run?site=dc1&plan=true", nil).Plan
	if len(plan) != 1 || plan[0].NodeID != nodes[0].NodeID || plan[0].Rule != "released" || plan[0].Acts || plan[0].Mode != "observe" {
		t.Errorf("planned: %+v", plan)
	}
	if r := look(t, b); r.OK != 1 || r.Drifted != 1 {
		t.Errorf("%+v", r)
	}
	list := servertest.Must[api.DriftList](t, b, http.MethodGet, "/reconciliation/drift", nil)
	if len(list.Items) != 1 {
		t.Fatalf("%+v", list)
	}
	d := list.Items[0]
	if d.NodeID != nodes[0].NodeID || d.Hostname != "a1" || d.Rule != "released" || d.Severity != "critical" || d.Mode != "observe" || d.Action != "quarantine" || !d.Open ||
		d.LastMAASStatus != "Ready" || d.Details.MAASStatus != "Ready" || d.Details.Expected != "Deployed" || d.NodeStatus != "active" || d.FirstSeen.IsZero() {
		t.Errorf("%+v", d)
	}
	status := servertest.Must[api.Status](t, b, http.MethodGet, "/status", nil)
	if len(status.Drift) != 1 || status.Drift[0].Rule != "released" {
		t.Errorf("the status says %+v", status.Drift)
	}
	for query, want := range map[string]int{"?rule=absent": 0, "?rule=released&site=dc1": 1, "?severity=low": 0, "?resolved=true": 0} {
		if got := servertest.Must[api.DriftList](t, b, http.MethodGet, "/reconciliation/drift"+query, nil); len(got.Items) != want {
			t.Errorf("%s: %d, want %d", query, len(got.Items), want)
		}
	}
	path := "/reconciliation/drift/a1/resolve"
	for body, code := range map[string]string{`{}`: "reason_missing", `{"reason":" "}`: "reason_missing"} {
		if a := b.Ask(t, b.Token, http.MethodPost, path, body); a.Code() != code {
			t.Errorf("%s: %d %s", body, a.Status, a.Body)
		}
	}
	got := servertest.Must[api.Drift](t, b, http.MethodPost, path, api.ReasonBody{Reason: "mine"})
	if got.Open || got.ResolvedBy != "admin" || got.Resolution != "mine" || got.ResolvedAt.IsZero() {
		t.Errorf("%+v", got)
	}
	if a := b.Ask(t, b.Token, http.MethodPost, path, api.ReasonBody{Reason: "again"}); a.Status != http.StatusNotFound || a.Code() != "drift_not_found" {
		t.Errorf("%d %s", a.Status, a.Body)
	}
	if got := servertest.Must[api.DriftList](t, b, http.MethodGet, "/reconciliation/drift?resolved=true", nil); len(got.Items) != 1 {
		t.Errorf("%+v", got)
	}
	line := servertest.Must[api.Timeline](t, b, http.MethodGet, "/nodes/a1/timeline", nil)
	if !slices.ContainsFunc(line.Items, func(e api.TimelineEvent) bool { return e.What == "node.drift.detected" && e.Code == "released" }) {
		t.Errorf("the timeline has no drift: %+v", line.Items)
	}

	// Once the site's policy says act, the node is quarantined.
	servertest.Must[api.SiteReconcilePolicy](t, b, http.MethodPut, "/maas-sites/dc1/reconciliation", `{"modes":{"released":"act"},"reason":"tried for a week"}`)
	look(t, b)
	if n := servertest.Must[api.Node](t, b, http.MethodGet, "/nodes/a1", nil); n.Status != "quarantined" || !strings.HasPrefix(n.StatusReason, "released: ") {
		t.Errorf("the node is %s: %s", n.Status, n.StatusReason)
	}
}

func TestASitesWordOnDriftIsKeptRuleByRule(t *testing.T) {
	b := servertest.Start(t)
	siteAt(t, b)
	path := "/maas-sites/dc1/reconciliation"
	p := servertest.Must[api.SiteReconcilePolicy](t, b, http.MethodGet, path, nil)
	mode := func(rule string) string {
		for _, r := range p.Rules {
			if r.Rule == rule {
				return r.Mode
			}
		}
		return ""
	}
	if mode("released") != "observe" || mode("retired_deployed") != "off" || p.MaxSharePercent != 10 || p.AtLeast != 5 {
		t.Errorf("a new site: %+v", p)
	}
	for _, body := range []string{
		`{"modes":{"released":"maybe"},"reason":"r"}`, `{"modes":{"relesed":"act"},"reason":"r"}`, `{"modes":{"unmanaged":"act"},"reason":"r"}`,
		`{"max_share_percent":0,"reason":"r"}`, `{"max_share_percent":101,"reason":"r"}`, `{"modes":{"released":"act"}}`, `{"modes":{"released":"act"},"reason":" "}`, `{"mode":"act","reason":"r"}`,
	} {
		if a := b.Ask(t, b.Token, http.MethodPut, path, body); a.Status != http.StatusUnprocessableEntity {
			t.Errorf("%s: %d %s", body, a.Status, a.Body)
		}
	}
	servertest.Must[api.SiteReconcilePolicy](t, b, http.MethodPut, path, `{"modes":{"released":"act","absent":"off"},"reason":"r"}`)
	p = servertest.Must[api.SiteReconcilePolicy](t, b, http.MethodPut, path, `{"modes":{"absent":"act"},"max_share_percent":20,"retired_grace_seconds":7200,"reason":"r2"}`)
	if mode("released") != "act" || mode("absent") != "act" || mode("redeployed") != "observe" || p.MaxSharePercent != 20 || p.AtLeast != 5 || p.RetiredGraceSeconds != 7200 {
		t.Errorf("%+v", p)
	}
	rows := servertest.Must[api.AuditList](t, b, http.MethodGet, "/audit?action=policy.reconcile", nil)
	if len(rows.Items) != 2 || rows.Items[0].Reason != "r2" {
		t.Errorf("%+v", rows.Items)
	}
}

func TestASiteThatCannotBeReconciledSaysWhy(t *testing.T) {
	b := servertest.Start(t)
	region, _ := siteAt(t, b)
	ask := func(path string) servertest.Answer { return b.Ask(t, b.Token, http.MethodPost, path, nil) }
	if a := ask("/reconciliation/run?site=dc1"); a.Code() != "site_credentials_missing" {
		t.Errorf("%d %s", a.Status, a.Body)
	}
	if a := ask("/reconciliation/run?site=dc9"); a.Code() != "site_not_found" {
		t.Errorf("%d %s", a.Status, a.Body)
	}
	if a := ask("/reconciliation/run"); a.Status != http.StatusUnprocessableEntity {
		t.Errorf("%d %s", a.Status, a.Body)
	}
	servertest.Must[api.SiteCredentialsSet](t, b, http.MethodPost, "/maas-sites/dc1/credentials", api.SiteCredentials{MAASToken: region.APIKey(), Reason: "first"})
	region.Inject(maassim.Fault{Kind: maassim.Internal, Op: "list", Times: -1})
	look(t, b)
	r := look(t, b)
	if r.Trouble == "" || !r.CompleteAt.IsZero() || len(r.Stops) != 1 || r.Stops[0].Code != "maas_unread" {
		t.Errorf("%+v", r)
	}
	status := servertest.Must[api.Status](t, b, http.MethodGet, "/status", nil)
	if !slices.ContainsFunc(status.Alerts, func(a api.Alert) bool { return a.Code == "maas_unread" }) {
		t.Errorf("the status says %+v", status.Alerts)
	}
	if a := ask("/reconciliation/run?site=dc1&plan=true"); a.Code() != "maas_unread" {
		t.Errorf("%d %s", a.Status, a.Body)
	}
	servertest.Must[api.Site](t, b, http.MethodPatch, "/maas-sites/dc1", `{"status":"disabled"}`)
	if a := ask("/reconciliation/run?site=dc1"); a.Code() != "site_disabled" {
		t.Errorf("%d %s", a.Status, a.Body)
	}
}

func TestATokenOfAnotherSiteSeesNoDrift(t *testing.T) {
	b, region, _, ids := reconciled(t, 1)
	servertest.Must[api.Site](t, b, http.MethodPost, "/maas-sites", strings.Replace(aSite, "dc1", "dc2", 1))
	if err := region.ByHand(maassim.ReadyByHand, ids[0]); err != nil {
		t.Fatal(err)
	}
	look(t, b)
	bound := b.NewToken(t, api.TokenCreate{Name: "dc2-op", Role: "operator", Sites: []string{"dc2"}})
	for _, row := range []struct{ method, path, code string }{
		{http.MethodGet, "/reconciliation/status?site=dc1", "site_forbidden"},
		{http.MethodGet, "/reconciliation/drift?site=dc1", "site_forbidden"},
		{http.MethodPost, "/reconciliation/run?site=dc1", "site_not_found"},
		{http.MethodGet, "/maas-sites/dc1/reconciliation", "site_not_found"},
		{http.MethodPost, "/reconciliation/drift/a1/resolve", "node_not_found"},
	} {
		if a := b.Ask(t, bound, row.method, row.path, map[string]any{http.MethodPost: api.ReasonBody{Reason: "r"}}[row.method]); a.Code() != row.code {
			t.Errorf("%s %s: %d %s, want %s", row.method, row.path, a.Status, a.Body, row.code)
		}
	}
	for path, secret := range map[string]string{"/reconciliation/status": "dc1", "/reconciliation/drift": "a1", "/status": "released"} {
		if a := b.Ask(t, bound, http.MethodGet, path, nil); a.Status != http.StatusOK || strings.Contains(string(a.Body), secret) {
			t.Errorf("%s: %d %s", path, a.Status, a.Body)
		}
	}
}
