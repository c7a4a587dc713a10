package broker

import (
	"slices"
	"strings"
	"testing"
	"time"
)

// handedOut is a node that a tenant had, that was turned over, and that is ready for the next
// tenant.
func handedOut() Handout {
	at := time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)
	return Handout{
		Node:        Node{ID: "n-1", Status: Active, LastAgentContactAt: at},
		Now:         at.Add(SilentAfter),
		Certificate: &LastCertificate{ID: "c-1", MeetsPolicy: true, IssuedAt: at, ValidUntil: at.Add(time.Hour)},
		Devices:     []Device{{Kind: DeviceDisk, ID: "D1", State: DeviceFound}, {Kind: DeviceDisk, ID: "D0", State: DeviceRemoved}},
	}
}

func TestANodeIsHandedOutUnlessSomethingSpeaksAgainstIt(t *testing.T) {
	at := handedOut().Certificate.IssuedAt
	was := func(id, tenant string, ended time.Time) Occupant {
		return Occupant{ID: id, Username: "u", Tenant: tenant, Since: at, EndedAt: ended}
	}
	for _, c := range []struct {
		name   string
		change func(*Handout)
		want   string // codes
	}{
		{"turned over", func(*Handout) {}, ""},
		{"never had a tenant", func(h *Handout) { h.Certificate = nil }, ""},
		{"not in service", func(h *Handout) { h.Node.Status = Quarantined }, "node_status"},
		{"offline", func(h *Handout) { h.Node.Status = Offline }, "node_status"},
		{"active, and not heard for longer than the policy", func(h *Handout) { h.Now = h.Now.Add(time.Second) }, "node_silent"},
		{"active, and never heard", func(h *Handout) { h.Node.LastAgentContactAt = time.Time{} }, "node_silent"},
		{"owed a turnover", func(h *Handout) { h.Node.TurnoverOwed = true }, "turnover_owed"},
		{"a run has it", func(h *Handout) { h.RunID, h.Run = "r-1", "running" }, "node_in_run"},
		{"a run has it that stopped", func(h *Handout) { h.RunID, h.Run, h.RunKind = "r-1", "failed_retryable", "node.onboarding" }, "node_in_run"},
		{"frozen twice", func(h *Handout) { h.Freezes = []string{"a", "b"} }, "frozen frozen"},
		{"its site is disabled", func(h *Handout) { h.SiteDisabled = true }, "site_disabled"},
		{"people work on it", func(h *Handout) { h.Maintenance.ID = "mnt-1" }, "maintenance"},
		{"somebody is on it", func(h *Handout) { h.Occupants = []Occupant{was("a-1", "acme", time.Time{})} }, "allocation_live"},
		{"an allocation holds it", func(h *Handout) { h.ClaimedBy = "a-1" }, "allocation_live"},
		{"somebody was, and it was not turned over", func(h *Handout) { h.Occupants = []Occupant{was("a-1", "acme", at)} }, "turnover_missing"},
		{"somebody was, whose allocation has no id", func(h *Handout) { h.Occupants = []Occupant{was("", "", at)} }, "turnover_missing"},
		{"and an override let that pass", func(h *Handout) {
			h.Occupants, h.OverrideAt = []Occupant{was("a-1", "acme", at)}, at.Add(time.Second)
		}, ""},
		{"and somebody came after the override", func(h *Handout) {
			h.Occupants, h.OverrideAt = []Occupant{was("a-1", "acme", at.Add(time.Minute))}, at
		}, "turnover_missing"},
		{"its certificate ended since an override let a tenant's leaving pass", func(h *Handout) {
			h.Occupants, h.OverrideAt = []Occupant{was("a-1", "acme", at)}, at.Add(1)
			h.Certificate.ValidUntil = h.Now
		}, "certificate_expired"},
		{"its site's policy asks for more since an override let a tenant's leaving pass", func(h *Handout) {
			h.Occupants, h.OverrideAt = []Occupant{was("a-1", "acme", at)}, at.Add(1)
			h.Certificate.Lacks, h.Certificate.LacksSince = []string{"method_below_policy"}, at.Add(2)
		}, "certificate_below_policy"},
		{"nobody has judged its certificate since an override let a tenant's leaving pass", func(h *Handout) {
			h.Occupants, h.OverrideAt, h.Certificate.Unjudged = []Occupant{was("a-1", "acme", at)}, at.Add(1), true
		}, "certificate_not_judged"},
		{"its certificate ended, and another tenant has left since the override", func(h *Handout) {
			h.Occupants, h.OverrideAt = []Occupant{was("a-1", "acme", at), was("a-2", "acme", at.Add(2))}, at.Add(1)
			h.Certificate.ValidUntil = h.Now
		}, "turnover_missing"},
		{"an override ends nobody's allocation", func(h *Handout) {
			h.Occupants, h.OverrideAt = []Occupant{was("a-1", "acme", time.Time{})}, at.Add(time.Hour)
		}, "allocation_live"},
		{"its turnover fell short", func(h *Handout) { h.Certificate.MeetsPolicy = false }, "certificate_falls_short"},
		{"and an override let that pass, too", func(h *Handout) { h.Certificate.MeetsPolicy, h.OverrideAt = false, at.Add(1) }, ""},
		{"its certificate ends now", func(h *Handout) { h.Certificate.ValidUntil = h.Now }, "certificate_expired"},
		{"its certificate is good for another moment", func(h *Handout) { h.Certificate.ValidUntil = h.Now.Add(1) }, ""},
		{"its site's policy asks for more now", func(h *Handout) { h.Certificate.Lacks = []string{"method_below_policy"} }, "certificate_below_policy"},
		{"and an override let that pass, later", func(h *Handout) {
			h.Certificate.Lacks, h.Certificate.LacksSince, h.OverrideAt = []string{"method_below_policy"}, at, at.Add(1)
		}, ""},
		{"its site's policy asks for more since the override", func(h *Handout) {
			h.Certificate.Lacks, h.Certificate.LacksSince, h.OverrideAt = []string{"method_below_policy"}, at, at
		}, "certificate_below_policy"},
		{"nobody has judged its certificate by the policy in force", func(h *Handout) { h.Certificate.Unjudged = true }, "certificate_not_judged"},
		{"its policy asks for more since somebody is on it", func(h *Handout) {
			h.Certificate.Lacks, h.Occupants = []string{"method_below_policy"}, []Occupant{was("a-1", "acme", time.Time{})}
		}, "allocation_live"},
		{"its policy asks for more since an allocation holds it", func(h *Handout) {
			h.Certificate.Lacks, h.ClaimedBy = []string{"method_below_policy"}, "a-1"
		}, "allocation_live"},
		{"its certificate has no end", func(h *Handout) { h.Certificate.ValidUntil = time.Time{} }, "certificate_expired"},
		{"its certificate ended after an override", func(h *Handout) {
			h.Certificate.ValidUntil, h.OverrideAt = h.Now, at.Add(1)
		}, "certificate_expired"},
		{"its certificate ended before an override", func(h *Handout) {
			h.Certificate.ValidUntil, h.OverrideAt = at.Add(1), at.Add(2)
		}, ""},
		{"its policy gave its certificate an earlier end since an override", func(h *Handout) {
			h.Certificate.ValidUntil, h.Certificate.ShortenedAt, h.OverrideAt = at.Add(1), at.Add(3), at.Add(2)
		}, "certificate_expired"},
		{"its policy gave its certificate an earlier end before an override", func(h *Handout) {
			h.Certificate.ValidUntil, h.Certificate.ShortenedAt, h.OverrideAt = at.Add(1), at.Add(2), at.Add(3)
		}, ""},
		{"its certificate ended while a tenant is on it", func(h *Handout) {
			h.Certificate.ValidUntil, h.Occupants = h.Now, []Occupant{was("a-1", "acme", time.Time{})}
		}, "allocation_live"},
		{"its certificate ended and it fell short", func(h *Handout) {
			h.Certificate.MeetsPolicy, h.Certificate.ValidUntil = false, h.Now
		}, "certificate_falls_short certificate_expired"},
		{"it could not be provisioned once", func(h *Handout) { h.Provisions = ProvisionFailures{Failures: 1, Code: "login_refused", At: at} }, ""},
		{"it could not be provisioned again and again", func(h *Handout) {
			h.Provisions = ProvisionFailures{Failures: 2, Code: "login_refused", At: at, HeldAt: at}
		}, "provisioning_failing"},
		{"a part is gone", func(h *Handout) { h.Devices[0].State = DeviceMissing }, "device_missing"},
		{"a part is there that nobody knows", func(h *Handout) { h.Devices[0].State = DeviceUnexpected }, "device_unexpected"},
		{"all of it", func(h *Handout) {
			h.Node.Status, h.Node.TurnoverOwed, h.RunID = Draining, true, "r-1"
			h.Occupants = []Occupant{was("a-1", "", time.Time{})}
			h.Devices[0].State = DeviceMissing
		}, "node_status turnover_owed node_in_run allocation_live device_missing"},
	} {
		h := handedOut()
		c.change(&h)
		var codes []string
		for _, r := range h.Reasons("", "") {
			if codes = append(codes, r.Code); r.Message == "" || r.Next == "" || strings.Contains(r.Next, "NODE") {
				t.Errorf("%s: %+v says not what to do", c.name, r)
			}
		}
		if got := strings.Join(codes, " "); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
		if err := h.LetIn("a-9", "other"); (err != nil) != (c.want != "") || err != nil && !strings.HasPrefix(c.want, AsError(err).Code) {
			t.Errorf("%s: a tenant is told %v", c.name, err)
		}
	}
}

// Waiting for a stopped run would never end.
func TestWhatToDoAboutAStoppedRunIsNotToWait(t *testing.T) {
	for status, want := range map[string]string{
		"running": "wait until the run ends", "failed_manual_intervention": "resume the run, or cancel it (hostler decommission show r-1)",
	} {
		h := handedOut()
		h.RunID, h.Run, h.RunKind = "r-1", status, "node.decommission/soft_reset"
		if all := h.Reasons("", ""); len(all) != 1 || all[0].Next != want {
			t.Errorf("%s: %+v", status, all)
		}
	}
}

// A tenant's own allocations are no reason to refuse the tenant. Two allocations without a tenant's
// name do not count as those of one tenant.
func TestOnlyWhatIsAnothersKeepsATenantOut(t *testing.T) {
	at := handedOut().Certificate.IssuedAt
	h := handedOut()
	for _, c := range []struct {
		name               string
		has                Occupant
		allocation, tenant string
		code               string
	}{
		{"more keys for the same", Occupant{ID: "a-1", Tenant: "acme"}, "a-1", "acme", ""},
		{"the same, without its name", Occupant{ID: "a-1", Tenant: "acme"}, "a-1", "", ""},
		{"another of the same tenant", Occupant{ID: "a-1", Tenant: "acme"}, "a-2", "acme", ""},
		{"the next of the same tenant", Occupant{ID: "a-1", Tenant: "acme", EndedAt: at}, "a-2", "acme", ""},
		{"another tenant", Occupant{ID: "a-1", Tenant: "acme"}, "a-2", "evil", "allocation_live"},
		{"the next tenant", Occupant{ID: "a-1", Tenant: "acme", EndedAt: at}, "a-2", "evil", "turnover_missing"},
		{"nobody knows whose the new one is", Occupant{ID: "a-1", Tenant: "acme", EndedAt: at}, "a-2", "", "turnover_missing"},
		{"nobody knows whose either is", Occupant{ID: "a-1"}, "a-2", "", "allocation_live"},
		{"the same, whose nobody had said", Occupant{ID: "a-1"}, "a-1", "acme", ""},
		{"the same id for another tenant", Occupant{ID: "a-1", Tenant: "acme"}, "a-1", "evil", "allocation_live"},
		{"the same anew", Occupant{ID: "a-1", Tenant: "acme", EndedAt: at}, "a-1", "acme", ""},
	} {
		h.Occupants = []Occupant{c.has}
		err := h.LetIn(c.allocation, c.tenant)
		if code := ""; err != nil {
			if code = AsError(err).Code; code != c.code {
				t.Errorf("%s: %v", c.name, err)
			}
		} else if c.code != "" {
			t.Errorf("%s: it is let in", c.name)
		}
	}
}

// A part that breaks during a tenancy is no reason to keep the same tenant out.
func TestWhoIsInGetsMoreWhateverBecomesOfTheMachine(t *testing.T) {
	h := handedOut()
	h.Occupants = []Occupant{{ID: "a-1", Tenant: "acme"}}
	h.Devices[0].State = DeviceMissing
	if err := h.LetIn("a-1", "acme"); err != nil {
		t.Error(err)
	}
	h.Node.TurnoverOwed = true
	if err := h.LetIn("a-1", "acme"); err == nil {
		t.Error("a node that is owed a turnover takes users")
	}
}

// An allocation that claimed a node before its site was disabled continues. Nobody else is let in.
func TestADisabledSiteLetsAClaimContinue(t *testing.T) {
	h := handedOut()
	h.SiteDisabled, h.ClaimedBy = true, "a-1"
	if err := h.LetIn("a-1", "acme"); err != nil {
		t.Error(err)
	}
	h.ClaimedBy = ""
	if err := h.LetIn("a-1", "acme"); err == nil || AsError(err).Code != "site_disabled" {
		t.Errorf("without the claim: %v", err)
	}
	h.Occupants = []Occupant{{ID: "a-1", Tenant: "acme"}}
	if err := h.LetIn("a-1", "acme"); err != nil {
		t.Errorf("with a user on the node: %v", err)
	}
}

// Every status but active has advice on how the node becomes active.
func TestEveryStatusSaysWhatToDo(t *testing.T) {
	for _, s := range NodeStatuses {
		if s != Active && activationSteps[s] == "" || s == Active && activationSteps[s] != "" {
			t.Errorf("%s: %q", s, activationSteps[s])
		}
	}
	if len(activationSteps) != len(NodeStatuses)-1 || slices.Contains(NodeStatuses, "") {
		t.Error("mends knows another status")
	}
}
