package maas_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/maas"
	"github.com/hostler/hostler/test/maassim"
)

// kept keeps secrets as a map.
type kept map[string][]byte

func (k kept) Get(_ context.Context, path string) ([]byte, error) {
	if v, ok := k[path]; ok {
		return append([]byte(nil), v...), nil
	}
	return nil, broker.Errorf(broker.NotFound, "secret_not_found", "no")
}

func (k kept) Put(_ context.Context, path string, v []byte) error {
	k[path] = append([]byte(nil), v...)
	return nil
}

// fixture is a site with a simulated region, over the wire.
type fixture struct {
	region   *maassim.Region
	sites    *maas.Sites
	site     broker.Site
	profiles []broker.Profile
	ahead    time.Duration // of the broker's clock
	later    atomic.Int64  // how much time has passed for the machines
}

func newFixture(t *testing.T, version string) *fixture {
	t.Helper()
	f := &fixture{}
	f.region = &maassim.Region{
		Version: version, Seed: 1, OAuthNow: time.Now,
		Now:      func() time.Time { return time.Now().Add(time.Duration(f.later.Load())) },
		Networks: []maassim.Network{{VID: 46, CIDR: "10.10.0.0/24", Gateway: "10.10.0.1", DHCP: true}},
		Images:   []maassim.Image{{Name: "ubuntu/jammy"}, {Name: "ubuntu/noble"}, {Name: "custom/gpuaas-noble", Base: "ubuntu/noble"}, {Name: "custom/orphan", Base: "ubuntu/focal"}},
		Scripts:  []maassim.Script{{Name: "50-burn-in", Version: 7, Comment: "2026-11"}},
	}
	server := httptest.NewServer(f.region)
	t.Cleanup(server.Close)
	f.site = broker.NewSite("id")
	f.site.Name, f.site.APIBaseURL, f.site.PXEIface, f.site.NodePXEIface, f.site.PXEVLANVID = "dc1", server.URL+"/MAAS", "ens19", "eno1", 46
	f.profiles = []broker.Profile{broker.NewProfile("p", "id", "default")}
	f.sites = &maas.Sites{Secrets: kept{}, Now: func() time.Time { return time.Now().Add(f.ahead) }}
	f.token(t, f.region.APIKey())
	power, err := maas.NewPower("root", "pw")
	if err == nil {
		err = maas.PutPower(t.Context(), f.sites.Secrets, f.site.PowerPath, power)
	}
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func (f *fixture) token(t *testing.T, text string) {
	t.Helper()
	key, err := maas.ParseKey(text)
	if err != nil {
		t.Fatal(err)
	}
	if err := maas.PutToken(t.Context(), f.sites.Secrets, f.site, key); err != nil {
		t.Fatal(err)
	}
}

func (f *fixture) report(t *testing.T) map[string]maas.Check {
	t.Helper()
	out := map[string]maas.Check{}
	for _, c := range f.sites.Preflight(t.Context(), f.site, f.profiles, nil).Checks {
		if worse, had := out[c.Name]; had && worse.Verdict != maas.OK {
			continue
		}
		out[c.Name] = c
	}
	return out
}

func TestASiteThatHasAllItNeedsFailsNothing(t *testing.T) {
	for _, version := range []string{"3.4", "3.5", "3.6"} {
		f := newFixture(t, version)
		f.site.CommissioningScripts = []broker.ScriptVersion{{Name: "50-burn-in", Version: "2026-11"}}
		f.profiles[0].Policy.DistroSeries = "gpuaas-noble"
		r := f.sites.Preflight(t.Context(), f.site, f.profiles, nil)
		if !strings.HasPrefix(r.Version, version) {
			t.Errorf("%s is %q", version, r.Version)
		}
		if len(r.Checks) != 11 {
			t.Errorf("%s: %d checks: %+v", version, len(r.Checks), r.Checks)
		}
		for _, c := range r.Checks {
			want := maas.OK
			if c.Name == "address" || c.Name == "boot_image" && version == "3.4" { // the address is http; and 3.4 lists no image's base
				want = maas.Warn
			}
			if c.Verdict != want {
				t.Errorf("%s: %+v", version, c)
			}
		}
	}
}

func TestWhatASiteLacksIsNamed(t *testing.T) {
	for name, row := range map[string]struct {
		change  func(*testing.T, *fixture)
		check   string
		verdict maas.Verdict
		detail  string
	}{
		"disabled":             {func(_ *testing.T, f *fixture) { f.site.Status = broker.SiteDisabled }, "site", maas.Fail, "is disabled"},
		"disabled profile":     {func(_ *testing.T, f *fixture) { f.profiles[0].Status = broker.SiteDisabled }, "profile", maas.Fail, "default is disabled"},
		"no power credentials": {func(_ *testing.T, f *fixture) { delete(f.sites.Secrets.(kept), f.site.PowerPath) }, "power_credentials", maas.Fail, "cannot find the power credentials"},
		"no token":             {func(_ *testing.T, f *fixture) { f.sites.Secrets = kept{} }, "credentials", maas.Fail, "cannot find the MAAS token"},
		"wrong key":            {func(t *testing.T, f *fixture) { f.token(t, "a:b:c") }, "api_key", maas.Fail, "unauthorized"},
		"revoked key": {func(_ *testing.T, f *fixture) {
			f.region.Inject(maassim.Fault{Kind: maassim.KeyRevoked, Op: "whoami"})
		}, "api_key", maas.Fail, "unauthorized"},
		"not reached": {func(_ *testing.T, f *fixture) {
			f.region.Inject(maassim.Fault{Kind: maassim.Unavailable, Op: "version"})
		}, "maas", maas.Fail, "unavailable"},
		"a proxy": {func(_ *testing.T, f *fixture) {
			f.region.Inject(maassim.Fault{Kind: maassim.ProxyPage, Op: "version"})
		}, "maas", maas.Fail, "proxy"},
		"our clock behind": {func(_ *testing.T, f *fixture) { f.ahead = -250 * time.Second }, "clock", maas.Fail, "clock is 4m"},
		"our clock ahead":  {func(_ *testing.T, f *fixture) { f.ahead = time.Hour }, "clock", maas.Warn, "differ"},
		"far behind":       {func(_ *testing.T, f *fixture) { f.ahead = -time.Hour }, "api_key", maas.Fail, "clock_skew"},
		"no rack":          {func(_ *testing.T, f *fixture) { f.region.SetRack(false) }, "rack_controllers", maas.Fail, "none of 1"},
		"image not synced": {func(_ *testing.T, f *fixture) { f.region.Images[1].Unsynced = true }, "rack_controllers", maas.Warn, "out-of-sync"},
		"no image":         {func(_ *testing.T, f *fixture) { f.profiles[0].Policy.DistroSeries = "focal" }, "boot_image", maas.Fail, "ubuntu/focal for amd64 is missing"},
		"other machines":   {func(_ *testing.T, f *fixture) { f.profiles[0].Policy.Architecture = "arm64/generic" }, "boot_image", maas.Fail, "arm64"},
		"no custom image":  {func(_ *testing.T, f *fixture) { f.profiles[0].Policy.DistroSeries = "gpuaas-none" }, "boot_image", maas.Fail, "custom/gpuaas-none"},
		"no upload":        {func(_ *testing.T, f *fixture) { f.profiles[0].Policy.DistroSeries = "custom/noble" }, "boot_image", maas.Fail, "custom/noble for amd64 is missing"},
		"named without":    {func(_ *testing.T, f *fixture) { f.profiles[0].Policy.DistroSeries = "orphan" }, "boot_image", maas.Fail, "an uploaded image has this name"},
		"no base":          {func(_ *testing.T, f *fixture) { f.profiles[0].Policy.DistroSeries = "custom/orphan" }, "boot_image", maas.Fail, "base image of custom/orphan is ubuntu/focal, which is missing"},
		"base not told":    {func(_ *testing.T, f *fixture) { f.region.Images[2].Base = ""; f.site.DistroSeries = "gpuaas-noble" }, "boot_image", maas.Warn, "does not name"},
		"no VLAN":          {func(_ *testing.T, f *fixture) { f.site.PXEVLANVID = 47 }, "pxe_dhcp", maas.Fail, "no VLAN 47"},
		"no DHCP":          {func(_ *testing.T, f *fixture) { f.region.Networks[0].DHCP = false }, "pxe_dhcp", maas.Fail, "no DHCP"},
		"no script": {func(_ *testing.T, f *fixture) {
			f.site.CommissioningScripts = []broker.ScriptVersion{{Name: "60-x", Version: "1"}}
		}, "commissioning_scripts", maas.Fail, "60-x is missing"},
		"another script": {func(_ *testing.T, f *fixture) {
			f.site.CommissioningScripts = []broker.ScriptVersion{{Name: "50-burn-in", Version: "2026-10"}}
		}, "commissioning_scripts", maas.Fail, "and 2026-10 was recorded"},
		"another interval": {func(_ *testing.T, f *fixture) { f.profiles[0].Policy.HardwareSyncInterval = "30m" }, "hardware_sync", maas.Warn, "every 15m"},
	} {
		t.Run(name, func(t *testing.T) {
			version := "3.6"
			if name == "image not synced" {
				version = "3.4" // later regions report all racks as synced
			}
			f := newFixture(t, version)
			row.change(t, f)
			got := f.report(t)[row.check]
			if got.Verdict != row.verdict || !strings.Contains(got.Detail, row.detail) {
				t.Errorf("%+v, want %s with %q", got, row.verdict, row.detail)
			}
			if got.Verdict == maas.Fail && got.NextStep == "" {
				t.Errorf("nothing says what to do: %+v", got)
			}
		})
	}
}

func TestAnOverrideThatNobodyUsesIsWarnedOf(t *testing.T) {
	f := newFixture(t, "3.6")
	now := time.Now()
	old := broker.PowerOverride{ID: "o-1", SelectorType: broker.ByHostname, SelectorValue: "c07u31", Status: broker.SiteActive, CreatedAt: now.Add(-100 * 24 * time.Hour)}
	used := old
	used.LastUsedAt = now.Add(-time.Hour)
	n := 0
	for _, c := range f.sites.Preflight(t.Context(), f.site, f.profiles, []broker.PowerOverride{old, used}).Checks {
		if c.Name == "power_override" {
			n++
			if c.Verdict != maas.Warn || !strings.Contains(c.NextStep, "o-1") {
				t.Errorf("%+v", c)
			}
		}
	}
	if n != 1 {
		t.Errorf("%d warnings", n)
	}
}

// However many chains wait on a site, its machines are listed once, and at most once a second; a
// failure is shared too.
func TestMachinesAreListedOnceForAll(t *testing.T) {
	f := newFixture(t, "3.6")
	var mu sync.Mutex
	now := time.Now()
	f.sites.Now = func() time.Time { mu.Lock(); defer mu.Unlock(); return now }
	pass := func(d time.Duration) { mu.Lock(); defer mu.Unlock(); now = now.Add(d) }
	f.region.PlugIn(maassim.Box(1))
	// A list that is being read is shared.
	gate, arrived := make(chan struct{}), make(chan struct{}, 100)
	f.sites.Transport = func(broker.Site) http.RoundTripper {
		return roundTrip(func(r *http.Request) (*http.Response, error) {
			arrived <- struct{}{}
			<-gate
			return http.DefaultTransport.RoundTrip(r)
		})
	}
	region, err := f.sites.Region(t.Context(), f.site)
	if err != nil {
		t.Fatal(err)
	}
	first, leave := context.WithCancel(t.Context())
	gone := make(chan error, 1)
	go func() { _, err := region.Machines(first, time.Minute); gone <- err }()
	<-arrived
	leave() // the first caller goes away, and the others still get the list
	if err := <-gone; maas.ClassOf(err) != maas.Timeout {
		t.Errorf("who left: %v", err)
	}
	var all sync.WaitGroup
	for range 50 {
		all.Go(func() {
			if _, err := region.Machines(t.Context(), time.Minute); err != nil {
				t.Error(err)
			}
		})
	}
	close(gate)
	all.Wait()
	lists := func() int { return f.region.Count("list") }
	if n := lists(); n != 1 {
		t.Errorf("%d lists for 51 who ask", n)
	}
	ask := func(maxAge time.Duration, want int) {
		t.Helper()
		if _, err := region.Machines(t.Context(), maxAge); err != nil {
			t.Error(err)
		}
		if n := lists(); n != want {
			t.Errorf("%d lists, want %d", n, want)
		}
	}
	pass(900 * time.Millisecond)
	ask(0, 1)
	pass(200 * time.Millisecond)
	ask(time.Minute, 1)
	ask(0, 2)
	pass(2 * time.Second)
	f.region.Inject(maassim.Fault{Kind: maassim.Unavailable, Op: "list", Times: -1})
	for range 5 {
		if _, err := region.Machines(t.Context(), 0); maas.ClassOf(err) != maas.Unavailable {
			t.Errorf("%v", err)
		}
	}
	if n := lists(); n != 3 {
		t.Errorf("%d lists: a region in trouble is asked again and again", n)
	}
	f.region.Relent()
	pass(time.Second)
	ask(0, 4)
}

// A caller that accepts an older list spares a region that takes long for a list; any other caller
// gets a new list.
func TestARegionThatTakesLongIsAskedSeldom(t *testing.T) {
	for _, row := range []struct{ takes, rests time.Duration }{{0, time.Second}, {10 * time.Second, 50 * time.Second}, {time.Hour, 2 * time.Minute}} {
		f := newFixture(t, "3.6")
		now := time.Now()
		f.sites.Now = func() time.Time { return now }
		f.sites.Transport = func(broker.Site) http.RoundTripper {
			return roundTrip(func(r *http.Request) (*http.Response, error) {
				now = now.Add(row.takes)
				return http.DefaultTransport.RoundTrip(r)
			})
		}
		region, err := f.sites.Region(t.Context(), f.site)
		if err != nil {
			t.Fatal(err)
		}
		asked := now
		lately := func(at time.Duration, want int) {
			t.Helper()
			now = asked.Add(at)
			s, err := region.RecentMachines(t.Context())
			if n := f.region.Count("list"); err != nil || n != want || now.Sub(s.At) > max(row.rests, row.takes) {
				t.Errorf("a list takes %v: %d at %v, want %d, of %v ago, %v", row.takes, n, at, want, now.Sub(s.At), err)
			}
		}
		lately(0, 1)
		lately(row.rests-time.Millisecond, 1)
		lately(row.rests, 2)
		if _, err := region.Machines(t.Context(), 0); err != nil || f.region.Count("list") != 2 && row.takes == 0 || f.region.Count("list") != 3 && row.takes > 0 {
			t.Errorf("a list takes %v: %d, %v", row.takes, f.region.Count("list"), err)
		}
		// A failure that takes long is shared for a second nevertheless.
		now = now.Add(time.Hour)
		f.region.Inject(maassim.Fault{Kind: maassim.Unavailable, Op: "list", Times: -1})
		before := f.region.Count("list")
		for range 3 {
			if _, err := region.Machines(t.Context(), 0); maas.ClassOf(err) != maas.Unavailable {
				t.Error(err)
			}
		}
		if n := f.region.Count("list") - before; n != 1 {
			t.Errorf("a list takes %v: %d that fail", row.takes, n)
		}
	}
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func TestAMachineIsReadAsEveryVersionWritesIt(t *testing.T) {
	for _, version := range []string{"3.4", "3.5", "3.6"} {
		f := newFixture(t, version)
		region, err := f.sites.Region(t.Context(), f.site)
		if err != nil {
			t.Fatal(err)
		}
		box := maassim.Box(1)
		f.region.PlugIn(box)
		if err := f.region.BootPXE(box.BMC.Address); err != nil {
			t.Fatal(err)
		}
		f.later.Store(int64(time.Hour))
		id := f.region.Machines()[0].SystemID
		m, err := region.Machine(t.Context(), id)
		if err != nil || m.SystemID != id || m.Hostname == "" || m.Status != maas.New || len(m.Interfaces) == 0 || m.Interfaces[0].MAC == "" {
			t.Errorf("%s: %+v, %v", version, m, err)
		}
		s, err := region.Machines(t.Context(), 0)
		if same, found := s.Find(id); err != nil || !found || same.Hostname != m.Hostname {
			t.Errorf("%s: the list has %+v, %v", version, s.Machines, err)
		}
		if _, err := region.Machine(t.Context(), "zzz999"); maas.ClassOf(err) != maas.NotFound {
			t.Errorf("%s: %v", version, err)
		}
	}
}

// An image is found by the name under which MAAS lists it, whichever way the profile names it.
func TestAnUploadedImageIsFoundUnderItsListedName(t *testing.T) {
	for _, version := range []string{"3.4", "3.5", "3.6", "3.7.3"} {
		for _, series := range []string{"custom/golden", "gpuaas-noble", "custom/gpuaas-noble"} {
			f := newFixture(t, version)
			f.region.Images = append(f.region.Images, maassim.Image{Name: "custom/golden", Base: "ubuntu/jammy"})
			f.profiles[0].Policy.DistroSeries = series
			if c := f.report(t)["boot_image"]; c.Verdict == maas.Fail || c.Verdict == "" {
				t.Errorf("MAAS %s, %s: %+v", version, series, c)
			}
		}
	}
}
