package onboarding_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/chain"
	"github.com/hostler/hostler/broker/chain/chaintest"
	"github.com/hostler/hostler/broker/onboarding"
	"github.com/hostler/hostler/test/maassim"
)

// adopt begins the adoption of a deployed machine, under the hostname of the request if one is
// given.
func (w *world) adopt(id, systemID, hostname string) string {
	w.t.Helper()
	state, locks, err := onboarding.NewAdoption(w.site, w.profile, w.sku, onboarding.AdoptionRequest{SystemID: systemID, Hostname: hostname})
	if err != nil {
		w.t.Fatal(err)
	}
	if _, err := w.engine.Start(ctx, chain.Start{ID: id, Kind: onboarding.AdoptionKind, Site: w.site.Name, State: state, Locks: locks, RequestedBy: "ada"}); err != nil {
		w.t.Fatal(err)
	}
	return id
}

// deployed arranges box 1 as a machine that somebody has deployed.
func deployed(w *world) string {
	return w.region.Arrange(maassim.Arranged{SystemID: "abc123", Hostname: "c01", Hardware: w.box(1), Status: maassim.Deployed, Owner: "admin", Series: "ubuntu/noble", PowerOn: true})
}

// there arranges box 1 as deployed, after a story's changes.
func there(change func(*maassim.Arranged)) func(*world) {
	return func(w *world) {
		a := maassim.Arranged{SystemID: "abc123", Hostname: "c01", Hardware: w.box(1), Status: maassim.Deployed, Owner: "admin", Series: "ubuntu/noble", PowerOn: true}
		change(&a)
		w.region.Arrange(a)
	}
}

// untouched fails if MAAS was asked to change anything, or if the machine has changed.
func (w *world) untouched(history int) {
	w.t.Helper()
	if wrote := w.writes(); len(wrote) > 0 {
		w.t.Errorf("an adoption asked MAAS for %v", wrote)
	}
	if h := w.region.History("abc123"); len(h) != history {
		w.t.Errorf("the machine was changed: %+v", h[history:])
	}
}

// The stories of an adoption: the machine, what happens meanwhile, and the end.
var adoptions = []struct {
	name     string
	there    func(w *world) // nil: deployed
	hostname string
	faults   []maassim.Fault
	byHand   bool // a person takes part: the changes in the machine's history are the person's
	// acts happen when the run rests: come, other (with other hardware), mend, activate, remove,
	// ready, or an action.
	acts  string
	ends  chain.Status
	stage string
	class broker.FailureClass
	code  string
	node  broker.NodeStatus
}{
	{name: "a machine that is there", acts: "come", ends: chain.Completed, node: broker.Active},
	{name: "by the name that it has", hostname: "c01", acts: "come", ends: chain.Completed, node: broker.Active},
	{name: "one that is locked", there: there(func(a *maassim.Arranged) { a.Locked = true }), acts: "come", ends: chain.Completed, node: broker.Active},
	{name: "another name than was given", hostname: "c02", ends: chain.FailedManual, stage: "find_in_maas", class: broker.StateAmbiguity, code: "hostname_mismatch"},
	{name: "no such machine", there: func(w *world) { w.box(1) }, ends: chain.FailedRetryable, stage: "find_in_maas", class: broker.InputConfigError, code: "machine_unknown"},
	{name: "Ready", there: there(func(a *maassim.Arranged) { a.Status, a.Owner = maassim.Ready, "" }), ends: chain.FailedManual, stage: "find_in_maas", class: broker.StateAmbiguity, code: "machine_not_deployed"},
	{name: "Allocated", there: there(func(a *maassim.Arranged) { a.Status = maassim.Allocated }), ends: chain.FailedManual, stage: "find_in_maas", class: broker.StateAmbiguity, code: "machine_not_deployed"},
	{name: "Deploying", there: there(func(a *maassim.Arranged) { a.Status = maassim.Deploying }), ends: chain.FailedManual, stage: "find_in_maas", class: broker.StateAmbiguity, code: "machine_not_deployed"},
	{name: "Failed deployment", there: there(func(a *maassim.Arranged) { a.Status = maassim.FailedDeployment }), ends: chain.FailedManual, stage: "find_in_maas", class: broker.StateAmbiguity, code: "machine_not_deployed"},
	{name: "Broken", there: there(func(a *maassim.Arranged) { a.Status = maassim.Broken }), ends: chain.FailedManual, stage: "find_in_maas", class: broker.StateAmbiguity, code: "machine_broken"},
	{name: "of another MAAS user", there: there(func(a *maassim.Arranged) { a.Owner = "cloud-team" }), ends: chain.FailedManual, stage: "find_in_maas", class: broker.StateAmbiguity, code: "machine_of_other_user"},
	{name: "without an owner", there: there(func(a *maassim.Arranged) { a.Owner = "" }), ends: chain.FailedManual, stage: "find_in_maas", class: broker.StateAmbiguity, code: "owner_unknown"},
	{name: "marked by another broker", there: there(func(a *maassim.Arranged) {
		a.Annotations = map[string]string{"hostler-node": "n-elsewhere", "hostler-run": "r-elsewhere"}
	}), ends: chain.FailedManual, stage: "find_in_maas", class: broker.StateAmbiguity, code: "machine_not_ours"},
	{name: "marked for a node that was let go", there: func(w *world) {
		n, _ := w.book.Prepare(ctx, onboarding.NewNode{RunID: "an older one", Site: "dc1", Hostname: "c01", MAASSystemID: "abc123"})
		w.book.Put(n, broker.Deleted)
		there(func(a *maassim.Arranged) {
			a.Annotations = map[string]string{"hostler-node": n, "hostler-run": "an older one"}
		})(w)
	}, acts: "come", ends: chain.Completed, node: broker.Active},
	{name: "marked by a live run for a node that was let go", there: func(w *world) {
		n, _ := w.book.Prepare(ctx, onboarding.NewNode{RunID: "an older one", Site: "dc1", Hostname: "c77", MAASSystemID: "abc123"})
		w.book.Put(n, broker.Deleted)
		there(func(a *maassim.Arranged) {
			a.Annotations = map[string]string{"hostler-node": n, "hostler-run": "r-elsewhere"}
		})(w)
	}, ends: chain.FailedManual, stage: "find_in_maas", class: broker.StateAmbiguity, code: "machine_not_ours"},
	{name: "bound to another node", there: func(w *world) {
		_, _ = w.book.Prepare(ctx, onboarding.NewNode{RunID: "an older one", Site: "dc1", Hostname: "c77", MAASSystemID: deployed(w)})
	}, ends: chain.FailedManual, stage: "find_in_maas", class: broker.StateAmbiguity, code: "machine_not_ours"},
	{name: "the hostname is another node's", there: func(w *world) {
		deployed(w)
		_, _ = w.book.Prepare(ctx, onboarding.NewNode{RunID: "an older one", Site: "dc1", Hostname: "c01", MAASSystemID: "zzz999"})
	}, ends: chain.FailedRetryable, stage: "bind_node", class: broker.InputConfigError, code: "hostname_taken", node: broker.Enrolling},
	{name: "an interface is missing", there: there(func(a *maassim.Arranged) { a.Hardware.NICs = a.Hardware.NICs[:1] }), ends: chain.FailedManual, stage: "compare_with_sku", class: broker.HardwareMismatch, code: "nic_missing"},
	{name: "no disk to boot from", there: there(func(a *maassim.Arranged) { a.Hardware.Disks = a.Hardware.Disks[:2] }), ends: chain.FailedManual, stage: "compare_with_sku", class: broker.HardwareMismatch, code: "boot_disk_missing"},
	{name: "nobody runs the command", ends: chain.FailedManual, stage: "wait_for_agent_enrollment", class: broker.AgentEnrollmentFailure, code: "failed_enrollment", node: broker.Enrolling},
	{name: "its agent comes when the run has given up", acts: "- come resume", ends: chain.Completed, node: broker.Active},
	{name: "its agent comes from other hardware", acts: "other", ends: chain.FailedManual, stage: "wait_for_agent_enrollment", class: broker.HardwareMismatch, code: "hardware_mismatch", node: broker.Quarantined},
	{name: "other hardware, and asked again", acts: "other - resume", ends: chain.FailedManual, stage: "wait_for_agent_enrollment", class: broker.HardwareMismatch, code: "hardware_mismatch", node: broker.Quarantined},
	{name: "other hardware, mended, and asked again", acts: "other - mend resume", ends: chain.FailedManual, stage: "wait_for_agent_enrollment", class: broker.AgentEnrollmentFailure, code: "failed_enrollment", node: broker.Quarantined},
	{name: "other hardware, mended, let in and asked again", acts: "other - mend resume - activate resume", ends: chain.Completed, node: broker.Active},
	{name: "mended, and other hardware again", acts: "other - mend resume - other resume", ends: chain.FailedManual, stage: "wait_for_agent_enrollment", class: broker.HardwareMismatch, code: "hardware_mismatch", node: broker.Quarantined},
	{name: "other hardware, which a person lets in", acts: "other - activate adopt_observed_state", ends: chain.Reconciled, node: broker.Active},
	{name: "released by somebody before its agent came", byHand: true, acts: "ready come", ends: chain.FailedManual, stage: "wait_for_agent_enrollment", class: broker.StateAmbiguity, code: "machine_not_deployed", node: broker.Enrolling},
	{name: "taken by somebody before its agent came", byHand: true, acts: "taken come", ends: chain.FailedManual, stage: "wait_for_agent_enrollment", class: broker.StateAmbiguity, code: "machine_not_ours", node: broker.Enrolling},
	{name: "cancelled before its agent came", acts: "cancel", ends: chain.Cancelled, node: broker.Deleted},
	{name: "cancelled when its agent had come", acts: "other - cancel", ends: chain.Cancelled, node: broker.Quarantined},
	{name: "begun anew before its agent came", acts: "- restart_clean come", ends: chain.Completed, node: broker.Active},
	{name: "the region is away for a while", faults: faults(fault(maassim.Unreachable, "", 30)), acts: "come", ends: chain.Completed, node: broker.Active},
	{name: "calls fail now and then", faults: faults(fault(maassim.Unavailable, "read"), fault(maassim.RackBusy, "read"), fault(maassim.Internal, "list"), fault(maassim.AnswerLost, "read")), acts: "come", ends: chain.Completed, node: broker.Active},
}

func TestAnAdoptionLooksAtMAASAndNeverChangesIt(t *testing.T) {
	for _, row := range adoptions {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, "3.6")
			if row.there == nil {
				row.there = func(w *world) { deployed(w) }
			}
			row.there(w)
			w.region.Inject(row.faults...)
			history := len(w.region.History("abc123"))
			id := w.adopt("r1", "abc123", row.hostname)
			acts := strings.Fields(row.acts)
			w.settle(func() { acts = w.play(id, acts) })
			for range 10 {
				if len(acts) == 0 {
					break
				}
				if acts[0] == "-" {
					acts = acts[1:]
				}
				acts = w.play(id, acts)
				w.settle(func() { acts = w.play(id, acts) })
			}
			r := w.run(id)
			if r.Status != row.ends || len(acts) > 0 {
				t.Fatalf("ends %s at %s (%+v), want %s; not done: %v", r.Status, r.Stage, r.Failure, row.ends, acts)
			}
			if f := r.Failure; row.class != "" && (f == nil || f.Class != chain.Class(row.class) || f.Code != row.code || r.Stage != row.stage || r.NextAction == "") {
				t.Errorf("at %s it fails with %+v, next %q; want %s, %s at %s", r.Stage, f, r.NextAction, row.class, row.code, row.stage)
			}
			if n := w.node("c01"); n.Status != row.node {
				t.Errorf("node is %q (%s), want %q", n.Status, n.StatusReason, row.node)
			}
			if row.byHand {
				history = len(w.region.History("abc123"))
			}
			w.untouched(history)
		})
	}
}

// play performs the next act of a story, once the run waits for its agent or has stopped.
func (w *world) play(id string, acts []string) []string {
	w.t.Helper()
	r := w.run(id)
	waits := r.Status == chain.Running && r.Stage == "wait_for_agent_enrollment" && r.Waiting != ""
	if len(acts) == 0 || acts[0] == "-" || !waits && !r.Status.Stopped() {
		return acts
	}
	node := stateOf(w.t.(*testing.T), r).NodeID
	switch acts[0] {
	case "come":
		w.book.Come(node)
	case "other":
		w.book.Unlike = func(string) string { return "it has other disks" }
		w.book.Come(node)
	case "mend":
		w.book.Unlike = nil
	case "activate":
		w.book.Put(node, broker.Active)
	case "ready":
		_ = w.region.ByHand(maassim.ReadyByHand, "abc123")
	case "taken":
		_ = w.region.ByHand(maassim.TakenByHand, "abc123")
	default:
		w.act(id, chain.Action(acts[0]))
	}
	return acts[1:]
}

// Whichever save is lost, with the broker or without, the end is the same.
func TestAnAdoptionSurvivesTheLossOfAnySave(t *testing.T) {
	for _, kind := range []chaintest.Fate{chaintest.Lost, chaintest.Mute} {
		for _, other := range []bool{false, true} {
			for n := 0; ; n++ {
				w := newWorld(t, "3.6")
				deployed(w)
				history := len(w.region.History("abc123"))
				id := w.adopt("r1", "abc123", "")
				w.lossy.Fate = func(call int) chaintest.Fate {
					if call == n {
						return kind
					}
					return chaintest.Done
				}
				come := "come"
				if other {
					come = "other"
				}
				acts := []string{come}
				w.settle(func() { acts = w.play(id, acts) })
				r, node := w.run(id), w.node("c01")
				if want := (map[bool]string{false: "completed active", true: "failed_manual_intervention quarantined"})[other]; fmt.Sprintf("%s %s", r.Status, node.Status) != want || len(w.book.All()) != 1 {
					t.Fatalf("save %d %v: ends %s (%+v), node %s of %d; want %s", n, kind, r.Status, r.Failure, node.Status, len(w.book.All()), want)
				}
				w.untouched(history)
				if w.lossy.Calls() <= n {
					break
				}
			}
		}
	}
}

func TestAnAdoptionIsRefusedBeforeItBegins(t *testing.T) {
	w := newWorld(t, "3.6")
	disabled, elsewhere := w.site, w.profile
	disabled.Status, elsewhere.SiteID = broker.SiteDisabled, "another"
	for name, row := range map[string]struct {
		site    broker.Site
		profile broker.Profile
		req     onboarding.AdoptionRequest
		code    string
	}{
		"not a system_id":        {w.site, w.profile, onboarding.AdoptionRequest{}, "adoption_invalid"},
		"a path for a system_id": {w.site, w.profile, onboarding.AdoptionRequest{SystemID: "../../users"}, "adoption_invalid"},
		"not a valid hostname":   {w.site, w.profile, onboarding.AdoptionRequest{SystemID: "abc123", Hostname: "a b"}, "adoption_invalid"},
		"a disabled site":        {disabled, w.profile, onboarding.AdoptionRequest{SystemID: "abc123"}, "site_disabled"},
		"another site's profile": {w.site, elsewhere, onboarding.AdoptionRequest{SystemID: "abc123"}, "adoption_invalid"},
	} {
		if _, _, err := onboarding.NewAdoption(row.site, row.profile, w.sku, row.req); err == nil || broker.AsError(err).Code != row.code {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Where MAAS knows no serial, no disk can prove that the agent runs on the machine.
func TestAnAdoptionThatNoDiskProvesIsWarnedOf(t *testing.T) {
	for _, serial := range []bool{true, false} {
		w := newWorld(t, "3.6")
		there(func(a *maassim.Arranged) {
			if !serial {
				a.Hardware.Disks = slices.Clone(a.Hardware.Disks)
				for i := range a.Hardware.Disks {
					a.Hardware.Disks[i].Serial = ""
				}
			}
		})(w)
		id := w.adopt("r1", "abc123", "")
		w.settle(func() { w.play(id, []string{"come"}) })
		r := w.run(id)
		if warned := strings.Contains(strings.Join(stateOf(t, r).Warnings, "\n"), "no disk of machine"); r.Status != chain.Completed || warned == serial {
			t.Errorf("with serials %v it ends %s, warned %v (%+v)", serial, r.Status, warned, r.Failure)
		}
	}
}

// An onboarding and an adoption of one machine exclude each other, whichever begins first.
func TestAMachineIsInTheHandsOfOneRun(t *testing.T) {
	w := newWorld(t, "3.6")
	deployed(w)
	w.patience = time.Minute
	id := w.adopt("r1", "abc123", "")
	w.settle(nil)
	state, locks, err := onboarding.NewAdoption(w.site, w.profile, w.sku, onboarding.AdoptionRequest{SystemID: "abc123"})
	if err != nil {
		t.Fatal(err)
	}
	_, err = w.engine.Start(ctx, chain.Start{ID: "r2", Kind: onboarding.AdoptionKind, Site: "dc1", State: state, Locks: locks})
	if err == nil || !strings.Contains(err.Error(), "run r1") {
		t.Errorf("a second adoption: %v", err)
	}
	other, locks, err := onboarding.New(w.site, w.profile, w.sku, onboarding.Request{Hostname: "c01", IPMIIP: maassim.Box(1).BMC.Address})
	if err != nil {
		t.Fatal(err)
	}
	_, err = w.engine.Start(ctx, chain.Start{ID: "r3", Kind: onboarding.Kind, Site: "dc1", State: other, Locks: locks})
	if err == nil || !strings.Contains(err.Error(), "hostname/dc1/c01 is held by run r1") {
		t.Errorf("an onboarding of it: %v", err)
	}
	if s := stateOf(t, w.run(id)); s.IPMIIP != maassim.Box(1).BMC.Address || len(s.Disks) != 3 || s.BootDisk == nil {
		t.Errorf("it has found %+v", s)
	}
}

// A refusal of an adoption is reported before the adoption begins, with a code for each cause, and
// the look changes nothing. A run that begins nevertheless is refused with the same code.
func TestAnAdoptionIsRefusedByTheSameCodesBeforeItBegins(t *testing.T) {
	for name, row := range map[string]struct {
		change   func(*maassim.Arranged)
		id, code string
		hostname string
	}{
		"one that can be":          {id: "abc123"},
		"no such machine":          {id: "zzz999", code: "machine_unknown"},
		"broken":                   {func(a *maassim.Arranged) { a.Status = maassim.Broken }, "abc123", "machine_broken", ""},
		"of another user":          {func(a *maassim.Arranged) { a.Owner = "bob" }, "abc123", "machine_of_other_user", ""},
		"without an owner":         {func(a *maassim.Arranged) { a.Owner = "" }, "abc123", "owner_unknown", ""},
		"Ready":                    {func(a *maassim.Arranged) { a.Status, a.Owner = maassim.Ready, "" }, "abc123", "machine_not_deployed", ""},
		"in rescue mode":           {func(a *maassim.Arranged) { a.Status = maassim.RescueMode }, "abc123", "machine_not_deployed", ""},
		"tested":                   {func(a *maassim.Arranged) { a.Status = maassim.Testing }, "abc123", "machine_not_deployed", ""},
		"not of the SKU":           {func(a *maassim.Arranged) { a.Hardware.Disks = a.Hardware.Disks[:2] }, "abc123", "boot_disk_missing", ""},
		"called otherwise":         {nil, "abc123", "hostname_mismatch", "c02"},
		"marked by another broker": {func(a *maassim.Arranged) { a.Annotations = map[string]string{"hostler-node": "n", "hostler-run": "r"} }, "abc123", "machine_not_ours", ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, "3.6")
			if row.change == nil {
				row.change = func(*maassim.Arranged) {}
			}
			there(row.change)(w)
			state, _, err := onboarding.NewAdoption(w.site, w.profile, w.sku, onboarding.AdoptionRequest{SystemID: row.id, Hostname: row.hostname})
			if err != nil {
				t.Fatal(err)
			}
			history := len(w.region.History("abc123"))
			refused, err := w.chains().CheckAdoptions(ctx, w.site, []onboarding.Onboarding{state})
			if err != nil || len(refused) > 1 || len(refused) == 1 && (refused[0].Code != row.code || refused[0].SystemID != row.id || refused[0].Detail == "") || len(refused) == 0 && row.code != "" {
				t.Fatalf("refused as %+v, %v; want %q", refused, err, row.code)
			}
			id := w.adopt("r1", row.id, row.hostname)
			w.patience = 2 * time.Minute
			w.settle(nil)
			if f := w.run(id).Failure; row.code != "" && (f == nil || f.Code != row.code || f.Message != refused[0].Detail) {
				t.Errorf("the run fails with %+v, and was to with %+v", f, refused)
			}
			w.untouched(history)
		})
	}
}

// A check that cannot reach MAAS returns an error, and approves nothing.
func TestAnAdoptionIsNotPlannedUnseen(t *testing.T) {
	w := newWorld(t, "3.6")
	deployed(w)
	w.region.Inject(maassim.Fault{Kind: maassim.Unreachable, Times: -1})
	state, _, err := onboarding.NewAdoption(w.site, w.profile, w.sku, onboarding.AdoptionRequest{SystemID: "abc123"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.chains().CheckAdoptions(ctx, w.site, []onboarding.Onboarding{state}); broker.AsError(err).Code != "maas_unreached" {
		t.Errorf("%v", err)
	}
}
