package turnover

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/hostler/hostler/broker"
)

// left is a node of MAAS that its tenants have left.
func left() (broker.Handout, Place) {
	now := time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)
	h := broker.Handout{
		Node: broker.Node{ID: "n-1", Status: broker.Active, MAASSystemID: "abc", LastAgentContactAt: now}, Now: now,
		Occupants: []broker.Occupant{
			{ID: "a-1", Tenant: "acme", Username: "u", EndedAt: now.Add(-time.Hour)},
			{ID: "a-2", Tenant: "acme", Username: "u", EndedAt: now.Add(-time.Minute)},
		},
	}
	return h, Place{Site: broker.Site{ID: "dc1"}, Policy: broker.DefaultPolicy()}
}

// A turnover that nobody requested has the least mode whose certificate can meet the policy.
func TestTheModeOfAnAutomaticTurnoverCanMeetThePolicy(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*broker.Handout, *Place)
		mode   Mode // empty: none
		erase  string
	}{
		"the disk of the system counts": {func(*broker.Handout, *Place) {}, Reimage, "secure"},
		"the disk of the system is accepted": {
			func(_ *broker.Handout, at *Place) { at.Policy.AcceptSystemDisk = true }, SoftReset, "secure",
		},
		"any downgrade is accepted": {
			func(_ *broker.Handout, at *Place) { at.Policy.AcceptEraseDowngrade = "none" }, SoftReset, "secure",
		},
		"disks do not count": {func(_ *broker.Handout, at *Place) { at.Policy.DiskGrade = "none" }, SoftReset, "none"},
		"a tenant had root": {func(h *broker.Handout, at *Place) {
			at.Policy.AcceptSystemDisk, h.Occupants[0].HadRoot = true, true
		}, Reimage, "secure"},
		"a tenant had root, which is accepted": {func(h *broker.Handout, at *Place) {
			at.Policy.AcceptSystemDisk, at.Policy.RootRequiresReimage, h.Occupants[0].HadRoot = true, false, true
		}, SoftReset, "secure"},
		"a fresh system is required": {func(_ *broker.Handout, at *Place) {
			at.Policy.AcceptSystemDisk, at.Policy.TurnoverEnvironment = true, "fresh_os"
		}, Reimage, "secure"},
		"no machine of MAAS": {func(h *broker.Handout, _ *Place) { h.Node.MAASSystemID = "" }, SoftReset, "secure"},
		"no machine of MAAS, and root": {
			func(h *broker.Handout, _ *Place) { h.Node.MAASSystemID, h.Occupants[1].HadRoot = "", true }, "", "",
		},
	} {
		h, at := left()
		c.change(&h, &at)
		req, due := AutomaticRequest(h, at, Past{})
		if due != (c.mode != "") || due && (req.Mode != c.mode || req.Erase != c.erase || req.From != broker.Active || req.ForceRelease) {
			t.Errorf("%s: %v %+v", name, due, req)
		}
		if due && !strings.Contains(req.Reason, "allocation a-2 of tenant acme") {
			t.Errorf("%s: the reason is %q", name, req.Reason)
		}
	}
}

// Only a node that nobody uses, holds or keeps from use is turned over without a request. A fault of
// the machine stops no turnover.
func TestOnlyANodeThatWaitsForItIsTurnedOver(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*broker.Handout)
		due    bool
	}{
		"left":              {func(*broker.Handout) {}, true},
		"a part is missing": {func(h *broker.Handout) { h.Devices = []broker.Device{{ID: "d", State: broker.DeviceMissing}} }, true},
		"it is held because it could not be provisioned": {func(h *broker.Handout) { h.Provisions.HeldAt = h.Now }, true},
		"its certificate ran out": {func(h *broker.Handout) {
			h.Occupants, h.Certificate = nil, &broker.LastCertificate{ID: "c-1", MeetsPolicy: true, ValidUntil: h.Now}
		}, true},
		"its certificate soon runs out": {func(h *broker.Handout) {
			h.Occupants, h.Certificate = nil, &broker.LastCertificate{ID: "c-1", MeetsPolicy: true, IssuedAt: h.Now.Add(-91 * time.Hour), ValidUntil: h.Now.Add(9 * time.Hour)}
		}, true},
		"its certificate is below a stricter policy": {func(h *broker.Handout) {
			h.Occupants = nil
			h.Certificate = &broker.LastCertificate{ID: "c-1", MeetsPolicy: true, IssuedAt: h.Now, ValidUntil: h.Now.Add(time.Hour), Lacks: []string{"x"}}
		}, true},
		"its certificate is below a stricter policy, and an allocation holds it": {func(h *broker.Handout) {
			h.Occupants, h.ClaimedBy = nil, "a-3"
			h.Certificate = &broker.LastCertificate{ID: "c-1", MeetsPolicy: true, IssuedAt: h.Now, ValidUntil: h.Now.Add(time.Hour), Lacks: []string{"x"}}
		}, false},
		"nobody has judged its certificate yet": {func(h *broker.Handout) {
			h.Occupants = nil
			h.Certificate = &broker.LastCertificate{ID: "c-1", MeetsPolicy: true, IssuedAt: h.Now, ValidUntil: h.Now.Add(time.Hour), Unjudged: true}
		}, false},
		"its certificate ran out, and fell short by the policy of now": {func(h *broker.Handout) {
			h.Occupants, h.Certificate = nil, &broker.LastCertificate{ID: "c-1", ValidUntil: h.Now, PolicyStands: true}
		}, false},
		"its certificate ran out, and fell short by another policy": {func(h *broker.Handout) {
			h.Occupants, h.Certificate = nil, &broker.LastCertificate{ID: "c-1", ValidUntil: h.Now}
		}, true},
		"its certificate fell short by the policy of now, and a tenant has left since": {func(h *broker.Handout) {
			h.Certificate = &broker.LastCertificate{ID: "c-1", ValidUntil: h.Now, PolicyStands: true}
		}, true},
		"its certificate lasts": {func(h *broker.Handout) {
			h.Occupants, h.Certificate = nil, &broker.LastCertificate{ID: "c-1", MeetsPolicy: true, IssuedAt: h.Now.Add(-69 * time.Hour), ValidUntil: h.Now.Add(31 * time.Hour)}
		}, false},
		"its certificate soon runs out, and an allocation holds it": {func(h *broker.Handout) {
			h.Occupants, h.ClaimedBy = nil, "a-3"
			h.Certificate = &broker.LastCertificate{ID: "c-1", MeetsPolicy: true, IssuedAt: h.Now.Add(-91 * time.Hour), ValidUntil: h.Now.Add(9 * time.Hour)}
		}, false},
		"its certificate soon runs out, and its site is disabled": {func(h *broker.Handout) {
			h.Occupants, h.SiteDisabled = nil, true
			h.Certificate = &broker.LastCertificate{ID: "c-1", MeetsPolicy: true, IssuedAt: h.Now.Add(-91 * time.Hour), ValidUntil: h.Now.Add(9 * time.Hour)}
		}, false},
		"nobody was there":       {func(h *broker.Handout) { h.Occupants = nil }, false},
		"a tenant is there":      {func(h *broker.Handout) { h.Occupants[0].EndedAt = time.Time{} }, false},
		"an allocation holds it": {func(h *broker.Handout) { h.ClaimedBy = "a-3" }, false},
		"a run has it":           {func(h *broker.Handout) { h.RunID = "r-1" }, false},
		"frozen":                 {func(h *broker.Handout) { h.Freezes = []string{"f"} }, false},
		"quarantined":            {func(h *broker.Handout) { h.Node.Status = broker.Quarantined }, false},
		"silent":                 {func(h *broker.Handout) { h.Now = h.Now.Add(time.Hour) }, false},
		"owed a turnover":        {func(h *broker.Handout) { h.Node.TurnoverOwed = true }, false},
		"its use was permitted since, and its certificate ran out": {func(h *broker.Handout) {
			h.OverrideAt, h.Certificate = h.Now, &broker.LastCertificate{ID: "c-1", MeetsPolicy: true, ValidUntil: h.Now}
		}, true},
		"its use was permitted since": {func(h *broker.Handout) { h.OverrideAt = h.Now }, false},
	} {
		h, at := left()
		c.change(&h)
		if _, due := AutomaticRequest(h, at, Past{}); due != c.due {
			t.Errorf("%s: %v", name, due)
		}
	}
}

// Nodes that were certified at one moment are renewed one after another, each well before its certificate
// runs out, and a node always at the same time.
func TestRenewalsAreSpread(t *testing.T) {
	issued := time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)
	c := broker.LastCertificate{IssuedAt: issued, ValidUntil: issued.Add(100 * time.Hour)}
	hours := map[int]int{}
	for i := range 1000 {
		id := fmt.Sprint("n-", i)
		at := RenewAt(id, c)
		if left := c.ValidUntil.Sub(at); left < 10*time.Hour || left > 30*time.Hour || !RenewAt(id, c).Equal(at) {
			t.Fatalf("node %s is renewed %v before the end", id, left)
		}
		hours[int(at.Sub(issued).Hours())]++
	}
	for hour := 70; hour < 90; hour++ {
		if n := hours[hour]; n < 20 || n > 100 {
			t.Errorf("in hour %d %d of 1000 nodes are renewed", hour, n)
		}
	}
}

// The reason of a turnover is what is the matter with the node now, not a tenant whose leaving was permitted to pass.
func TestAPermittedTenantIsNoReason(t *testing.T) {
	h, at := left()
	h.OverrideAt, h.Certificate = h.Now, &broker.LastCertificate{ID: "c-1", MeetsPolicy: true, ValidUntil: h.Now}
	if req, due := AutomaticRequest(h, at, Past{}); !due || !strings.Contains(req.Reason, "certificate c-1 was valid until") {
		t.Errorf("%v, the reason is %q", due, req.Reason)
	}
}
