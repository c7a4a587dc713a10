package adminapi_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/server/servertest"
)

const aSite = `{"name":"dc1","region_code":"eu-1","api_base_url":"http://127.0.0.1:5240/MAAS/","pxe_iface":"ens19","pxe_vlan_vid":46,"node_pxe_iface":"eno8303"}`

func TestASiteIsMadeWithDefaultsAndChangedInPart(t *testing.T) {
	b := servertest.Start(t)
	s := servertest.Must[api.Site](t, b, http.MethodPost, "/maas-sites", aSite)
	if s.ID == "" || s.Status != "active" || s.APIBaseURL != "http://127.0.0.1:5240/MAAS" || s.DistroSeries != "ubuntu/noble" || s.DeployUser != "hpcadmin" ||
		!slices.Equal(s.UpstreamDNSServers, []string{"1.1.1.1", "8.8.8.8"}) || s.APITokenVaultPath != "maas-sites/"+s.ID+"/api-token" || !s.APITokenSetAt.IsZero() {
		t.Errorf("%+v", s)
	}
	p := servertest.Must[api.SiteProfile](t, b, http.MethodGet, "/maas-sites/dc1/profiles/default", nil)
	if p.ID != s.DefaultProfileID || !p.Default || !p.StrictPXEPreflight || p.MaxDeployRetryAttempts != 1 || p.StageRetries["deploy_via_maas"] != 2 {
		t.Errorf("%+v", p)
	}
	p = servertest.Must[api.SiteProfile](t, b, http.MethodPatch, "/maas-sites/dc1/profiles/default", `{"strict_pxe_preflight":false,"max_deploy_retry_attempts":0,"pxe_vlan_vid":0,"stage_retries":{"deploy_via_maas":5}}`)
	if p.StrictPXEPreflight || p.MaxDeployRetryAttempts != 0 || p.PXEVLANVID == nil || *p.PXEVLANVID != 0 || p.StageRetries["deploy_via_maas"] != 5 || p.StageRetries["commission_node"] != 3 || !p.RequireHWSync {
		t.Errorf("%+v", p)
	}
	if p = servertest.Must[api.SiteProfile](t, b, http.MethodPatch, "/maas-sites/dc1/profiles/default", `{"pxe_vlan_vid":null}`); p.PXEVLANVID != nil {
		t.Errorf("VLAN %d", *p.PXEVLANVID)
	}
	servertest.Must[api.SiteProfile](t, b, http.MethodPost, "/maas-sites/dc1/profiles", `{"name":"strict","require_hw_sync":false,"batch_max_parallel":2}`)
	s = servertest.Must[api.Site](t, b, http.MethodPatch, "/maas-sites/"+s.ID, `{"default_profile_id":"strict","upstream_dns_servers":["10.0.0.1"],"commissioning_scripts":[{"name":"50-burn-in","version":"7"}],"reason":"tests"}`)
	if s.DefaultProfileID == p.ID || len(s.UpstreamDNSServers) != 1 || s.PXEVLANVID != 46 || s.CommissioningScripts[0].Version != "7" {
		t.Errorf("%+v", s)
	}
	rows := servertest.Must[api.AuditList](t, b, http.MethodGet, "/audit?action=site.update", nil)
	if len(rows.Items) != 1 || rows.Items[0].Reason != "tests" || !strings.Contains(string(rows.Items[0].Before), "1.1.1.1") || !strings.Contains(string(rows.Items[0].After), "10.0.0.1") {
		t.Errorf("%+v", rows.Items)
	}
	for method, want := range map[string]string{http.MethodDelete: "disabled", http.MethodPatch: "active"} {
		if got := servertest.Must[api.Site](t, b, method, map[string]string{http.MethodDelete: "/maas-sites/dc1?reason=tests", http.MethodPatch: "/maas-sites/dc1"}[method], `{"status":"`+want+`"}`); method == http.MethodDelete && got.Status != want {
			t.Errorf("%s leaves it %s", method, got.Status)
		}
	}
	if all := servertest.Must[api.SiteList](t, b, http.MethodGet, "/maas-sites", nil); len(all.Items) != 1 {
		t.Errorf("%d sites", len(all.Items))
	}
}

func TestASiteNamesTheIssuerOfItsCertificates(t *testing.T) {
	b := servertest.Start(t)
	servertest.Must[api.Site](t, b, http.MethodPost, "/maas-sites", aSite)
	servertest.Must[api.Site](t, b, http.MethodPatch, "/maas-sites/dc1", `{"issuer_organisation":"Example","issuer_contact":"a person","issuer_trust_url":"https://example.com/trust.json"}`)
	s := servertest.Must[api.Site](t, b, http.MethodPatch, "/maas-sites/dc1", `{"issuer_contact":""}`)
	if s.IssuerOrganisation != "Example" || s.IssuerContact != "" || s.IssuerTrustURL != "https://example.com/trust.json" {
		t.Errorf("%+v", s)
	}
}

func TestBadSitesChangeNothing(t *testing.T) {
	b := servertest.Start(t)
	servertest.Must[api.Site](t, b, http.MethodPost, "/maas-sites", aSite)
	before := b.Ask(t, b.Token, http.MethodGet, "/maas-sites", nil)
	for _, row := range []struct{ method, path, body, code string }{
		{http.MethodPost, "/maas-sites", aSite, "site_exists"},
		{http.MethodPost, "/maas-sites", strings.Replace(aSite, "dc1", "dc2", 1), "site_region_taken"},
		{http.MethodPost, "/maas-sites", `{"name":"dc2"}`, "site_invalid"},
		{http.MethodPost, "/maas-sites", strings.Replace(aSite, "dc1", "dc/2", 1), "site_invalid"},
		{http.MethodPost, "/maas-sites", strings.Replace(aSite, "{", `{"api_token":"a:b:c",`, 1), "invalid_request"},
		{http.MethodPatch, "/maas-sites/dc1", `{"name":"dc2"}`, "site_invalid"},
		{http.MethodPatch, "/maas-sites/dc1", `{"id":"x"}`, "invalid_request"},
		{http.MethodPatch, "/maas-sites/dc1", `{"status":"gone"}`, "invalid_request"},
		{http.MethodPatch, "/maas-sites/dc1", `{"pxe_vlan_vid":4095}`, "invalid_request"},
		{http.MethodPatch, "/maas-sites/dc1", `{"api_base_url":"http://u:p@h/MAAS"}`, "site_invalid"},
		{http.MethodPatch, "/maas-sites/dc1", `{"issuer_contact":"trust@example.com"}`, "site_invalid"},
		{http.MethodPatch, "/maas-sites/dc1", `[]`, "invalid_request"},
		{http.MethodPatch, "/maas-sites/dc9", `{"status":"disabled"}`, "site_not_found"},
		{http.MethodPost, "/maas-sites/dc1/profiles", `{}`, "profile_invalid"},
		{http.MethodPost, "/maas-sites/dc1/profiles", `{"name":"default"}`, "profile_exists"},
		{http.MethodPatch, "/maas-sites/dc1/profiles/default", `{"status":"disabled"}`, "profile_is_default"},
		{http.MethodPatch, "/maas-sites/dc1/profiles/default", `{"deploy_timeout_seconds":7000}`, "profile_invalid"},
		{http.MethodPatch, "/maas-sites/dc1/profiles/default", `{"color":"red"}`, "invalid_request"},
		{http.MethodPatch, "/maas-sites/dc1/profiles/none", `{}`, "profile_not_found"},
	} {
		if a := b.Ask(t, b.Token, row.method, row.path, row.body); a.Code() != row.code || strings.Contains(string(a.Body), "u:p@") {
			t.Errorf("%s %s %s: %d %s, want %s", row.method, row.path, row.body, a.Status, a.Body, row.code)
		}
	}
	if after := b.Ask(t, b.Token, http.MethodGet, "/maas-sites", nil); string(after.Body) != string(before.Body) {
		t.Errorf("it is\n%s, and was\n%s", after.Body, before.Body)
	}
}

func TestASiteThatATokenMayNotSeeIsNotThere(t *testing.T) {
	b := servertest.Start(t)
	one := servertest.Must[api.Site](t, b, http.MethodPost, "/maas-sites", aSite)
	servertest.Must[api.Site](t, b, http.MethodPost, "/maas-sites", strings.NewReplacer("dc1", "dc2", ":5240", ":5241").Replace(aSite))
	bound := b.NewToken(t, api.TokenCreate{Name: "dc2-op", Role: "operator", Sites: []string{"dc2"}})
	for _, path := range []string{"dc1", one.ID, "dc1/profiles", "dc1/profiles/default", one.ID + "/profiles/" + one.DefaultProfileID} {
		if a := b.Ask(t, bound, http.MethodGet, "/maas-sites/"+path, nil); a.Status != http.StatusNotFound || a.Code() != "site_not_found" {
			t.Errorf("GET %s: %d %s", path, a.Status, a.Body)
		}
	}
	a := b.Ask(t, bound, http.MethodGet, "/maas-sites", nil)
	if strings.Contains(string(a.Body), `"dc1"`) || !strings.Contains(string(a.Body), `"dc2"`) {
		t.Errorf("it lists %s", a.Body)
	}
	if a := b.Ask(t, bound, http.MethodGet, "/maas-sites/dc2/profiles", nil); a.Status != http.StatusOK {
		t.Errorf("its own site's profiles: %d %s", a.Status, a.Body)
	}
}

func TestASKUIsMadeWithDefaultsAndChangedInPart(t *testing.T) {
	b := servertest.Start(t)
	s := servertest.Must[api.SKU](t, b, http.MethodPost, "/skus", `{"id":"mi300x.192g.8gpu","gpu_vendor":"amd","gpu_model":"MI300X","gpu_count":8,"gpu_memory_bytes":206158430208,"nics":["enp28s0np0"],"gpu_settings":{"ecc":true,"partition":"SPX"}}`)
	if s.BootDisk.Pattern == "" || s.GPUSettings.ECC == nil || s.GPUMemoryBytes != 192<<30 {
		t.Errorf("%+v", s)
	}
	s = servertest.Must[api.SKU](t, b, http.MethodPatch, "/skus/"+s.ID, `{"boot_disk":{"pick":"smallest"},"scrub_floor":{"min_coverage_percent":98,"require_reset":true},"dpu_emulated_disks":true}`)
	if s.BootDisk.Pattern == "" || s.BootDisk.Pick != "smallest" || !s.ScrubFloor.RequireReset || !s.DPUDisks || s.GPUCount != 8 || s.GPUSettings.Partition != "SPX" {
		t.Errorf("%+v", s)
	}
	for body, code := range map[string]string{`{"id":"x"}`: "sku_invalid", `{"gpu_count":0}`: "sku_invalid", `{"gpu_vendor":"intel"}`: "invalid_request", `{"boot_disk":{"pattern":"("}}`: "sku_invalid"} {
		if a := b.Ask(t, b.Token, http.MethodPatch, "/skus/"+s.ID, body); a.Code() != code {
			t.Errorf("%s: %d %s, want %s", body, a.Status, a.Body, code)
		}
	}
	if s.Shape != "baremetal" || s.AllowedCounts == nil || s.Sites == nil || s.Images == nil {
		t.Errorf("the offer by default is %+v", s)
	}
	s = servertest.Must[api.SKU](t, b, http.MethodPatch, "/skus/"+s.ID, `{"shape":"gpu_slice","allowed_counts":[1,2],"images":["ubuntu/noble"]}`)
	if s = servertest.Must[api.SKU](t, b, http.MethodPatch, "/skus/"+s.ID, `{"allowed_counts":[4]}`); s.Shape != "gpu_slice" || !slices.Equal(s.AllowedCounts, []int{4}) || !slices.Equal(s.Images, []string{"ubuntu/noble"}) || s.GPUCount != 8 {
		t.Errorf("%+v", s)
	}
	for body, code := range map[string]string{`{"allowed_counts":[9]}`: "sku_invalid", `{"shape":"vm"}`: "invalid_request", `{"shape":"baremetal"}`: "sku_invalid", `{"allowed_counts":null}`: "invalid_request", `{"sites":["dc9"]}`: "site_not_found"} {
		if a := b.Ask(t, b.Token, http.MethodPatch, "/skus/"+s.ID, body); a.Code() != code {
			t.Errorf("%s: %d %s, want %s", body, a.Status, a.Body, code)
		}
	}
	if a := b.Ask(t, b.Token, http.MethodGet, "/skus/none", nil); a.Code() != "sku_not_found" {
		t.Errorf("%d %s", a.Status, a.Body)
	}
}
