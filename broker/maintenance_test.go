package broker

import (
	"strings"
	"testing"
	"time"
)

// Whoever was there before the maintenance goes on; nobody else comes.
func TestAMaintenanceKeepsOutWhoIsNew(t *testing.T) {
	h := handedOut()
	h.Maintenance = OpenMaintenance{ID: "mnt-1", Category: "gpu", Ticket: "OPS-17"}
	h.ClaimedBy = "a-1"
	if all := h.Reasons("a-1", ""); len(all) != 0 {
		t.Errorf("against the allocation that has the node: %+v", all)
	}
	all := h.Reasons("a-2", "")
	if len(all) != 2 || all[0].Code != "maintenance" || all[0].Message != "maintenance mnt-1 (gpu, ticket OPS-17) is open" {
		t.Errorf("against another one: %+v", all)
	}
}

func TestAMaintenanceMovesByItsTableAlone(t *testing.T) {
	permitted := map[[2]MaintenanceStatus]bool{
		{MaintenancePlanned, MaintenanceOpen}: true, {MaintenancePlanned, MaintenanceCancelled}: true, {MaintenancePlanned, MaintenanceMissed}: true,
		{MaintenanceOpen, MaintenanceClosed}: true,
	}
	for _, from := range MaintenanceStatuses {
		for _, to := range MaintenanceStatuses {
			err := TransitionMaintenance(Maintenance{ID: "mnt-1", Status: from}, to)
			if (err == nil) != permitted[[2]MaintenanceStatus{from, to}] || err != nil && AsError(err).Code != "maintenance_status" {
				t.Errorf("from %s to %s: %v", from, to, err)
			}
		}
	}
}

// A node goes back only when it is heard and whole, and after work on what holds data when it was turned over since.
func TestAMaintenanceIsClosedWhenTheNodePasses(t *testing.T) {
	for _, c := range []struct {
		name, category string
		change         func(*Handout)
		want           string
	}{
		{"a fan", "cooling", func(*Handout) {}, ""},
		{"a fan, and the agent is silent", "cooling", func(h *Handout) { h.Now = h.Now.Add(time.Second) }, "check parts failed: node_silent"},
		{"a fan, and the agent of a drained node is silent", "cooling", func(h *Handout) {
			h.Now, h.Node.Status = h.Now.Add(time.Second), Retired
		}, "check parts failed: node_silent"},
		{"a GPU is gone", "power", func(h *Handout) { h.Devices[0].State = DeviceMissing }, "check parts failed: device_missing"},
		{"another disk is there", "power", func(h *Handout) { h.Devices[0].State = DeviceUnexpected }, "check parts failed: device_unexpected"},
		{"a GPU, and no turnover since", "gpu", func(*Handout) {}, "check turned_over failed: turnover_missing"},
		{"a GPU, and never a turnover", "gpu", func(h *Handout) { h.Certificate = nil }, "check turned_over failed: turnover_missing"},
		{"a GPU, and a turnover since", "gpu", func(h *Handout) { h.Certificate.IssuedAt = h.Now }, ""},
		{"a GPU, and it came after the turnover", "gpu", func(h *Handout) {
			h.Certificate.IssuedAt, h.Devices[0].State, h.Devices[0].Since = h.Now.Add(-time.Nanosecond), DeviceFound, h.Now
		}, "check turned_over failed: turnover_missing: disk "},
		{"a GPU, and it came before the turnover", "gpu", func(h *Handout) {
			h.Certificate.IssuedAt, h.Devices[0].State, h.Devices[0].Since = h.Now, DeviceFound, h.Now
		}, ""},
		{"a GPU, and a turnover that fell short", "gpu", func(h *Handout) {
			h.Certificate.IssuedAt, h.Certificate.MeetsPolicy = h.Now, false
		}, "check turned_over failed: certificate_falls_short"},
		{"a GPU, and the tenant has stayed", "gpu", func(h *Handout) { h.Occupants = []Occupant{{ID: "a-1"}} }, ""},
	} {
		h := handedOut()
		c.change(&h)
		m := Maintenance{ID: "mnt-1", Category: MaintenanceCategory(c.category), OpenedAt: handedOut().Certificate.IssuedAt.Add(time.Second)}
		if got := m.ChecksOf(h).Failed(); !strings.HasPrefix(got, c.want) || c.want == "" && got != "" {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}
