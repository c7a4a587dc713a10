package adminapi_test

import (
	"fmt"
	"net/http"
	"reflect"
	"strings"
	"testing"

	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/server/servertest"
	"github.com/hostler/hostler/taskcatalog"
)

func TestACleanPolicyIsASites(t *testing.T) {
	b := servertest.Start(t)
	b.OnRecord(t, "dc1")
	want := taskcatalog.CleanPolicy{KnownUsers: []string{"backup"}, KnownPorts: []string{"tcp/9100"}, Scratch: []string{"/share*", "/data/scratch"}}
	set := servertest.Must[api.CleanPolicy](t, b, http.MethodPut, "/clean-policy", api.CleanPolicyPut{Site: "dc1", Policy: want, Reason: "node exporter"})
	if set.UpdatedBy != "admin" || set.UpdatedAt.IsZero() {
		t.Errorf("it was set by %q at %v", set.UpdatedBy, set.UpdatedAt)
	}
	got := servertest.Must[api.CleanPolicy](t, b, http.MethodGet, "/clean-policy?site=dc1", nil)
	if len(got.Policy.Scratch) != 2 || got.Policy.KnownUsers[0] != "backup" {
		t.Errorf("it is %+v", got.Policy)
	}
	if other := servertest.Must[api.CleanPolicy](t, b, http.MethodGet, "/clean-policy?site=dc2", nil); len(other.Policy.Scratch) != 0 {
		t.Errorf("another site has it too: %+v", other.Policy)
	}
	for name, p := range map[string]taskcatalog.CleanPolicy{
		"the root as scratch":       {Scratch: []string{"/"}},
		"everything as scratch":     {Scratch: []string{"/*"}},
		"the system as scratch":     {Scratch: []string{"/usr/share"}},
		"what a node would refuse":  {Scratch: []string{"/v*"}},
		"a way up as scratch":       {Scratch: []string{"/share/../etc"}},
		"a relative path":           {Scratch: []string{"share"}},
		"a port without a protocol": {KnownPorts: []string{"22"}},
		"a user with a newline":     {KnownUsers: []string{"a\nb"}},
		"an empty unit":             {KnownUnits: []string{""}},
	} {
		if a := b.Ask(t, b.Token, http.MethodPut, "/clean-policy", api.CleanPolicyPut{Site: "dc1", Policy: p}); a.Code() != "clean_policy_invalid" {
			t.Errorf("%s: %d %s", name, a.Status, a.Body)
		}
	}
}

func TestAGPUPolicyIsJudgedBeforeItIsKept(t *testing.T) {
	b := servertest.Start(t)
	b.OnRecord(t, "dc1")
	want := taskcatalog.GPUScrubPolicy{
		MinCoveragePercent: 99.5, MaxUncoveredBytes: 1 << 30, RequireReset: true, HolderGraceSeconds: 300, FabricWaitSeconds: 3600,
		StopServices: []string{"site-exporter.service", "metrics@gpu0.service"}, Drivers: []string{"550.90.07", "6.8.5-2041575.22.04"},
	}
	put := func(p taskcatalog.GPUScrubPolicy) servertest.Answer {
		return b.Ask(t, b.Token, http.MethodPut, "/clean-policy", api.CleanPolicyPut{Site: "dc1", Policy: taskcatalog.CleanPolicy{GPU: &p}})
	}
	if a := put(want); a.Status != http.StatusOK {
		t.Fatalf("%d %s", a.Status, a.Body)
	}
	for name, p := range map[string]taskcatalog.GPUScrubPolicy{
		"a path as service":            {StopServices: []string{"/etc/systemd/system/x.service"}},
		"a mount as service":           {StopServices: []string{"home.mount"}},
		"an option as service":         {StopServices: []string{"--now.service"}},
		"a service of two lines":       {StopServices: []string{"a\nb.service"}},
		"a service with an escape":     {StopServices: []string{"a\x1b[2J.service"}},
		"an empty service":             {StopServices: []string{""}},
		"a pattern of services":        {StopServices: []string{"*.service"}},
		"the agent itself":             {StopServices: []string{"hostler-agent.service"}},
		"the fabric manager":           {StopServices: []string{"nvidia-fabricmanager.service"}},
		"NVLink 5's subnet manager":    {StopServices: []string{"nvidia-nvlsm.service"}},
		"the same by its program":      {StopServices: []string{"nvlsm.service"}},
		"systemd's own":                {StopServices: []string{"systemd-journald.service"}},
		"the bus":                      {StopServices: []string{"dbus.service"}},
		"too many services":            {StopServices: strings.Split(strings.Repeat("a.service ", 65)+"b.service", " ")},
		"a driver with a space":        {Drivers: []string{"550 90"}},
		"an empty driver":              {Drivers: []string{""}},
		"a driver with markup":         {Drivers: []string{"<b>"}},
		"less coverage than none":      {MinCoveragePercent: -1},
		"more coverage than all":       {MinCoveragePercent: 100.1},
		"coverage that says nothing":   {MinCoveragePercent: 0.1},
		"no bound on what is left out": {MaxUncoveredBytes: 1 << 40},
		"a grace of less than nothing": {HolderGraceSeconds: -1},
		"a grace of an hour":           {HolderGraceSeconds: 3600},
		"a fabric awaited for ever":    {FabricWaitSeconds: 1 << 30},
	} {
		if a := put(p); a.Code() != "clean_policy_invalid" && a.Status != http.StatusUnprocessableEntity {
			t.Errorf("%s: %d %s", name, a.Status, a.Body)
		}
	}
	got := servertest.Must[api.CleanPolicy](t, b, http.MethodGet, "/clean-policy?site=dc1", nil)
	if got.Policy.GPU == nil || !reflect.DeepEqual(*got.Policy.GPU, want) {
		t.Errorf("what was refused changed it: %s", fmt.Sprint(got.Policy.GPU))
	}
}
