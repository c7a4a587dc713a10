package onboarding_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/onboarding"
	"github.com/hostler/hostler/test/maassim"
)

func TestAnOnboardingIsRefusedBeforeItBegins(t *testing.T) {
	good := onboarding.Request{Hostname: "C01.dc1", IPMIIP: " ::ffff:10.9.0.1", PXEMAC: "02-00-5E-00-01-01"}
	for name, row := range map[string]struct {
		change func(w *world, r *onboarding.Request)
		code   string
	}{
		"good":               {func(*world, *onboarding.Request) {}, ""},
		"no hostname":        {func(_ *world, r *onboarding.Request) { r.Hostname = "" }, "onboarding_invalid"},
		"a hostname no name": {func(_ *world, r *onboarding.Request) { r.Hostname = "c01;reboot" }, "onboarding_invalid"},
		"no BMC":             {func(_ *world, r *onboarding.Request) { r.IPMIIP = "" }, "onboarding_invalid"},
		"a BMC by name":      {func(_ *world, r *onboarding.Request) { r.IPMIIP = "bmc.dc1" }, "onboarding_invalid"},
		"a BMC on loopback":  {func(_ *world, r *onboarding.Request) { r.IPMIIP = "127.0.0.1" }, "onboarding_invalid"},
		"no MAC":             {func(_ *world, r *onboarding.Request) { r.PXEMAC = "02:00" }, "onboarding_invalid"},
		"no SKU":             {func(w *world, _ *onboarding.Request) { w.sku.ID = "" }, "onboarding_invalid"},
		"another's profile":  {func(w *world, _ *onboarding.Request) { w.profile.SiteID = "x" }, "onboarding_invalid"},
		"site disabled":      {func(w *world, _ *onboarding.Request) { w.site.Status = broker.SiteDisabled }, "site_disabled"},
		"profile disabled":   {func(w *world, _ *onboarding.Request) { w.profile.Status = broker.SiteDisabled }, "profile_disabled"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, "3.6")
			req := good
			row.change(w, &req)
			s, locks, err := onboarding.New(w.site, w.profile, w.sku, req)
			if row.code != "" {
				if err == nil || broker.AsError(err).Code != row.code {
					t.Errorf("%v, want %s", err, row.code)
				}
				return
			}
			if want := []string{"hostname/dc1/c01.dc1", "ipmi/dc1/10.9.0.1"}; err != nil || !slices.Equal(locks, want) || s.PXEMAC != "02:00:5e:00:01:01" {
				t.Errorf("%v %v %+v", err, locks, s)
			}
		})
	}
}

func TestARefusalOfAnothersProfileNamesSiteAndProfile(t *testing.T) {
	w := newWorld(t, "3.6")
	w.profile.SiteID = "x"
	want := "site " + w.site.Name + " has no profile " + w.profile.Name
	if _, _, err := onboarding.New(w.site, w.profile, w.sku, onboarding.Request{Hostname: "c01", IPMIIP: "10.9.0.1"}); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("%v, want %q", err, want)
	}
}

// A run's policy is as it was when the run began.
func TestAPolicyThatChangesIsForLaterRuns(t *testing.T) {
	w := newWorld(t, "3.6")
	s, _, err := onboarding.New(w.site, w.profile, w.sku, onboarding.Request{Hostname: "c01", IPMIIP: "10.9.0.1"})
	if err != nil {
		t.Fatal(err)
	}
	w.profile.Policy.StageRetries["deploy_via_maas"] = 19
	if s.Policy.StageRetries["deploy_via_maas"] == 19 {
		t.Error("the copy is none")
	}
}

// passing answers some calls itself, and passes the others on.
type passing struct {
	w      *world
	answer func(*http.Request) (body string, is bool)
}

func (p passing) RoundTrip(req *http.Request) (*http.Response, error) {
	if body, is := p.answer(req); is {
		return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(body)), Request: req}, nil
	}
	return p.w.region.RoundTripper().RoundTrip(req)
}

// The subnet of an address is created in the interface's VLAN where MAAS has none. The simulated
// region creates no subnets, so the call is answered here.
func TestASubnetIsMadeForARoCEAddress(t *testing.T) {
	w := newWorld(t, "3.6")
	b := w.box(1)
	b.NICs[1].Network = 1
	id := w.region.Arrange(maassim.Arranged{Hostname: "c01", Hardware: b, Status: maassim.Ready})
	w.book.RoCE = []broker.RoCEAssignment{{SiteID: w.site.ID, Hostname: "c01", Interface: "eno8403", IPv4CIDR: "172.29.1.219/31"}}
	var made []string
	w.guard = passing{w, func(req *http.Request) (string, bool) {
		if req.Method != http.MethodPost || !strings.HasSuffix(req.URL.Path, "/subnets/") {
			return "", false
		}
		var raw io.ReadCloser
		req.Body, raw = twice(t, req.Body)
		form, _ := io.ReadAll(raw)
		made = append(made, string(form))
		return `{"id":99,"cidr":"172.29.1.218/31","resource_uri":"/MAAS/api/2.0/subnets/99/"}`, true
	}}
	s := w.asked(1)
	s.SystemID = id
	w.patience = time.Minute
	w.alone("r", s, "apply_roce_phase2")
	if len(made) == 0 || len(made) > 61 || !strings.Contains(made[0], "cidr=172.29.1.218%2F31") || !strings.Contains(made[0], "vlan=2") {
		t.Errorf("%q", made)
	}
}

// A run shows operators MAAS's latest report.
func TestARunTellsWhatMAASSaidLast(t *testing.T) {
	w := newWorld(t, "3.6")
	w.region.PlugIn(w.box(1))
	id := w.start(1)
	w.settle(nil)
	var s onboarding.Onboarding
	if err := json.Unmarshal(w.run(id).State, &s); err != nil {
		t.Fatal(err)
	}
	if s.Seen.Status != "Deployed" || s.Seen.Power != "on" || len(s.Seen.IPs) != 1 || s.Seen.Owner != "admin" || s.Seen.LastSync.IsZero() || s.BootDisk == nil || len(s.Disks) != 3 {
		t.Errorf("%+v", s)
	}
	for _, v := range []any{onboarding.Bundle{UserData: []byte("hsn_x"), Digest: "d"}} {
		if text := fmt.Sprintf("%v %+v %#v %s", v, v, v, v); strings.Contains(text, "hsn") || strings.Contains(text, "104") {
			t.Error(text)
		}
	}
}
