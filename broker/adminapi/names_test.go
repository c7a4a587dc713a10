package adminapi_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/server/servertest"
)

func TestATokenOfOneSiteMakesNoNameOfAnotherAmbiguous(t *testing.T) {
	b := servertest.Start(t)
	b.OnRecord(t, "dc1", "dc2")
	mine := servertest.Must[api.NodeBootstrap](t, b, http.MethodPost, "/nodes", api.NodeCreate{Hostname: "gpu-07", Site: "dc1"}).Node
	bound := b.NewToken(t, api.TokenCreate{Name: "dc2-op", Role: "operator", Sites: []string{"dc2"}})
	create := func(token, hostname, site string) servertest.Answer {
		return b.Ask(t, token, http.MethodPost, "/nodes", api.NodeCreate{Hostname: hostname, Site: site})
	}
	for _, hostname := range []string{"gpu-07", mine.ID, mine.ID[:6]} {
		a := create(bound, hostname, "dc2")
		if a.Status != http.StatusConflict || a.Code() != "hostname_taken" || strings.Contains(string(a.Body), "dc1") {
			t.Errorf("%s: %d %s", hostname, a.Status, a.Body)
		}
		if got := show(t, b, hostname); got.ID != mine.ID {
			t.Errorf("%s is %s", hostname, got.ID)
		}
	}
	if a := create(bound, "gpu-08", "dc2"); a.Status/100 != 2 {
		t.Errorf("a name of their own: %d %s", a.Status, a.Body)
	}
	// A token that sees all sites may use the name twice, and the other site's token still finds
	// its own node.
	if a := create(b.Token, "gpu-07", "dc2"); a.Status/100 != 2 {
		t.Errorf("by who sees both: %d %s", a.Status, a.Body)
	}
	if a := b.Ask(t, bound, http.MethodGet, "/nodes/gpu-07", nil); a.Status != http.StatusOK || !strings.Contains(string(a.Body), `"site":"dc2"`) {
		t.Errorf("their own gpu-07: %d %s", a.Status, a.Body)
	}
}

func TestASiteThatIsNotOnRecordIsRefused(t *testing.T) {
	b := servertest.Start(t)
	b.OnRecord(t, "dc1")
	site := servertest.Must[api.Site](t, b, http.MethodGet, "/maas-sites/dc1", nil)
	bound := b.NewToken(t, api.TokenCreate{Name: "op", Role: "operator", Sites: []string{"dc1", "dc9"}})
	for _, name := range []string{"dc9", site.ID} {
		for path, body := range map[string]any{
			"POST /nodes":          api.NodeCreate{Hostname: "h1", Site: name},
			"PUT /clean-policy":    api.CleanPolicyPut{Site: name},
			"PUT /terminal-policy": map[string]any{"site": name, "policy": map[string]any{}},
		} {
			method, path, _ := strings.Cut(path, " ")
			if a := b.Ask(t, b.Token, method, path, body); a.Status != http.StatusNotFound || a.Code() != "site_not_found" {
				t.Errorf("%s %s at %s: %d %s", method, path, name, a.Status, a.Body)
			}
		}
	}
	if a := b.Ask(t, bound, http.MethodPost, "/nodes", api.NodeCreate{Hostname: "h1", Site: "dc9"}); a.Code() != "site_not_found" {
		t.Errorf("by a token that names the site: %d %s", a.Status, a.Body)
	}
	if a := b.Ask(t, bound, http.MethodPost, "/nodes", api.NodeCreate{Hostname: "h1", Site: "dc1"}); a.Status/100 != 2 {
		t.Errorf("a site on record: %d %s", a.Status, a.Body)
	}
}
