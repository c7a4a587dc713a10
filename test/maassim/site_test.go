package maassim_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/canonical/gomaasclient/entity"

	"github.com/hostler/hostler/test/maassim"
)

// What a look at a site asks for, by the real client.
func TestASiteIsLookedAt(t *testing.T) {
	r := &maassim.Region{
		Version: "3.5", OAuthNow: wallClock,
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
	if len(resources) != 3 || resources[1].Name != "custom/golden" || resources[1].BaseImage != "ubuntu/jammy" {
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

	// What is wrong with a site shows.
	r.SetRack(false)
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

// What MAAS refuses, with its own words, and that nothing is changed by it.
func TestRefusals(t *testing.T) {
	r, _, _ := start(t, "3.6")
	box := maassim.Box(1)
	ready := r.Arrange(maassim.Arranged{Hostname: "m2", Hardware: box, Status: maassim.Ready})
	annes := r.Arrange(maassim.Arranged{Hostname: "m3", Hardware: maassim.Box(2), Status: maassim.Allocated, Owner: "anne"})
	bare := maassim.Box(3)
	bare.NICs, bare.Disks = bare.NICs[:1], nil
	diskless := r.Arrange(maassim.Arranged{Hostname: "m4", Hardware: bare, Status: maassim.Ready})
	var body struct {
		Interfaces []struct{ ID int } `json:"interface_set"`
		Disks      []struct{ ID int } `json:"blockdevice_set"`
	}
	read(t, r, "machines/"+ready+"/", &body)
	nic := "nodes/" + ready + "/interfaces/1/"
	for _, tc := range []struct {
		path string
		form string
		code int
		want string
	}{
		{"machines/", "hostname=m2&power_type=ipmi&power_parameters_power_address=10.0.0.9", 400, `{"hostname":["Node with this Hostname already exists."]}`},
		{"machines/", "hostname=a_b&power_type=ipmi&power_parameters_power_address=10.0.0.9", 400, `"hostname"`},
		{"machines/", "power_type=manual&architecture=amd64/generic", 400, `{"power_type":["Can't set power type to manual without network interfaces"]}`},
		{"machines/", "power_type=ipmi&power_parameters_power_address=10.0.0.9&mac_addresses=" + box.NICs[0].MAC, 400, `{"mac_addresses":["MAC address ` + box.NICs[0].MAC + ` already in use on m2."]}`},
		{"machines/", "power_type=ipmi&power_parameters_power_address=10.0.0.9&mac_addresses=no", 400, `"mac_addresses"`},
		{"machines/", "power_type=ipmi&power_parameters_power_address=10.0.0.9&architecture=x", 400, `{"architecture":["'x' is not a valid architecture.`},
		{"machines/", "power_type=ipmi&power_parameters_power_address=10.0.0.9&pool=x", 400, `"pool"`},
		{"machines/", "power_type=steam&mac_addresses=02:00:00:00:00:09", 400, `"power_type"`},
		{"machines/", "power_type=ipmi", 400, `"power_parameters"`},
		{"machines/?op=allocate", "system_id=" + annes, 409, "No machine with system ID " + annes + " available."},
		{"machines/?op=allocate", "name=none", 409, "No available machine matches constraints: name=none"},
		{"machines/?op=release", "machines=" + ready + "&machines=zzzzzz", 400, "Unknown machine(s): zzzzzz."},
		{"machines/" + ready + "/?op=deploy", "distro_series=x", 400, `{"distro_series":["'x' is not a valid distro_series.  It should be one of: `},
		{"machines/" + ready + "/?op=deploy", "enable_hw_sync=often", 400, "Invalid enable_hw_sync: Value should be 'true' or 'false'"},
		{"machines/" + ready + "/?op=deploy", "install_rackd=true", 400, "rack controller"},
		{"machines/" + diskless + "/?op=deploy", "", 400, `{"storage":["Mount the root '/' filesystem to be able to deploy this node."]}`},
		{"machines/" + diskless + "/?op=set_storage_layout", "storage_layout=flat", 400, "storage devices"},
		{"machines/" + ready + "/?op=set_storage_layout", "", 400, `{"storage_layout":["This field is required."]}`},
		{"machines/" + ready + "/?op=set_storage_layout", "storage_layout=heap", 400, "'heap' is not a valid storage layout."},
		{"machines/" + ready + "/?op=set_workload_annotations", "run=1", 409, ""},
		{"machines/" + annes + "/?op=set_workload_annotations", "run=1", 409, ""},
		{"machines/" + annes + "/?op=mark_broken", "", 403, ""},
		{"nodes/" + ready + "/blockdevices/99/?op=set_boot_disk", "", 404, ""},
		{nic + "?op=link_subnet", "mode=AUTO&subnet=999", 400, `{"subnet":["None found with id=999.","This field is required."]}`},
		{nic + "?op=link_subnet", "mode=AUTO", 400, `{"subnet":["This field is required."]}`},
		{nic + "?op=link_subnet", "mode=STATIC&subnet=1&ip_address=10.99.0.1", 400, `{"ip_address":["IP address is not in the given subnet '10.10.0.0/24'."]}`},
		{nic + "?op=link_subnet", "mode=MAGIC&subnet=1", 400, `"mode"`},
		{nic + "?op=unlink_subnet", "id=999", 400, `"id"`},
		{"nodes/" + ready + "/interfaces/99/?op=link_subnet", "mode=AUTO&subnet=1", 404, ""},
	} {
		form, err := url.ParseQuery(tc.form)
		if err != nil {
			t.Fatal(err)
		}
		before := r.Machines()
		res, got := send(t, r, r.APIKey(), http.MethodPost, tc.path, form)
		if res.StatusCode != tc.code || !strings.Contains(string(got), tc.want) {
			t.Errorf("%s %s: %d %s, want %d %s", tc.path, tc.form, res.StatusCode, got, tc.code, tc.want)
		}
		if same(t, before) != same(t, r.Machines()) {
			t.Errorf("%s %s changed something", tc.path, tc.form)
		}
	}
}

func same(t *testing.T, v any) string {
	t.Helper()
	raw, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// Links and layouts are changed while the machine is prepared, and an AUTO link
// has its address from the deployment to the release.
func TestAMachineIsPrepared(t *testing.T) {
	r, clock, c := start(t, "3.6")
	_, m := enroll(t, r, clock, c, 1)
	nic, second := m.InterfaceSet[0], m.InterfaceSet[1]
	if len(nic.Links) != 1 || nic.Links[0].Mode != "auto" || len(second.Links) != 1 || second.Links[0].Mode != "link_up" {
		t.Fatalf("%+v, %+v", nic.Links, second.Links)
	}
	if _, err := c.NetworkInterface.UnlinkSubnet(m.SystemID, nic.ID, nic.Links[0].ID); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Machine.Deploy(m.SystemID, nil); err == nil || !strings.Contains(err.Error(), "Node must be configured to use a network") {
		t.Fatalf("deployed without a network: %v", err)
	}
	if got := status(t, r, m.SystemID); got != maassim.Ready {
		t.Fatalf("in %v by a deployment that was refused", got)
	}
	linked, err := c.NetworkInterface.LinkSubnet(m.SystemID, second.ID, &entity.NetworkInterfaceLinkParams{Mode: "STATIC", Subnet: 1, IPAddress: "10.10.0.2"})
	if err != nil || len(linked.Links) != 1 || linked.Links[0].IPAddress != "10.10.0.2" {
		t.Fatalf("%+v, %v", linked, err)
	}
	if _, err = c.NetworkInterface.LinkSubnet(m.SystemID, nic.ID, &entity.NetworkInterfaceLinkParams{Mode: "AUTO", Subnet: 1}); err != nil {
		t.Fatal(err)
	}
	layout := func(name string) {
		send(t, r, r.APIKey(), http.MethodPost, "machines/"+m.SystemID+"/?op=set_storage_layout", url.Values{"storage_layout": {name}})
	}
	layout("blank")
	if _, err := c.Machine.Deploy(m.SystemID, nil); err == nil || !strings.Contains(err.Error(), "Mount the root") {
		t.Fatalf("deployed without a root: %v", err)
	}
	boss := m.PhysicalBlockDeviceSet[2]
	if err := c.BlockDevice.SetBootDisk(m.SystemID, boss.ID); err != nil {
		t.Fatal(err)
	}
	layout("flat")
	if d, err := c.BlockDevice.Get(m.SystemID, boss.ID); err != nil || len(d.Partitions) != 1 || d.Partitions[0].FileSystem.MountPoint != "/" {
		t.Fatalf("%+v, %v", d, err)
	}
	if _, err := c.Machine.Deploy(m.SystemID, &entity.MachineDeployParams{DistroSeries: "custom/golden"}); err != nil {
		t.Fatal(err)
	}
	clock.pass(maassim.Usual.Address)
	if m, err = c.Machine.Get(m.SystemID); err != nil || len(m.IPAddresses) != 2 || m.OSystem != "custom" || m.IPAddresses[0].Equal(m.IPAddresses[1]) {
		t.Fatalf("%v, %s, %v", m.IPAddresses, m.OSystem, err)
	}
	if _, err := c.NetworkInterface.Disconnect(m.SystemID, nic.ID); err == nil {
		t.Error("rewired while it is deployed")
	}
	if err := c.Machines.Release([]string{m.SystemID}, "done"); err != nil {
		t.Fatal(err)
	}
	clock.pass(time.Minute)
	if m, err = c.Machine.Get(m.SystemID); err != nil || m.Status != 4 || len(m.IPAddresses) != 1 {
		t.Errorf("%v, %v, %v", m.Status, m.IPAddresses, err)
	}
}

// What is done to a machine's power, and what a wrong password does to it.
func TestPower(t *testing.T) {
	r, clock, c := start(t, "3.6")
	box, m := enroll(t, r, clock, c, 1)
	state := func(want string) {
		t.Helper()
		if s, err := c.Machine.GetPowerState(m.SystemID); err != nil || s.State != want {
			t.Errorf("power %v, %v, want %s", s, err, want)
		}
	}
	state("off")
	if _, err := c.Machine.PowerOn(m.SystemID, nil); err == nil || !strings.Contains(err.Error(), "it hasn't been allocated") {
		t.Errorf("%v", err)
	}
	if _, err := c.Machines.Allocate(&entity.MachineAllocateParams{SystemID: m.SystemID}); err != nil {
		t.Fatal(err)
	}
	if on, err := c.Machine.PowerOn(m.SystemID, nil); err != nil || on.StatusName != "Deploying" {
		t.Errorf("power_on of an allocated machine: %v, %v", on, err)
	}
	clock.pass(time.Hour)
	state("on")
	if _, err := c.Machine.PowerOn(m.SystemID, nil); err != nil || r.Happened(box.Serial, "hard reset") != 1 {
		t.Errorf("%v, %d resets", err, r.Happened(box.Serial, "hard reset"))
	}
	if seen, _ := r.Machine(m.SystemID); seen.HostUp {
		t.Error("up right after a reset")
	}
	clock.pass(maassim.Usual.PhoneHome)
	if seen, _ := r.Machine(m.SystemID); !seen.HostUp {
		t.Error("not up again")
	}
	if _, err := c.Machine.Update(m.SystemID, &entity.MachineUpdateParams{PowerType: "ipmi", PowerParametersSkipCheck: true}, map[string]any{"power_parameters_power_pass": "wrong"}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Machine.GetPowerState(m.SystemID); err == nil || !strings.Contains(err.Error(), "503") {
		t.Errorf("%v", err)
	}
	if m, _ := r.Machine(m.SystemID); m.PowerState != "error" || !m.On {
		t.Errorf("%s, on %v", m.PowerState, m.On)
	}
	if _, err := c.Machine.Update(m.SystemID, &entity.MachineUpdateParams{}, map[string]any{"power_parameters_power_pass": box.BMC.Password}); err != nil {
		t.Fatal(err)
	}
	state("on")
	all, err := c.Machine.GetPowerParameters(m.SystemID)
	if err != nil || all["power_address"] != box.BMC.Address || all["power_pass"] != box.BMC.Password {
		t.Errorf("%v, %v", all, err)
	}
	manual, err := c.Machines.Create(&entity.MachineCreateParams{PowerType: "manual", Architecture: "amd64/generic", MACAddresses: []string{"02:00:00:00:00:09"}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if off, err := c.Machine.PowerOff(manual.SystemID, nil); err != nil || off.SystemID != "" {
		t.Errorf("power_off of a manual machine: %v, %v", off, err)
	}
}

// A machine goes into rescue mode and out of it, tests, locks; and erases its
// disks on the way back.
func TestRescueTestLockAndErase(t *testing.T) {
	r, clock, c := start(t, "3.4")
	id := r.Arrange(maassim.Arranged{Hardware: maassim.Box(1), Status: maassim.Deployed, Owner: "admin", PowerOn: true})
	is := func(want maassim.Status) {
		t.Helper()
		if got := status(t, r, id); got != want {
			t.Errorf("in %v, want %v", got, want)
		}
	}
	must := func(_ *entity.Machine, err error) {
		t.Helper()
		if err != nil {
			t.Error(err)
		}
	}
	must(c.Machine.RescueMode(id))
	is(maassim.EnteringRescueMode)
	clock.pass(maassim.Usual.Rescue)
	is(maassim.RescueMode)
	must(c.Machine.ExitRescueMode(id))
	is(maassim.Deployed)
	send(t, r, r.APIKey(), http.MethodPost, "machines/"+id+"/?op=test", nil)
	is(maassim.Testing)
	clock.pass(maassim.Usual.Test)
	is(maassim.Deployed)
	must(c.Machine.Lock(id, ""))
	if _, err := c.Machine.Release(id, &entity.MachineReleaseParams{}); err == nil {
		t.Error("a locked machine was released")
	}
	must(c.Machine.Unlock(id, ""))
	must(c.Machine.Release(id, &entity.MachineReleaseParams{Erase: true}))
	is(maassim.DiskErasing)
	clock.pass(maassim.Usual.Erase)
	is(maassim.Releasing)
	must(c.Machine.Release(id, &entity.MachineReleaseParams{Erase: true}))
	clock.pass(maassim.Usual.PowerOff)
	is(maassim.Ready)
	must(c.Machine.Release(id, &entity.MachineReleaseParams{Erase: true}))
	is(maassim.Ready)
	if n := r.Happened(id, "erase"); n != 1 {
		t.Errorf("erased %d times", n)
	}
}

// Networks are made for machines: a /31 of a card's VLAN, linked by an address that
// is given; and a subnet that is used up ends a deployment.
func TestNetworksAreMade(t *testing.T) {
	r, clock, c := start(t, "3.6")
	_, m := enroll(t, r, clock, c, 1)
	second := m.InterfaceSet[1]
	fabric, err := c.Fabrics.Create(&entity.FabricParams{Name: "roce"})
	if err != nil || len(fabric.VLANs) != 1 || fabric.VLANs[0].VID != 0 {
		t.Fatalf("%+v, %v", fabric, err)
	}
	vlan, err := c.VLANs.Create(fabric.ID, &entity.VLANParams{VID: 7})
	if err != nil || vlan.VID != 7 || vlan.DHCPOn {
		t.Fatalf("%+v, %v", vlan, err)
	}
	far, err := c.Subnets.Create(&entity.SubnetParams{CIDR: "10.99.0.0/31", VLAN: fmt.Sprint(vlan.ID)})
	if err != nil || far.VLAN.ID != vlan.ID {
		t.Fatalf("%+v, %v", far, err)
	}
	near, err := c.Subnets.Create(&entity.SubnetParams{CIDR: "10.98.0.0/31", VLAN: fmt.Sprint(second.VLAN.ID)})
	if err != nil {
		t.Fatal(err)
	}
	static := func(subnet int, address string, force bool) error {
		_, err := c.NetworkInterface.LinkSubnet(m.SystemID, second.ID, &entity.NetworkInterfaceLinkParams{Mode: "STATIC", Subnet: subnet, IPAddress: address, Force: force})
		return err
	}
	if static(far.ID, "10.99.0.1", false) == nil {
		t.Error("a card was linked into another VLAN")
	}
	for _, address := range []string{"10.98.0.0", "10.98.0.1"} {
		if err := static(near.ID, address, true); err != nil {
			t.Errorf("%s: %v", address, err)
		}
	}
	if err := static(near.ID, "10.98.0.1", false); err == nil || !strings.Contains(err.Error(), "already in use") {
		t.Errorf("%v", err)
	}
	if err := static(far.ID, "10.99.0.1", true); err != nil {
		t.Errorf("not even by force: %v", err)
	}
	for _, cidr := range []string{"", "x", "10.98.0.0/31"} {
		if _, err := c.Subnets.Create(&entity.SubnetParams{CIDR: cidr}); err == nil || !strings.Contains(err.Error(), "cidr") {
			t.Errorf("%q: %v", cidr, err)
		}
	}
	if _, err := c.Subnets.Create(&entity.SubnetParams{CIDR: "10.97.0.0/24", VLAN: "99"}); err == nil {
		t.Error("a subnet in a VLAN that there is none")
	}
	if _, err := c.NetworkInterface.LinkSubnet(m.SystemID, second.ID, &entity.NetworkInterfaceLinkParams{Mode: "AUTO", Subnet: near.ID, Force: true}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Machine.Deploy(m.SystemID, nil); err != nil {
		t.Fatal(err)
	}
	clock.pass(time.Hour)
	if m, err = c.Machine.Get(m.SystemID); err != nil || m.StatusName != "Failed deployment" {
		t.Errorf("in %s without an address, %v", m.StatusName, err)
	}
}

// A machine that somebody wants to log in to after commissioning stays on.
func TestCommissioningLeavesTheMachineOnForSSH(t *testing.T) {
	for _, ssh := range []bool{true, false} {
		r, clock, c := start(t, "3.6")
		id := r.Arrange(maassim.Arranged{Hardware: maassim.Box(1), Status: maassim.New, Uncommissioned: true})
		if _, err := c.Machine.Commission(id, &entity.MachineCommissionParams{EnableSSH: ssh}); err != nil {
			t.Fatal(err)
		}
		clock.pass(time.Hour)
		if m, _ := r.Machine(id); m.Status != maassim.Ready || m.On != ssh {
			t.Errorf("%v, on %v", m.Status, m.On)
		}
	}
}

// Answers are dated by the region's wall clock, which tells how far off it is.
func TestAnswersAreDated(t *testing.T) {
	off := newClock()
	r := &maassim.Region{OAuthNow: off.Now}
	res, _ := send(t, r, "", http.MethodGet, "version/", nil)
	if date, err := http.ParseTime(res.Header.Get("Date")); err != nil || !date.Equal(off.Now()) {
		t.Errorf("%v, %v", date, err)
	}
}
