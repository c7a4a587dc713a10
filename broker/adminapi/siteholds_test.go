package adminapi_test

import (
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/chain"
	"github.com/hostler/hostler/broker/server/servertest"
	"github.com/hostler/hostler/test/maassim"
)

// A site that cannot be reached is marked wherever it is listed. So are the numbers without site
// names.
func TestASiteThatCannotBeReachedIsMarked(t *testing.T) {
	r := newRack(t, `{"require_hw_sync":false}`)
	other := strings.NewReplacer("dc1", "dc2", ":5240", ":5241").Replace(aSite)
	servertest.Must[api.Site](t, r.Broker, http.MethodPost, "/maas-sites", other)
	metric := func(line string) bool {
		t.Helper()
		text := string(r.Ask(t, "", http.MethodGet, r.OperatorURL()+"/metrics", nil).Body)
		if strings.Contains(text, "dc1") || strings.Contains(text, "c01") {
			t.Error("the metrics name a site or a machine")
		}
		return regexp.MustCompile(`(?m)^` + line + `$`).MatchString(text)
	}
	for _, line := range []string{"hostler_frozen 0", "hostler_frozen_sites 0", "hostler_unreachable_sites 0", "hostler_maas_keys_refused 0", `hostler_maas_keys_checked_timestamp_seconds [0-9.e+]+`, `hostler_outbox_lag_seconds [0-9.e-]+`, `hostler_outbox_events [0-9]+`} {
		if !metric(line) {
			t.Errorf("at first the metrics lack %s", line)
		}
	}
	r.region.Inject(maassim.Fault{Kind: maassim.Unreachable, Times: -1})
	o := r.start(r.box(1))
	servertest.Eventually(t, "the site to be unreachable", func() bool { return metric("hostler_unreachable_sites 1") })
	if !metric(`hostler_runs\{class="",kind="node\.onboarding",status="running"\} 1`) {
		t.Error("the metrics do not count the run that waits")
	}
	servertest.Must[api.FreezeResult](t, r.Broker, http.MethodPost, "/freeze", api.FreezePut{Site: "dc1", Reason: "leak"})
	list := servertest.Must[api.SiteList](t, r.Broker, http.MethodGet, "/maas-sites", nil)
	if len(list.Items) != 2 || len(list.Items[1].Holds) > 0 || len(list.Frozen) != 1 {
		t.Fatalf("%+v", list)
	}
	one := servertest.Must[api.Site](t, r.Broker, http.MethodGet, "/maas-sites/dc1", nil)
	for _, s := range []api.Site{list.Items[0], one} {
		if len(s.Holds) != 2 || s.Holds[0].Kind != "freeze" || s.Holds[1].Kind != "unreachable" || s.Holds[1].Reason == "" {
			t.Errorf("%+v", s.Holds)
		}
	}
	if !metric("hostler_frozen_sites 1") || metric("hostler_frozen 1") {
		t.Error("the metrics do not count the freeze")
	}
	bound := r.NewToken(t, api.TokenCreate{Name: "dc2", Role: "viewer", Sites: []string{"dc2"}})
	if a := r.Ask(t, bound, http.MethodGet, "/maas-sites", nil); strings.Contains(string(a.Body), "leak") || strings.Contains(string(a.Body), "unreachable") {
		t.Errorf("a token of dc2 reads %s", a.Body)
	}
	// Afterwards no hold stands, and stopped runs are counted by their reason.
	servertest.Must[api.FreezeResult](t, r.Broker, http.MethodPost, "/unfreeze", api.FreezePut{Site: "dc1", Reason: "mended"})
	r.region.Relent()
	r.region.Inject(maassim.Fault{Kind: maassim.NoBootCard})
	r.Advance(chain.SpreadOver)
	servertest.Eventually(t, "the site to be reachable", func() bool { return metric("hostler_unreachable_sites 0") })
	r.Advance(chain.SpreadOver)
	r.until(o.OnboardingID, "its end", func(o api.OnboardingDetail) bool { return o.Status == "failed_manual_intervention" })
	if !metric(`hostler_runs\{class="hardware_mismatch",kind="node\.onboarding",status="failed_manual_intervention"\} 1`) {
		t.Error("the metrics do not count why it stopped")
	}
	if seen := documented(t, r.Broker); seen["site.unreachable"] == 0 || seen["site.reachable"] == 0 {
		t.Errorf("told was %v", seen)
	}
	if got := servertest.Must[api.Site](t, r.Broker, http.MethodGet, "/maas-sites/dc1", nil); len(got.Holds) > 0 || !metric("hostler_unreachable_sites 0") {
		t.Errorf("%+v", got.Holds)
	}
}
