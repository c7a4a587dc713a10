package maassim_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/canonical/gomaasclient/entity"

	"github.com/hostler/hostler/test/maassim"
)

// The calls of a look at a site, made by the real client.
func TestASiteIsLookedAt(t *testing.T) {
	r := &maassim.Region{
		Version: "3.4", OAuthNow: wallClock,
		Networks: []maassim.Network{
			{CIDR: "10.46.0.0/24", VID: 46, Gateway: "10.46.0.1", DHCP: true},
			{CIDR: "10.47.0.0/24", VID: 47},
			{Fabric: "roce", CIDR: "10.99.0.0/16"},
		},
		Images:  []maassim.Image{{Name: "ubuntu/jammy"}, {Name: "custom/golden", Base: "ubuntu/jammy"}, {Name: "ubuntu/noble", Unsynced: true}},
		Scripts: []maassim.Script{{Name: "smartctl-validate", Testing: true, Default: true}, {Name: "50-site-firmware", Version: 3, Comment: "v3"}},
	}
	c := dial(t, r, r.APIKey())
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	racks, err := c.RackControllers.Get(&entity.RackControllersGetParams{})
	must(err)
	service := func(name string) string {
		i := slices.IndexFunc(racks[0].ServiceSet, func(s entity.MachineServiceSet) bool { return s.Name == name })
		return racks[0].ServiceSet[i].Status
	}
	if len(racks) != 1 || service("rackd") != "running" || service("dhcpd") != "running" {
		t.Errorf("%+v", racks)
	}
	fabrics, err := c.Fabrics.Get()
	must(err)
	if len(fabrics) != 2 || fabrics[0].Name != "fabric-0" || len(fabrics[0].VLANs) != 2 || fabrics[1].Name != "roce" {
		t.Fatalf("%+v", fabrics)
	}
	vlans, err := c.VLANs.Get(fabrics[0].ID)
	must(err)
	vlan, err := c.VLAN.Get(fabrics[0].ID, 46)
	must(err)
	if len(vlans) != 2 || !vlans[0].DHCPOn || vlans[1].DHCPOn || vlan.ID != vlans[0].ID {
		t.Errorf("%+v, %+v", vlans, vlan)
	}
	subnets, err := c.Subnets.Get()
	must(err)
	subnet, err := c.Subnet.Get(subnets[2].ID)
	must(err)
	if len(subnets) != 3 || subnet.CIDR != "10.99.0.0/16" || subnet.VLAN.Fabric != "roce" {
		t.Errorf("%+v", subnet)
	}
	resources, err := c.BootResources.Get(&entity.BootResourcesReadParams{})
	must(err)
	if len(resources) != 7 || resources[1].Name != "ubuntu/jammy" || resources[1].Architecture != "amd64/generic" || resources[6].Type != "Uploaded" {
		t.Errorf("%+v", resources)
	}
	var images struct {
		Images []struct {
			Name      string
			Subarches []string
		}
		Connected bool
		Status    string
	}
	read(t, r, "rackcontrollers/"+racks[0].SystemID+"/?op=list_boot_images", &images)
	if len(images.Images) != 2 || !images.Connected || images.Status != "out-of-sync" {
		t.Errorf("%+v", images)
	}
	scripts, err := c.NodeScripts.Get(&entity.NodeScriptReadParams{Type: "commissioning"})
	must(err)
	if len(scripts) != 1 || scripts[0].Name != "50-site-firmware" || len(scripts[0].History) != 3 || scripts[0].History[0].Comment != "v3" {
		t.Errorf("%+v", scripts)
	}
	script, err := c.NodeScript.Get("50-site-firmware", false)
	must(err)
	if script.ID != scripts[0].ID {
		t.Errorf("%+v", script)
	}
	var names []string
	if read(t, r, "commissioning-scripts/", &names); !slices.Equal(names, []string{"50-site-firmware"}) {
		t.Errorf("%v", names)
	}
	must(c.MAASServer.Post("hardware_sync_interval", "1h 30m"))
	interval, err := c.MAASServer.Get("hardware_sync_interval")
	must(err)
	if string(interval) != `"1h 30m"` {
		t.Errorf("interval %s", interval)
	}
	if c.MAASServer.Post("hardware_sync_interval", "often") == nil {
		t.Error("an interval that is none was taken")
	}
	if _, err := c.MAASServer.Get("no_such_thing"); err == nil || !strings.Contains(err.Error(), "400") {
		t.Errorf("%v", err)
	}
	notifications, err := c.Notifications.Get()
	must(err)
	if len(notifications) != 0 {
		t.Errorf("%+v", notifications)
	}

	// The answers show a site's faults, except in the list of images of a later region.
	r.SetRack(false)
	if read(t, r, "rackcontrollers/rack01/?op=list_boot_images", &images); images.Connected || images.Status != "unknown" {
		t.Errorf("%+v", images)
	}
	later := &maassim.Region{Version: "3.5", OAuthNow: wallClock, Images: r.Images}
	later.SetRack(false)
	if read(t, later, "rackcontrollers/rack01/?op=list_boot_images", &images); !images.Connected || images.Status != "synced" || len(images.Images) != 3 {
		t.Errorf("%+v", images)
	}
	r.SetDHCP(false)
	r.SetImages()
	r.SetScripts()
	if racks, err = c.RackControllers.Get(&entity.RackControllersGetParams{}); err != nil || service("rackd") != "dead" {
		t.Errorf("%v, %+v", err, racks)
	}
	if vlan, err = c.VLAN.Get(fabrics[0].ID, 46); err != nil || vlan.DHCPOn {
		t.Errorf("%v, %+v", err, vlan)
	}
	if notifications, err = c.Notifications.Get(); err != nil || len(notifications) != 2 {
		t.Errorf("%v, %+v", err, notifications)
	}
	if resources, err = c.BootResources.Get(&entity.BootResourcesReadParams{}); err != nil || len(resources) != 0 {
		t.Errorf("%v, %+v", err, resources)
	}
	for _, path := range []string{"subnets/9/", "fabrics/9/", "fabrics/9/vlans/", "fabrics/0/vlans/9/", "rackcontrollers/zzzzzz/", "scripts/none"} {
		if res, body := send(t, r, r.APIKey(), http.MethodGet, path, nil); res.StatusCode != http.StatusNotFound || !strings.HasSuffix(string(body), "matches the given query.") {
			t.Errorf("%s: %d %s", path, res.StatusCode, body)
		}
	}
}
