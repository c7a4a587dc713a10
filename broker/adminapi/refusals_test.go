package adminapi_test

import (
	"cmp"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/server/servertest"
)

// audited are the rows of a code, the oldest first.
func audited(t *testing.T, b *servertest.Broker, code string) []api.AuditEntry {
	t.Helper()
	rows := servertest.Must[api.AuditList](t, b, http.MethodGet, "/audit?limit=1000", nil).Items
	rows = slices.DeleteFunc(rows, func(e api.AuditEntry) bool { return e.Code != code })
	slices.SortFunc(rows, func(a, b api.AuditEntry) int { return cmp.Compare(a.ID, b.ID) })
	return rows
}

func TestARefusedStartIsInTheAuditLog(t *testing.T) {
	r := newRack(t, `{}`)
	r.NewNode(t, api.NodeCreate{Hostname: "taken", Site: "dc1"})
	r.start(api.OnboardingMachine{Hostname: "c01", IPMIIP: "10.0.0.1"})
	op := r.NewToken(t, api.TokenCreate{Name: "op", Role: "operator"})
	refused := func(path string, body any, code string) {
		t.Helper()
		if a := r.Ask(t, op, http.MethodPost, path, body); a.Code() != code {
			t.Errorf("POST %s: %d %s, want %s", path, a.Status, a.Body, code)
		}
		rows := audited(t, r.Broker, code)
		if len(rows) == 0 {
			t.Fatalf("%s is not in the audit log", code)
		}
		if e := rows[len(rows)-1]; e.Actor != "op" || e.Action != "run.start" || e.Subject != "site/dc1" || e.CorrelationID == "" || e.Reason == "" || !strings.Contains(string(e.After), "new rack") {
			t.Errorf("%s: %+v", code, e)
		}
	}
	one := func(hostname, bmc string) api.OnboardingStart {
		return api.OnboardingStart{SiteID: "dc1", SKUID: "h100.8gpu", OnboardingMachine: api.OnboardingMachine{Hostname: hostname, IPMIIP: bmc}, Reason: "new rack"}
	}
	refused("/onboardings", one("c02", "10.0.0.1"), "onboarding_running")
	refused("/onboardings", one("taken", "10.0.0.9"), "hostname_taken")
	refused("/onboardings/batch", api.OnboardingBatch{SiteID: "dc1", SKUID: "h100.8gpu", Reason: "new rack", Nodes: []api.OnboardingMachine{{Hostname: "c01", IPMIIP: "10.0.0.8"}}}, "onboarding_running")
	servertest.Must[api.Site](t, r.Broker, http.MethodDelete, "/maas-sites/dc1?reason=closing", nil)
	refused("/onboardings", one("c03", "10.0.0.3"), "site_disabled")
	refused("/adoptions", api.AdoptionStart{SiteID: "dc1", AdoptedMachine: api.AdoptedMachine{SystemID: "abc123"}, Reason: "new rack"}, "site_disabled")
	if rows := audited(t, r.Broker, "onboarding_running"); len(rows) != 2 {
		t.Errorf("%d rows of two refusals", len(rows))
	}
}

// A request without a required reason is audited, and changes nothing.
func TestWhatIsRefusedForWantOfAReasonIsInTheAuditLog(t *testing.T) {
	r := newRack(t, `{}`)
	b := r.Broker
	o := r.start(api.OnboardingMachine{Hostname: "c01", IPMIIP: "10.0.0.1"})
	b.NewNode(t, api.NodeCreate{Hostname: "h1", Site: "dc1"})
	override := servertest.Must[api.PowerOverride](t, b, http.MethodPost, "/maas-sites/dc1/power-overrides", api.PowerOverridePut{SelectorType: "hostname", SelectorValue: "c01", PowerUser: "u", PowerPassword: "p"})
	servertest.Must[api.RoCEResult](t, b, http.MethodPost, "/maas-sites/dc1/roce-assignments", `{"items":[{"hostname":"c01","interface":"eth0","ipv4_cidr":"10.1.0.1/31"}]}`)
	roce := servertest.Must[api.RoCEList](t, b, http.MethodGet, "/maas-sites/dc1/roce-assignments", nil).Items[0]
	for i, row := range []struct {
		method, path string
		body         any
		action       string
	}{
		{http.MethodPost, "/onboardings/" + o.OnboardingID + "/cancel", api.RunOrder{Reason: " "}, "run.cancel"},
		{http.MethodPost, "/onboardings/" + o.OnboardingID + "/restart-clean", api.RunOrder{}, "run.restart_clean"},
		{http.MethodPost, "/freeze", api.FreezePut{Reason: " "}, "site.freeze"},
		{http.MethodPost, "/nodes/h1/actions/remove", api.NodeAction{Force: true}, "node.remove"},
		{http.MethodDelete, "/maas-sites/dc1", nil, "site.update"},
		{http.MethodDelete, "/maas-sites/dc1/power-overrides/" + override.ID, nil, "site.power_override.remove"},
		{http.MethodDelete, "/maas-sites/dc1/roce-assignments/" + roce.ID, nil, "site.roce.remove"},
	} {
		if a := b.Ask(t, b.Token, row.method, row.path, row.body); a.Code() != "reason_missing" {
			t.Errorf("%s %s: %d %s", row.method, row.path, a.Status, a.Body)
		}
		if rows := audited(t, b, "reason_missing"); len(rows) != i+1 || rows[i].Action != row.action || rows[i].Actor != "admin" {
			t.Errorf("after %s %s: %+v", row.method, row.path, rows)
		}
	}
	// Repeated requests do not fill the log.
	had := len(audited(t, b, "reason_missing"))
	ask := func() {
		if a := b.Ask(t, b.Token, http.MethodDelete, "/maas-sites/dc1?reason=%20", nil); a.Code() != "reason_missing" {
			t.Errorf("asked again: %d %s", a.Status, a.Body)
		}
	}
	for range 3 {
		ask()
	}
	if n := len(audited(t, b, "reason_missing")); n != had {
		t.Errorf("equal refusals left %d more rows", n-had)
	}
	b.Advance(time.Minute)
	ask()
	if rows := audited(t, b, "reason_missing"); len(rows) != had+1 || !strings.Contains(rows[had].Reason, "and 3 similar refusals") {
		t.Errorf("a minute later: %+v", rows[had:])
	}
	for path, action := range map[string]string{
		"/maas-sites/dc1/power-overrides/" + override.ID: "site.power_override.remove", "/maas-sites/dc1/roce-assignments/" + roce.ID: "site.roce.remove", "/maas-sites/dc1": "site.update",
	} {
		if a := b.Ask(t, b.Token, http.MethodDelete, path+"?reason=because", nil); a.Status != http.StatusOK {
			t.Errorf("with a reason, %s: %d %s", path, a.Status, a.Body)
		}
		rows := servertest.Must[api.AuditList](t, b, http.MethodGet, "/audit?action="+action, nil).Items
		if e := slices.MaxFunc(rows, func(a, b api.AuditEntry) int { return cmp.Compare(a.ID, b.ID) }); e.Code != "" || e.Reason != "because" {
			t.Errorf("%s: %+v", action, e)
		}
	}
}
