package adminapi_test

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/server/servertest"
	"github.com/hostler/hostler/test/maassim"
)

// siteAt makes a site at a simulated region.
func siteAt(t *testing.T, b *servertest.Broker) (*maassim.Region, api.Site) {
	t.Helper()
	region := &maassim.Region{Seed: 1, Networks: []maassim.Network{{VID: 46, CIDR: "10.10.0.0/24", Gateway: "10.10.0.1", DHCP: true}}}
	server := httptest.NewServer(region)
	t.Cleanup(server.Close)
	return region, servertest.Must[api.Site](t, b, http.MethodPost, "/maas-sites", strings.Replace(aSite, "http://127.0.0.1:5240", server.URL, 1))
}

func TestCredentialsAreTriedBeforeTheyAreKept(t *testing.T) {
	b := servertest.Start(t)
	region, s := siteAt(t, b)
	path := "/maas-sites/dc1/credentials"
	plain := region.AddUser("joe", false)
	for name, row := range map[string]struct {
		given api.SiteCredentials
		fault *maassim.Fault
		code  string
	}{
		"nothing":            {api.SiteCredentials{}, nil, "site_credentials_invalid"},
		"no key":             {api.SiteCredentials{MAASToken: "hunter2-hunter2"}, nil, "maas_token_invalid"},
		"another key":        {api.SiteCredentials{MAASToken: "hunter2:hunter2:hunter2"}, nil, "maas_token_refused"},
		"no administrator":   {api.SiteCredentials{MAASToken: plain}, nil, "maas_token_not_admin"},
		"not reached":        {api.SiteCredentials{MAASToken: region.APIKey()}, &maassim.Fault{Kind: maassim.Unavailable, Op: "version"}, "maas_unreachable"},
		"a proxy's page":     {api.SiteCredentials{MAASToken: region.APIKey()}, &maassim.Fault{Kind: maassim.ProxyPage, Op: "whoami"}, "maas_unreachable"},
		"clocks apart":       {api.SiteCredentials{MAASToken: region.APIKey()}, &maassim.Fault{Kind: maassim.ClockSkew, Op: "whoami"}, "maas_clock_skew"},
		"elsewhere":          {api.SiteCredentials{MAASToken: region.APIKey(), APIBaseURL: "http://127.0.0.1:1/MAAS"}, nil, "maas_unreachable"},
		"elsewhere, no key":  {api.SiteCredentials{APIBaseURL: "http://127.0.0.1:1/MAAS"}, nil, "site_credentials_invalid"},
		"no authority":       {api.SiteCredentials{MAASToken: region.APIKey(), CACert: "x"}, nil, "site_invalid"},
		"a user alone":       {api.SiteCredentials{PowerUser: "root"}, nil, "power_credentials_invalid"},
		"power beside a bad": {api.SiteCredentials{MAASToken: "hunter2:hunter2:hunter2", PowerUser: "root", PowerPassword: "hunter2-hunter2"}, nil, "maas_token_refused"},
		"control characters": {api.SiteCredentials{DeployPassword: "a\x07b"}, nil, "site_credentials_invalid"},
	} {
		if row.fault != nil {
			region.Inject(*row.fault)
		}
		a := b.Ask(t, b.Token, http.MethodPost, path, row.given)
		region.Relent()
		if a.Status != http.StatusUnprocessableEntity || a.Code() != row.code || strings.Contains(string(a.Body), "hunter2") {
			t.Errorf("%s: %d %s, want 422 %s", name, a.Status, a.Body, row.code)
		}
	}
	left, _ := filepath.Glob(filepath.Join(b.Dir, "secrets", "maas-sites", "*"))
	got := servertest.Must[api.Site](t, b, http.MethodGet, "/maas-sites/dc1", nil)
	if len(left) > 0 || !got.APITokenSetAt.IsZero() || !got.DefaultPowerCredsSetAt.IsZero() || got.APIBaseURL != s.APIBaseURL || got.DeploySSHPublicKey != "" {
		t.Errorf("something was kept: %v, %+v", left, got)
	}

	set := servertest.Must[api.SiteCredentialsSet](t, b, http.MethodPost, path, api.SiteCredentials{MAASToken: region.APIKey(), PowerUser: "root", PowerPassword: "pw-pw-pw", Reason: "first"})
	if !slices.Equal(set.Set, []string{"maas_token", "power", "deploy_ssh_key"}) || set.MAASUser != "admin" || set.MAASVersion == "" || set.Site.APITokenSetAt.IsZero() || !strings.HasPrefix(set.Site.DeploySSHPublicKey, "ssh-ed25519 ") {
		t.Errorf("%+v", set)
	}
	if a := b.Ask(t, b.Token, http.MethodPatch, "/maas-sites/dc1", `{"api_base_url":"http://attacker/MAAS"}`); a.Code() != "site_address_bound" {
		t.Errorf("the site moved away with its token: %d %s", a.Status, a.Body)
	}
	again := servertest.Must[api.SiteCredentialsSet](t, b, http.MethodPost, path, api.SiteCredentials{DeployPassword: "dp-dp-dp"})
	if !slices.Equal(again.Set, []string{"deploy_password"}) || again.Site.DeploySSHPublicKey != set.Site.DeploySSHPublicKey || again.Site.APITokenSetAt != set.Site.APITokenSetAt {
		t.Errorf("%+v", again)
	}
}

// A new token is used from the next call on, and the address moves together with a token that was
// tried at the new address.
func TestATokenIsRotatedWithoutARestart(t *testing.T) {
	b := servertest.Start(t)
	region, s := siteAt(t, b)
	path := "/maas-sites/dc1/credentials"
	servertest.Must[api.SiteCredentialsSet](t, b, http.MethodPost, path, api.SiteCredentials{MAASToken: region.APIKey(), PowerUser: "root", PowerPassword: "pw-pw-pw"})
	probe := func(want bool) api.SiteProbe {
		t.Helper()
		p := servertest.Must[api.SiteProbe](t, b, http.MethodPost, "/maas-sites/dc1/probe", nil)
		if keyOK := slices.ContainsFunc(p.Checks, func(c api.SiteCheck) bool { return c.Check == "api_key" && c.Status == "ok" }); keyOK != want {
			t.Errorf("the key is good: %t, want %t (%+v)", keyOK, want, p)
		}
		return p
	}
	probe(true)
	renewed := region.RenewKeys("admin")
	probe(false)
	other := httptest.NewServer(region)
	t.Cleanup(other.Close)
	set := servertest.Must[api.SiteCredentialsSet](t, b, http.MethodPost, path, api.SiteCredentials{MAASToken: renewed, APIBaseURL: other.URL + "/MAAS/"})
	if set.Site.APIBaseURL != other.URL+"/MAAS" || set.Site.APIBaseURL == s.APIBaseURL {
		t.Errorf("it is at %s", set.Site.APIBaseURL)
	}
	p := probe(true)
	checks := map[string]string{}
	for _, c := range p.Checks {
		checks[c.Check] = c.Status
	}
	if p.OK != true || checks["address"] != "warn" || checks["pxe_dhcp"] != "ok" || checks["boot_image"] != "ok" || p.MAASVersion == "" {
		t.Errorf("%+v", p)
	}
	viewer := b.NewToken(t, api.TokenCreate{Name: "ann", Role: "viewer"})
	if a := b.Ask(t, viewer, http.MethodPost, "/maas-sites/dc1/probe", nil); a.Code() != "role_insufficient" {
		t.Errorf("%d %s", a.Status, a.Body)
	}
}

func TestSiteSecretsAreNowhereButAmongTheSecrets(t *testing.T) {
	b := servertest.Start(t)
	region, s := siteAt(t, b)
	key := region.APIKey()
	secrets := append(strings.Split(key, ":"), "power-hunter2", "deploy-hunter2", "override-hunter2")
	answers := []servertest.Answer{
		b.Ask(t, b.Token, http.MethodPost, "/maas-sites/dc1/credentials", api.SiteCredentials{MAASToken: key, PowerUser: "root", PowerPassword: "power-hunter2", DeployPassword: "deploy-hunter2"}),
		b.Ask(t, b.Token, http.MethodPost, "/maas-sites/dc1/power-overrides", api.PowerOverridePut{SelectorType: "hostname", SelectorValue: "C07U31", PowerUser: "adm", PowerPassword: "override-hunter2"}),
		b.Ask(t, b.Token, http.MethodPost, "/maas-sites/dc1/probe", nil),
		b.Ask(t, b.Token, http.MethodGet, "/maas-sites/dc1", nil),
		b.Ask(t, b.Token, http.MethodGet, "/maas-sites/dc1/power-overrides", nil),
		b.Ask(t, b.Token, http.MethodGet, "/audit?limit=1000", nil),
	}
	for i, a := range answers {
		if a.Status != http.StatusOK {
			t.Errorf("%d: %d %s", i, a.Status, a.Body)
		}
		for _, secret := range secrets {
			if strings.Contains(string(a.Body), secret) {
				t.Errorf("answer %d holds a secret: %s", i, a.Body)
			}
		}
	}
	b.Advance(time.Second)
	sealed := 0
	err := filepath.WalkDir(b.Dir, func(name string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		raw, err := os.ReadFile(name)
		for _, secret := range secrets {
			if strings.Contains(string(raw), secret) {
				t.Errorf("a secret is readable in %s", d.Name())
			}
		}
		if strings.Contains(name, filepath.Join("secrets", "maas-sites", s.ID)) {
			sealed++
		}
		return err
	})
	if err != nil || sealed != 5 { // token, power, password, SSH key, one override
		t.Errorf("%d secrets are kept, %v", sealed, err)
	}
}

func TestAnOverrideComesAndGoesWithItsSecret(t *testing.T) {
	b := servertest.Start(t)
	_, s := siteAt(t, b)
	path := "/maas-sites/dc1/power-overrides"
	put := api.PowerOverridePut{SelectorType: "pxe_mac", SelectorValue: "52-54-00-AA-BB-CC", PowerUser: "adm", PowerPassword: "one"}
	o := servertest.Must[api.PowerOverride](t, b, http.MethodPost, path, put)
	if o.SelectorValue != "52:54:00:aa:bb:cc" || o.VaultPath != "maas-sites/"+s.ID+"/power/overrides/"+o.ID || o.Unused {
		t.Errorf("%+v", o)
	}
	put.PowerPassword = "two"
	if again := servertest.Must[api.PowerOverride](t, b, http.MethodPost, path, put); again.ID != o.ID {
		t.Errorf("the same machine has two: %+v", again)
	}
	if off := servertest.Must[api.PowerOverride](t, b, http.MethodPatch, path+"/"+o.ID, `{"status":"disabled"}`); off.Status != "disabled" {
		t.Errorf("%+v", off)
	}
	b.Advance(91 * 24 * time.Hour)
	token := b.NewToken(t, api.TokenCreate{Name: "late", Role: "platform_admin"})
	if all := servertest.Must[api.PowerOverrideList](t, b, http.MethodGet, path, nil); len(all.Items) != 1 || !all.Items[0].Unused {
		t.Errorf("%+v", all)
	}
	servertest.Must[api.PowerOverride](t, b, http.MethodDelete, path+"/"+o.ID+"?reason=mended", nil)
	if left, _ := filepath.Glob(filepath.Join(b.Dir, "secrets", "maas-sites", s.ID, "power", "overrides", "*")); len(left) > 0 {
		t.Errorf("its secret is still there: %v", left)
	}
	for body, code := range map[string]string{
		`{"selector_type":"serial","selector_value":"x","power_user":"a","power_password":"b"}`:         "invalid_request",
		`{"selector_type":"ipmi_ip","selector_value":"10.0.0","power_user":"a","power_password":"b"}`:   "power_override_invalid",
		`{"selector_type":"hostname","selector_value":"h","power_user":"a","power_password":"b\u0007"}`: "power_credentials_invalid",
	} {
		if a := b.Ask(t, token, http.MethodPost, path, body); a.Code() != code {
			t.Errorf("%s: %d %s, want %s", body, a.Status, a.Body, code)
		}
	}
	if a := b.Ask(t, token, http.MethodDelete, path+"/"+o.ID+"?reason=mended", nil); a.Code() != "power_override_not_found" {
		t.Errorf("%d %s", a.Status, a.Body)
	}
}

func TestRoCEAssignmentsAreAListPerSite(t *testing.T) {
	b := servertest.Start(t)
	servertest.Must[api.Site](t, b, http.MethodPost, "/maas-sites", aSite)
	path := "/maas-sites/dc1/roce-assignments"
	list := `{"items":[{"hostname":"c07u31","interface":"enp28s0np0","ipv4_cidr":"172.30.9.61/31"},{"hostname":"c07u31","interface":"enp29s0np0","ipv4_cidr":"172.29.1.219/31"},{"hostname":"c07u32","interface":"enp28s0np0","ipv4_cidr":"172.30.9.63/31"}]}`
	if r := servertest.Must[api.RoCEResult](t, b, http.MethodPost, path, list); r.Created != 3 {
		t.Errorf("%+v", r)
	}
	if r := servertest.Must[api.RoCEResult](t, b, http.MethodPost, path, list); r.Unchanged != 3 || r.Created != 0 {
		t.Errorf("%+v", r)
	}
	all := servertest.Must[api.RoCEList](t, b, http.MethodGet, path+"?hostname=C07U31", nil)
	if len(all.Items) != 2 || all.Items[0].Interface != "enp28s0np0" || all.Items[0].IPv4CIDR != "172.30.9.61/31" {
		t.Errorf("%+v", all)
	}
	servertest.Must[api.RoCEAssignment](t, b, http.MethodDelete, path+"/"+all.Items[0].ID+"?reason=mended", nil)
	for body, code := range map[string]string{
		`{"items":[]}`: "invalid_request",
		`{"items":[{"hostname":"h","interface":"eth0","ipv4_cidr":"10.0.0.1"}]}`:                                                                               "roce_invalid",
		`{"items":[{"hostname":"c07u40","interface":"eth0","ipv4_cidr":"10.0.0.1/31"},{"hostname":"c07u41","interface":"eth0","ipv4_cidr":"172.30.9.63/31"}]}`: "roce_address_taken",
		`{"items":[{"hostname":"h","interface":"eth0","ipv4_cidr":"10.0.0.1/31","gateway":"10.0.0.0"}]}`:                                                       "invalid_request",
	} {
		if a := b.Ask(t, b.Token, http.MethodPost, path, body); a.Code() != code {
			t.Errorf("%s: %d %s, want %s", body, a.Status, a.Body, code)
		}
	}
	if a := b.Ask(t, b.Token, http.MethodGet, path+"?hostname=..", nil); a.Code() != "roce_invalid" {
		t.Errorf("%d %s", a.Status, a.Body)
	}
	if all := servertest.Must[api.RoCEList](t, b, http.MethodGet, path, nil); len(all.Items) != 2 {
		t.Errorf("%+v", all)
	}
}
