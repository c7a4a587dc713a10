package maassim_test

import (
	"strings"
	"testing"
	"time"

	"github.com/canonical/gomaasclient/entity"

	"github.com/hostler/hostler/test/maassim"
)

// Unknown hardware that boots from the network appears as New. Under any other condition no further
// machine appears.
func TestUnknownHardwareIsDiscovered(t *testing.T) {
	r, clock, c := start(t, "3.6")
	box, deaf := maassim.Box(1), maassim.Box(2)
	deaf.NoPXE = true
	r.PlugIn(box, deaf)
	boot := func(address string) []maassim.Machine {
		t.Helper()
		if err := r.BootPXE(address); err != nil {
			t.Fatal(err)
		}
		clock.pass(maassim.Usual.Enlist)
		return r.Machines()
	}
	if found := boot(deaf.BMC.Address); len(found) != 0 {
		t.Fatalf("hardware that does not boot from the network: %+v", found)
	}
	r.SetDHCP(false)
	if found := boot(box.BMC.Address); len(found) != 0 {
		t.Fatalf("without DHCP: %+v", found)
	}
	r.SetDHCP(true)
	found := boot(box.BMC.Address)
	if len(found) != 1 || found[0].Status != maassim.New || found[0].Interfaces[0] != box.NICs[0].MAC || found[0].Serial != box.Serial {
		t.Fatalf("%+v", found)
	}
	if again := boot(box.BMC.Address); len(again) != 1 {
		t.Fatalf("discovered twice: %+v", again)
	}
	params, err := c.Machine.GetPowerParameters(found[0].SystemID)
	if err != nil || params["power_address"] != box.BMC.Address || params["power_user"] != "maas" || params["power_pass"] == "" {
		t.Errorf("%v, %v", params, err)
	}
	if _, err := c.Machine.Commission(found[0].SystemID, &entity.MachineCommissionParams{}); err != nil {
		t.Fatal(err)
	}
	clock.pass(time.Hour)
	if m, _ := r.Machine(found[0].SystemID); m.Status != maassim.Ready {
		t.Errorf("in %v", m.Status)
	}
	if r.BootPXE("10.9.9.9") == nil {
		t.Error("nothing stands there")
	}
}

func TestDiscoveryCanBeAmbiguous(t *testing.T) {
	r, clock, _ := start(t, "3.6")
	box := maassim.Box(1)
	r.PlugIn(box)
	r.Inject(maassim.Fault{Kind: maassim.Ambiguous})
	if err := r.BootPXE(box.BMC.Address); err != nil {
		t.Fatal(err)
	}
	clock.pass(time.Hour)
	found := r.Machines()
	if len(found) != 2 || found[0].Status != maassim.New || found[1].Status != maassim.New || found[1].Serial != "" {
		t.Errorf("%+v", found)
	}
}

// Hardware is commissioned only under the record that it boots as, and only if the BMC accepts
// MAAS's password.
func TestARecordThatLeadsToTheWrongHardwareIsNotCommissioned(t *testing.T) {
	for _, tc := range []struct {
		name   string
		change func(*maassim.Hardware, map[string]any)
		at     maassim.Status // once created
		after  maassim.Status // an hour later
	}{
		{"as it should be", func(*maassim.Hardware, map[string]any) {}, maassim.Commissioning, maassim.Ready},
		{"the wrong password", func(_ *maassim.Hardware, p map[string]any) { p["power_parameters_power_pass"] = "x" }, maassim.New, maassim.New},
		{"nothing at the address", func(_ *maassim.Hardware, p map[string]any) { p["power_parameters_power_address"] = "10.9.9.9" }, maassim.New, maassim.New},
		{"hardware that does not boot from the network", func(h *maassim.Hardware, _ map[string]any) { h.NoPXE = true }, maassim.Commissioning, maassim.FailedCommissioning},
		{"hardware that is another machine already", func(_ *maassim.Hardware, p map[string]any) {
			other := maassim.Box(2)
			p["power_parameters_power_address"], p["power_parameters_power_pass"] = other.BMC.Address, other.BMC.Password
		}, maassim.Commissioning, maassim.FailedCommissioning},
		{"a network card that is not the hardware's", func(_ *maassim.Hardware, p map[string]any) {
			p["mac_addresses"] = "02:00:00:00:00:09"
		}, maassim.Commissioning, maassim.FailedCommissioning},
		{"a network card that is", func(h *maassim.Hardware, p map[string]any) { p["mac_addresses"] = h.NICs[1].MAC }, maassim.Commissioning, maassim.Ready},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r, clock, c := start(t, "3.6")
			r.Arrange(maassim.Arranged{Hostname: "other", Hardware: maassim.Box(2), Status: maassim.Deployed, Owner: "somebody"})
			box := maassim.Box(1)
			p := map[string]any{
				"power_parameters_power_address": box.BMC.Address, "power_parameters_power_user": box.BMC.User, "power_parameters_power_pass": box.BMC.Password,
			}
			tc.change(&box, p)
			r.PlugIn(box)
			m, err := c.Machines.Create(&entity.MachineCreateParams{Hostname: "node-1", PowerType: "ipmi"}, p)
			if err != nil || maassim.Status(m.Status) != tc.at {
				t.Fatalf("%v, %v", m.Status, err)
			}
			clock.pass(time.Hour)
			if got := status(t, r, m.SystemID); got != tc.after {
				t.Errorf("in %v, want %v", got, tc.after)
			}
		})
	}
}

// Create commissions by default; only an explicit false turns the commissioning off.
func TestCreateCommissionsUnlessToldNotTo(t *testing.T) {
	r, _, c := start(t, "3.6")
	for n, want := range map[int]struct {
		commission *bool
		status     maassim.Status
	}{1: {nil, maassim.Commissioning}, 2: {new(bool), maassim.New}} {
		box := maassim.Box(n)
		r.PlugIn(box)
		m, err := c.Machines.Create(&entity.MachineCreateParams{PowerType: "ipmi", Commission: want.commission}, map[string]any{
			"power_parameters_power_address": box.BMC.Address, "power_parameters_power_user": box.BMC.User, "power_parameters_power_pass": box.BMC.Password,
		})
		if err != nil || maassim.Status(m.Status) != want.status {
			t.Errorf("%v, %v, want %v", m.StatusName, err, want.status)
		}
	}
}

// The next commissioning finds hardware that was mended in the rack.
func TestMendedHardwareIsFoundByTheNextCommissioning(t *testing.T) {
	r, clock, c := start(t, "3.6")
	box := maassim.Box(1)
	card := box.Disks[2]
	box.Disks = box.Disks[:2]
	r.PlugIn(box)
	m, err := c.Machines.Create(&entity.MachineCreateParams{PowerType: "ipmi"}, map[string]any{
		"power_parameters_power_address": box.BMC.Address, "power_parameters_power_user": box.BMC.User, "power_parameters_power_pass": box.BMC.Password,
	})
	if err != nil {
		t.Fatal(err)
	}
	clock.pass(time.Hour)
	if m, err = c.Machine.Get(m.SystemID); err != nil || len(m.PhysicalBlockDeviceSet) != 2 {
		t.Fatalf("%d disks, %v", len(m.PhysicalBlockDeviceSet), err)
	}
	if err := r.Mend(box.BMC.Address, func(h *maassim.Hardware) { h.Disks = append(h.Disks, card) }); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Machine.Commission(m.SystemID, &entity.MachineCommissionParams{}); err != nil {
		t.Fatal(err)
	}
	clock.pass(time.Hour)
	if m, err = c.Machine.Get(m.SystemID); err != nil || len(m.PhysicalBlockDeviceSet) != 3 || m.Status != 4 {
		t.Errorf("%d disks in %v, %v", len(m.PhysicalBlockDeviceSet), m.Status, err)
	}
	if err := r.Mend("10.9.9.9", nil); err == nil || !strings.Contains(err.Error(), "10.9.9.9") {
		t.Error(err)
	}
}
