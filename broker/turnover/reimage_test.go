package turnover_test

import (
	"cmp"
	"slices"
	"strings"
	"testing"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/certificate"
	"github.com/hostler/hostler/broker/chain"
	"github.com/hostler/hostler/broker/chain/chaintest"
	"github.com/hostler/hostler/broker/turnover"
	"github.com/hostler/hostler/broker/turnover/turnovertest"
	"github.com/hostler/hostler/test/maassim"
)

var reimage = turnover.Request{Mode: turnover.Reimage, ForceRelease: true, Erase: "secure"}

// reimages is the complete list of a reimage.
var reimages = strings.Fields(`disable_node drain_node cleanup_storage load_site_config release_maas_node configure_storage apply_roce_phase2 ensure_pxe_interface_auto
	render_cloud_init deploy_via_maas wait_for_deployed ensure_hardware_sync_configured wait_for_hardware_sync_healthy wait_for_agent_enrollment
	scrub_gpu validate_clean_node issue_clean_certificate enable_node`)

// The image that was asked for is installed once: the next reimage installs the site's.
func TestAReimageInstallsTheImageThatWasAskedFor(t *testing.T) {
	s := newSite(t)
	s.place.Policy.AcceptMAASErase = true
	for _, image := range []string{"custom/golden", ""} {
		want := cmp.Or(image, "ubuntu/noble")
		if r := s.turnOver(turnover.Request{Mode: turnover.Reimage, Erase: "secure", Image: image}); r.Status != chain.Completed {
			t.Fatalf("%q: %s at %s: %+v", image, r.Status, r.Stage, r.Failure)
		}
		if m := s.machine(); m.OSystem+"/"+m.Series != want || s.book.Machine(s.id).Image != want {
			t.Errorf("%q: MAAS has installed %s/%s, on record is %s", image, m.OSystem, m.Series, s.book.Machine(s.id).Image)
		}
	}
	for _, wrong := range []turnover.Request{{Mode: turnover.SoftReset, Image: "custom/golden"}, {Mode: turnover.Reimage, Image: "../golden"}} {
		wrong.Reason = "r"
		if _, _, err := turnover.New(s.book.Machine(s.id).Node, s.place, wrong); broker.AsError(err).Code != "turnover_invalid" {
			t.Errorf("%+v: %v", wrong, err)
		}
	}
}

// The node keeps its id, its machine was redeployed, and its certificate states an inspection in
// a fresh system: this is enough after a tenant with root.
func TestAReimageHandsTheSameNodeOutWithAFreshSystem(t *testing.T) {
	s := newSite(t)
	s.place.Policy.AcceptMAASErase = true
	s.book.LetIn(s.id, "a-1", "acme", true)
	before := s.book.Machine(s.id)
	r := s.turnOver(reimage)
	if r.Status != chain.Completed {
		t.Fatalf("%s at %s: %+v", r.Status, r.Stage, r.Failure)
	}
	s.is(broker.Active, false)
	var want []string
	for _, stage := range reimages {
		want = append(want, stage+" succeeded")
	}
	if got := s.went(r.ID); !slices.Equal(got, want) {
		t.Errorf("it went\n%v, want\n%v", got, want)
	}
	after, m := s.book.Machine(s.id), s.machine()
	if after.ID != before.ID || after.Epoch != before.Epoch+1 || m.Status != maassim.Deployed || s.region.Happened(s.serial, "deploy") != 2 || s.region.Happened(s.serial, "release") != 1 {
		t.Errorf("node %+v, machine %+v", after.Node, m)
	}
	if after.Image != "ubuntu/noble" {
		t.Errorf("the installed image is %q", after.Image)
	}
	report, err := s.book.Verify(s.state(r.ID).Issued)
	if err != nil || !report.Holds() {
		t.Fatalf("%+v, %v", report, err)
	}
	c := report.Clean
	if c.Environment != certificate.FreshOS || c.Node.Epoch != after.Epoch || c.Allocation == nil || !c.Allocation.HadRoot {
		t.Errorf("%+v", c)
	}
	for _, e := range c.Exposures {
		t.Errorf("exposure %+v", e)
	}
	for _, d := range c.Devices {
		if d.Kind == certificate.KindDisk && d.Method != certificate.MethodMAASSecureErase {
			t.Errorf("disk %+v", d)
		}
	}
	var proofs []string
	for _, task := range c.Tasks {
		if task.Proof != nil {
			proofs = append(proofs, task.Type)
		}
	}
	if !slices.Equal(proofs, []string{"node.gpu_scrub", "node.validate_clean"}) || c.Tasks[len(c.Tasks)-2].Type != "node.validate_clean" {
		t.Errorf("these tasks count: %v, of %+v", proofs, c.Tasks) // without the task that took the baseline
	}
}

// A fresh system that differs from the former is left to a person: the image, or its content, was
// changed.
func TestAFreshSystemThatIsAnotherIsKeptFromUse(t *testing.T) {
	s := newSite(t)
	s.place.Policy.AcceptMAASErase = true
	s.book.Change(s.id, func(m *turnovertest.Machine) { m.Unlike = []string{"added users eve", "added units evil.service"} })
	r := s.turnOver(reimage)
	s.failed(r, "validate_clean_node", "residue_found", "residue_found")
	if !strings.Contains(r.Failure.Message, "added users eve (and 1 more)") || !strings.Contains(r.NextAction, "hostler node baseline accept "+s.id) {
		t.Errorf("%q, next %q", r.Failure.Message, r.NextAction)
	}
	s.is(broker.Quarantined, true)
	s.book.Change(s.id, func(m *turnovertest.Machine) { m.Unlike = nil }) // a person has accepted the difference
	if r = s.order(r.ID, chain.RetryStage); r.Status != chain.Completed {
		t.Fatalf("%s at %s: %+v", r.Status, r.Stage, r.Failure)
	}
	s.is(broker.Active, false)
}

// MAAS's erase is on the certificate with its true method, and is insufficient for another tenant
// unless accepted.
func TestAReimageDoesNotMakeMoreOfAnEraseThanItWas(t *testing.T) {
	for erase, code := range map[string]string{"none": "method_below_policy", "quick": "method_below_policy", "secure": "method_unverified"} {
		t.Run(erase, func(t *testing.T) {
			s := newSite(t)
			s.place.Policy.AcceptMAASErase = erase != "secure" // which applies to no other method
			r := s.turnOver(turnover.Request{Mode: turnover.Reimage, Erase: erase})
			s.failed(r, "issue_clean_certificate", "erase_downgraded", "policy_not_met")
			s.is(broker.Quarantined, true)
			if got := s.state(r.ID).Shortfalls; !slices.Contains(got, code) {
				t.Errorf("it falls short in %v, want %s", got, code)
			}
		})
	}
}

// A node whose agent is gone, or was removed by its tenant, is reimaged without the agent.
func TestAReimageDoesNotNeedTheFormerSystem(t *testing.T) {
	s := newSite(t)
	s.place.Policy.AcceptMAASErase, s.place.Policy.DrainTimeoutSeconds = true, 60
	s.book.LetIn(s.id, "a-1", "acme", true)
	s.book.Change(s.id, func(m *turnovertest.Machine) { m.Silent = true })
	r := s.turnOver(reimage)
	if r.Status != chain.Completed {
		t.Fatalf("%s at %s: %+v", r.Status, r.Stage, r.Failure)
	}
	s.is(broker.Active, false)
	went := s.went(r.ID)
	if !slices.Contains(went, "drain_node skipped") || !slices.Contains(went, "cleanup_storage skipped") {
		t.Errorf("it went %v", went)
	}
	if w := s.state(r.ID).Warnings; !slices.ContainsFunc(w, func(l string) bool { return strings.HasPrefix(l, "drain_node was not made") }) {
		t.Errorf("warnings %q", w)
	}
}

// The machine was booted from its old disk after the release: the run stops for a person, and
// continues after a person's action.
func TestThePreviousSystemStopsTheRun(t *testing.T) {
	s := newSite(t)
	s.place.Policy.AcceptMAASErase = true
	previousShown := false
	s.runs++
	state, locks, err := turnover.New(s.book.Machine(s.id).Node, s.place, turnover.Request{Mode: turnover.Reimage, Erase: "secure", Reason: "patches"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.engine.Start(ctx, chain.Start{ID: "r-1", Kind: turnover.Reimage.Kind(), Site: "dc1", Subject: "c01", State: state, Locks: locks, RequestedBy: "ada"}); err != nil {
		t.Fatal(err)
	}
	r := s.settle("r-1", func(m maassim.Machine) {
		if r := s.run("r-1"); r.Stage == "wait_for_agent_enrollment" && !previousShown {
			s.book.ShowFormerSystem(s.id)
			previousShown = true
		}
		s.book.Boot(m.UserData)
	})
	s.failed(r, "wait_for_agent_enrollment", "state_ambiguity", "previous_os_alive")
	if !strings.Contains(r.NextAction, "what the machine boots from") {
		t.Errorf("next action %q", r.NextAction)
	}
	if r = s.order("r-1", chain.Resume); r.Status != chain.Completed {
		t.Fatalf("%s at %s: %+v", r.Status, r.Stage, r.Failure)
	}
	s.is(broker.Active, false)
}

// Wherever a reimage is cancelled, the node is never in use afterwards, and another reimage
// brings it back.
func TestACancelledReimageLeavesTheNodeOutOfUse(t *testing.T) {
	for _, at := range reimages {
		s := newSite(t)
		s.place.Policy.AcceptMAASErase = true
		state, locks, err := turnover.New(s.book.Machine(s.id).Node, s.place, turnover.Request{Mode: turnover.Reimage, Erase: "secure", Reason: "patches"})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.engine.Start(ctx, chain.Start{ID: "r-9", Kind: turnover.Reimage.Kind(), Site: "dc1", Subject: "c01", State: state, Locks: locks, RequestedBy: "ada"}); err != nil {
			t.Fatal(err)
		}
		asked := false
		s.lossy.Fate = func(int) chaintest.Fate {
			if r := s.run("r-9"); !asked && r.Stage == at {
				asked = true
				if _, err := s.engine.Act(ctx, chain.Order{ID: "r-9", Actor: ada, Action: chain.Cancel, Reason: "because"}); err != nil {
					t.Fatal(err)
				}
			}
			return chaintest.Done
		}
		r := s.goOn("r-9")
		s.lossy.Fate = nil
		if r.Status == chain.Completed && at == "enable_node" {
			continue // it came too late
		}
		if m := s.book.Machine(s.id); r.Status == chain.Cancelled && at == "disable_node" && m.Status == broker.Active && !m.TurnoverOwed {
			continue // it had not begun
		}
		if m := s.book.Machine(s.id); r.Status != chain.Cancelled || m.Status != broker.Quarantined || !m.TurnoverOwed {
			t.Fatalf("cancelled at %s: the run is %s at %s (%+v), the node %s", at, r.Status, r.Stage, r.Failure, m.Status)
		}
		back := s.machine().Status == maassim.Ready
		r = s.turnOver(reimage)
		if back {
			// MAAS had the machine already, and erases no machine without an owner: the next
			// reimage erases the disks.
			s.failed(r, "issue_clean_certificate", "erase_downgraded", "policy_not_met")
			if r = s.order(r.ID, chain.Cancel); r.Status != chain.Cancelled {
				t.Fatalf("%s at %s", r.Status, r.Stage)
			}
			r = s.turnOver(reimage)
		}
		if r.Status != chain.Completed {
			t.Fatalf("after a cancel at %s: %s at %s: %+v", at, r.Status, r.Stage, r.Failure)
		}
		s.is(broker.Active, false)
	}
}
