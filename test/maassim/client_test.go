package maassim_test

import (
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/canonical/gomaasclient/client"
	"github.com/canonical/gomaasclient/entity"
	"github.com/canonical/gomaasclient/entity/node"

	"github.com/hostler/hostler/test/maassim"
)

// clock is a clock that tests move.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func newClock() *clock { return &clock{now: time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC)} }

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) pass(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// start returns a region of the version with a simulated clock, and a client.
func start(t *testing.T, version string) (*maassim.Region, *clock, *client.Client) {
	t.Helper()
	time := newClock()
	r := &maassim.Region{Version: version, Seed: 1, Now: time.Now, OAuthNow: wallClock}
	return r, time, dial(t, r, r.APIKey())
}

var wallClock = time.Now // the clock that the client signs with

func dial(t *testing.T, r *maassim.Region, key string) *client.Client {
	t.Helper()
	c, err := client.GetClientWithTransport(maassim.URL, key, "2.0", r.RoundTripper())
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// enroll brings a box to Ready, as a client would.
func enroll(t *testing.T, r *maassim.Region, clock *clock, c *client.Client, n int) (maassim.Hardware, *entity.Machine) {
	t.Helper()
	box := maassim.Box(n)
	r.PlugIn(box)
	m, err := c.Machines.Create(&entity.MachineCreateParams{Hostname: "node-" + box.Serial, PowerType: "ipmi"}, map[string]any{
		"power_parameters_power_address": box.BMC.Address, "power_parameters_power_user": box.BMC.User, "power_parameters_power_pass": box.BMC.Password,
	})
	if err != nil {
		t.Fatal(err)
	}
	clock.pass(time.Hour)
	if m, err = c.Machine.Get(m.SystemID); err != nil {
		t.Fatal(err)
	}
	return box, m
}

func TestTheRealClientTakesAMachineThroughItsLife(t *testing.T) {
	for _, version := range []string{"3.4", "3.5", "3.6"} {
		for name, over := range map[string]func(*testing.T, *maassim.Region) *client.Client{
			"in process": func(t *testing.T, r *maassim.Region) *client.Client { return dial(t, r, r.APIKey()) },
			"over TCP": func(t *testing.T, r *maassim.Region) *client.Client {
				server := httptest.NewServer(r)
				t.Cleanup(server.Close)
				c, err := client.GetClient(server.URL+"/MAAS", r.APIKey(), "2.0")
				if err != nil {
					t.Fatal(err)
				}
				return c
			},
		} {
			t.Run(version+" "+name, func(t *testing.T) {
				r, clock, _ := start(t, version)
				life(t, r, clock, over(t, r))
			})
		}
	}
}

func life(t *testing.T, r *maassim.Region, clock *clock, c *client.Client) {
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	box := maassim.Box(1)
	r.PlugIn(box)
	me, err := c.Users.Whoami()
	must(err)
	if !me.IsSuperUser {
		t.Fatal("the key is no administrator's")
	}
	m, err := c.Machines.Create(&entity.MachineCreateParams{Hostname: "node-1", PowerType: "ipmi"}, map[string]any{
		"power_parameters_power_address": box.BMC.Address, "power_parameters_power_user": box.BMC.User, "power_parameters_power_pass": box.BMC.Password,
	})
	must(err)
	is := func(want node.Status, owner string) {
		t.Helper()
		if m, err = c.Machine.Get(m.SystemID); err != nil {
			t.Fatal(err)
		}
		if m.Status != want || m.Owner != owner {
			t.Fatalf("status %v of %q, want %v of %q", m.Status, m.Owner, want, owner)
		}
	}
	is(node.StatusCommissioning, "admin")
	clock.pass(maassim.Usual.Commission)
	is(node.StatusTesting, "admin")
	clock.pass(maassim.Usual.Test)
	is(node.StatusReady, "")

	boss := slices.IndexFunc(m.PhysicalBlockDeviceSet, func(d entity.BlockDevice) bool { return d.Model == "DELLBOSS VD" })
	must(c.BlockDevice.SetBootDisk(m.SystemID, m.PhysicalBlockDeviceSet[boss].ID))
	is(node.StatusReady, "")
	if m.BootDisk.Serial != box.Disks[2].Serial {
		t.Fatalf("boots from %s", m.BootDisk.Serial)
	}
	_, err = c.Machines.Allocate(&entity.MachineAllocateParams{SystemID: m.SystemID})
	must(err)
	is(node.StatusAllocated, "admin")
	_, err = c.Machine.SetWorkloadAnnotations(m.SystemID, map[string]string{"run": "r-1"})
	must(err)
	_, err = c.Machine.Deploy(m.SystemID, &entity.MachineDeployParams{DistroSeries: "jammy", EnableHwSync: true, UserData: "I2Nsb3VkLWNvbmZpZwo="})
	must(err)
	is(node.StatusDeploying, "admin")
	if token, err := c.Machine.GetToken(m.SystemID); err != nil || token.TokenKey != "" {
		t.Fatalf("a token before the deployment was rendered: %v, %v", token, err)
	}
	clock.pass(maassim.Usual.Token)
	token, err := c.Machine.GetToken(m.SystemID)
	must(err)
	if len(token.TokenKey) != 18 || len(token.TokenSecret) != 32 || len(token.ConsumerKey) != 18 {
		t.Fatalf("token of lengths %d, %d, %d", len(token.TokenKey), len(token.TokenSecret), len(token.ConsumerKey))
	}
	clock.pass(maassim.Usual.Deploy)
	is(node.StatusDeployed, "admin")
	first := m.HwLastSync
	if m.HwSyncInterval != 900 || len(m.IPAddresses) != 1 || m.WorkloadAnnotations["run"] != "r-1" {
		t.Fatalf("interval %d, addresses %v, annotations %v", m.HwSyncInterval, m.IPAddresses, m.WorkloadAnnotations)
	}
	clock.pass(15 * time.Minute)
	is(node.StatusDeployed, "admin")
	if !time.Time(m.HwLastSync).After(time.Time(first)) {
		t.Fatalf("last_sync stayed at %v", m.HwLastSync)
	}
	if seen, _ := r.Machine(m.SystemID); !seen.HostUp || string(seen.UserData) != "#cloud-config\n" {
		t.Fatalf("up %v with user-data %q", seen.HostUp, seen.UserData)
	}
	_, err = c.Machine.Release(m.SystemID, &entity.MachineReleaseParams{})
	must(err)
	is(node.StatusReleasing, "admin")
	clock.pass(maassim.Usual.PowerOff)
	is(node.StatusReady, "")
	if len(m.WorkloadAnnotations) != 0 || len(m.IPAddresses) != 0 || m.OSystem != "" || m.EnableHwSync {
		t.Fatalf("left behind: %v, %v, %q, %v", m.WorkloadAnnotations, m.IPAddresses, m.OSystem, m.EnableHwSync)
	}
	if token, err := c.Machine.GetToken(m.SystemID); err != nil || token.TokenKey != "" {
		t.Fatalf("the token outlived the owner: %v", err)
	}
	if n := r.Happened(box.Serial, "deploy"); n != 1 {
		t.Fatalf("%d deployments", n)
	}
}
