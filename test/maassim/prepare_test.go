package maassim_test

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/canonical/gomaasclient/entity"

	"github.com/hostler/hostler/test/maassim"
)

// Links and layouts may be changed while the machine is prepared. An AUTO link has its address from
// the deployment to the release.
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

// Networks are created for machines: a /31 in a card's VLAN, linked by a given address. A
// deployment fails if its subnet has no free address.
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
