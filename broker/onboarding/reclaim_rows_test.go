package onboarding_test

import (
	"strings"
	"testing"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/chain"
	"github.com/hostler/hostler/broker/onboarding"
	"github.com/hostler/hostler/test/maassim"
)

func erasing(how string) func(*onboarding.ReclaimRequest) {
	return func(q *onboarding.ReclaimRequest) { q.Erase = how }
}

// did checks the erase that the run records, and that MAAS did erase so.
func did(how, downgrade string) func(*testing.T, *world, onboarding.Onboarding) {
	return func(t *testing.T, w *world, s onboarding.Onboarding) {
		t.Helper()
		rc := s.Reclaim
		if rc.Did != how || (downgrade == "") != (rc.Downgrade == "") || !strings.Contains(rc.Downgrade, downgrade) {
			t.Errorf("it says that MAAS did %q, downgrade %q", rc.Did, rc.Downgrade)
		}
		if rc.Downgrade != "" && !strings.Contains(strings.Join(s.Warnings, "\n"), rc.Downgrade) {
			t.Errorf("nobody is warned: %q", s.Warnings)
		}
		// The latest erase that the region completed.
		if last := w.erasedHow(); how != "none" && last != how && (how != "quick" || last != "secure, or quick") {
			t.Errorf("MAAS erased %q, and the run says %q", last, how)
		}
	}
}

// released checks how many releases MAAS carried out.
func released(times int) func(*testing.T, *world, onboarding.Onboarding) {
	return func(t *testing.T, w *world, _ onboarding.Onboarding) {
		t.Helper()
		if n := hardware(w, "release"); n != times {
			t.Errorf("%d releases, want %d", n, times)
		}
	}
}

func all(checks ...func(*testing.T, *world, onboarding.Onboarding)) func(*testing.T, *world, onboarding.Onboarding) {
	return func(t *testing.T, w *world, s onboarding.Onboarding) {
		t.Helper()
		for _, c := range checks {
			c(t, w, s)
		}
	}
}

func config(name, value string) func(*world) {
	return func(w *world) { w.call("POST", "maas/?op=set_config", "name="+name+"&value="+value) }
}

func isReady(a *maassim.Arranged, _ *world) {
	a.Status, a.Owner, a.Annotations, a.Series, a.Token, a.PowerOn = maassim.Ready, "", nil, "", false, false
}

// reclaimRows are the failures of a turnover's MAAS stages, and the ways into and out of them.
var reclaimRows = []reclaim{
	{name: "ReleaseMaasNode: it goes well", story: "…", ends: chain.Completed, machine: maassim.Deployed, check: all(did("none", ""), released(1))},
	{name: "ReleaseMaasNode: already so", there: isReady, story: "load_site_config:succeeded release_maas_node:skipped …configure_storage", ends: chain.Completed, machine: maassim.Deployed, check: all(did("none", ""), released(0))},
	{name: "ReleaseMaasNode: MAAS release fails once", faults: faults(fault(maassim.Unavailable, "release")), story: "load_site_config:succeeded release_maas_node:failed …release_maas_node", ends: chain.Completed, machine: maassim.Deployed, check: released(1)},
	{name: "ReleaseMaasNode: MAAS release fails again and again", faults: faults(fault(maassim.Internal, "release", -1)), story: "load_site_config:succeeded release_maas_node:failed release_maas_node:failed release_maas_node:failed release_maas_node:failed", ends: chain.FailedRetryable, class: broker.UpstreamTransient, machine: maassim.Deployed},
	{name: "ReleaseMaasNode: power-off fails, and stops for a person", faults: faults(fault(maassim.PowerFails, "", -1)), story: "load_site_config:succeeded release_maas_node:failed release_maas_node:failed release_maas_node:failed release_maas_node:failed", ends: chain.FailedManual, class: broker.BMCPowerFailure, machine: maassim.Deployed},
	{name: "ReleaseMaasNode: power-off fails, is mended, and resumed", faults: faults(fault(maassim.PowerFails, "", -1)), acts: "- relent( - resume", story: "load_site_config:succeeded release_maas_node:failed release_maas_node:failed release_maas_node:failed release_maas_node:failed …release_maas_node", ends: chain.Completed, machine: maassim.Deployed},
	{name: "ReleaseMaasNode: it hangs once", faults: faults(fault(maassim.ReleaseHangs, "")), story: "load_site_config:succeeded release_maas_node:failed …release_maas_node", ends: chain.Completed, machine: maassim.Deployed, check: released(2)},
	{name: "ReleaseMaasNode: it hangs always", faults: faults(fault(maassim.ReleaseHangs, "", -1)), story: "load_site_config:succeeded release_maas_node:failed release_maas_node:failed release_maas_node:failed release_maas_node:failed", ends: chain.FailedManual, class: broker.BMCPowerFailure, code: "failed_release", machine: maassim.ReleasingFailed},
	{name: "ReleaseMaasNode: timeout to Ready", faults: faults(fault(maassim.ReleaseHangs, "")), setup: func(w *world) { w.region.Timing.ReleaseTimeout = 24 * time.Hour }, story: "load_site_config:succeeded release_maas_node:failed", ends: chain.FailedManual, class: broker.BMCPowerFailure, code: "failed_release_timeout", machine: maassim.Releasing},
	{name: "ReleaseMaasNode: the answer is lost", faults: faults(fault(maassim.AnswerLost, "release")), story: "…", ends: chain.Completed, machine: maassim.Deployed, check: released(1)},
	{name: "ReleaseMaasNode: 504, and it was carried out", faults: faults(fault(maassim.GatewayTimeout, "release")), story: "…", ends: chain.Completed, machine: maassim.Deployed, check: released(1)},
	{name: "ReleaseMaasNode: a busy region", faults: faults(fault(maassim.Conflicted, "release", 3)), story: "…", ends: chain.Completed, machine: maassim.Deployed, check: released(1)},
	{name: "ReleaseMaasNode: the region is away for a while", faults: faults(fault(maassim.Unreachable, "", 40)), story: "…", ends: chain.Completed, machine: maassim.Deployed, check: released(1)},
	{name: "ReleaseMaasNode: somebody deletes the machine", acts: "#Releasing delete(", story: "load_site_config:succeeded release_maas_node:failed", ends: chain.FailedManual, class: broker.StateAmbiguity, code: "machine_gone", machine: noMachine},
	{name: "ReleaseMaasNode: somebody takes it when it is Ready", acts: "@configure_storage taken(", story: "load_site_config:succeeded release_maas_node:succeeded configure_storage:failed", ends: chain.FailedManual, class: broker.StateAmbiguity, code: "machine_not_ours", machine: maassim.Allocated},
	{name: "ReleaseMaasNode: MAAS calls it Broken", there: func(a *maassim.Arranged, _ *world) { a.Status, a.Previous = maassim.Broken, maassim.Deployed }, story: "…", ends: chain.Completed, machine: maassim.Deployed, check: released(1)},
	{name: "ReleaseMaasNode: it deploys", there: func(a *maassim.Arranged, _ *world) { a.Status = maassim.Deploying }, story: "…", ends: chain.Completed, machine: maassim.Deployed, check: released(1)},
	{name: "ReleaseMaasNode: its deployment has failed", there: func(a *maassim.Arranged, _ *world) { a.Status = maassim.FailedDeployment }, story: "…", ends: chain.Completed, machine: maassim.Deployed},
	{name: "ReleaseMaasNode: it is in rescue mode", there: func(a *maassim.Arranged, _ *world) { a.Status, a.Previous = maassim.RescueMode, maassim.Deployed }, story: "load_site_config:succeeded release_maas_node:failed", ends: chain.FailedManual, class: broker.StateAmbiguity, code: "machine_not_releasable", machine: maassim.RescueMode, check: released(0)},

	// Erasing.
	{name: "erase: quick", with: erasing("quick"), story: "…", ends: chain.Completed, machine: maassim.Deployed, check: did("quick", "")},
	{name: "erase: quick, up to 3.4", version: "3.4", with: erasing("quick"), story: "…", ends: chain.Completed, machine: maassim.Deployed, check: did("quick", "")},
	{name: "erase: secure", with: erasing("secure"), story: "…", ends: chain.Completed, machine: maassim.Deployed, check: did("secure", "")},
	{name: "erase: secure, where the region's own word is quick", setup: config("disk_erase_with_quick_erase", "true"), with: erasing("secure"), story: "…", ends: chain.Completed, machine: maassim.Deployed, check: did("secure", "")},
	{name: "erase: none, and the region erases all the same", setup: config("enable_disk_erasing_on_release", "true"), story: "…", ends: chain.Completed, machine: maassim.Deployed, check: did("secure", "")},
	{name: "erase: none, and the region erases all the same, and quickly", setup: func(w *world) {
		config("enable_disk_erasing_on_release", "true")(w)
		w.clock.Advance(time.Second)
		config("disk_erase_with_quick_erase", "true")(w)
	}, story: "…", ends: chain.Completed, machine: maassim.Deployed, check: did("quick", "")},
	{name: "erase: it fails once", with: erasing("secure"), faults: faults(fault(maassim.EraseFails, "")), strict: true, story: "load_site_config:succeeded release_maas_node:failed …release_maas_node", ends: chain.Completed, machine: maassim.Deployed, check: all(did("secure", ""), released(2))},
	{name: "erase: it fails twice, and is done without", with: erasing("secure"), faults: faults(fault(maassim.EraseFails, "", 2)), story: "load_site_config:succeeded release_maas_node:failed …release_maas_node", ends: chain.Completed, machine: maassim.Deployed, check: all(did("none", "failed 2 times"), released(3))},
	{name: "erase: it fails twice, and may not be done without", with: erasing("secure"), faults: faults(fault(maassim.EraseFails, "", -1)), strict: true, story: "load_site_config:succeeded release_maas_node:failed release_maas_node:failed", ends: chain.FailedManual, class: broker.DiskEraseUnsupported, code: "failed_disk_erase", machine: maassim.FailedDiskErasing},
	{name: "erase: it fails, is mended and resumed", with: erasing("secure"), faults: faults(fault(maassim.EraseFails, "", 2)), strict: true, acts: "- resume", story: "load_site_config:succeeded release_maas_node:failed release_maas_node:failed …release_maas_node", ends: chain.Completed, machine: maassim.Deployed, check: did("secure", "")},
	{name: "erase: it fails, and a person accepts that", with: erasing("secure"), faults: faults(fault(maassim.EraseFails, "", -1)), strict: true, acts: "- adopt_observed_state", story: "load_site_config:succeeded release_maas_node:failed release_maas_node:failed …release_maas_node", ends: chain.Reconciled, machine: maassim.Deployed, check: did("none", "failed 3 times")},
	{name: "erase: it fails, and the region erases whatever it is asked", with: erasing("quick"), setup: config("enable_disk_erasing_on_release", "true"), faults: faults(fault(maassim.EraseFails, "", -1)), story: "load_site_config:succeeded release_maas_node:failed release_maas_node:failed", ends: chain.FailedManual, class: broker.DiskEraseUnsupported, code: "failed_disk_erase", machine: maassim.FailedDiskErasing},
	{name: "erase: it never ends, and somebody aborts it", with: erasing("secure"), faults: faults(fault(maassim.EraseHangs, "")), strict: true, acts: "#Disk_erasing abort(", story: "load_site_config:succeeded release_maas_node:failed …release_maas_node", ends: chain.Completed, machine: maassim.Deployed, check: did("secure", "")},
	{name: "erase: it was Ready already", there: isReady, with: erasing("quick"), story: "load_site_config:succeeded release_maas_node:skipped …configure_storage", ends: chain.Completed, machine: maassim.Deployed, check: did("none", "released without this run")},
	{name: "erase: it was Ready already, and may not be done without", there: isReady, with: erasing("quick"), strict: true, story: "load_site_config:succeeded release_maas_node:failed", ends: chain.FailedManual, class: broker.EraseDowngraded, code: "erase_not_made", machine: maassim.Ready},
	{name: "erase: it was Ready already, and a person accepts that", there: isReady, with: erasing("quick"), strict: true, acts: "- adopt_observed_state", story: "load_site_config:succeeded release_maas_node:failed release_maas_node:skipped …configure_storage", ends: chain.Reconciled, machine: maassim.Deployed, check: did("none", "released without this run")},
	{name: "erase: MAAS's history has no word of it, and it was seen", with: erasing("quick"), strict: true, faults: faults(fault(maassim.EventsMissing, "", -1)), story: "…", ends: chain.Completed, machine: maassim.Deployed, check: did("quick", "")},
	{name: "erase: somebody aborts it, and releases the machine", with: erasing("quick"), strict: true, acts: "#Disk_erasing abort( #Failed_disk_erasing release(", story: "load_site_config:succeeded release_maas_node:failed", ends: chain.FailedManual, class: broker.EraseDowngraded, code: "erase_not_made", machine: maassim.Ready},
	{name: "erase: somebody released it, and MAAS erased it quickly at least", with: erasing("quick"), strict: true, setup: func(w *world) {
		w.call("POST", "machines/"+w.machine(maassim.Box(1).Serial).SystemID+"/?op=release", "erase=true")
		w.clock.Advance(time.Hour)
	}, story: "load_site_config:succeeded release_maas_node:skipped …configure_storage", ends: chain.Completed, machine: maassim.Deployed, check: func(t *testing.T, _ *world, s onboarding.Onboarding) {
		if s.Reclaim.Did != "quick" || s.Reclaim.Downgrade != "" {
			t.Errorf("%+v", s.Reclaim)
		}
	}},
	{name: "erase: no power to erase by", with: erasing("quick"), faults: faults(fault(maassim.PowerFails, "", -1)), story: "load_site_config:succeeded release_maas_node:failed release_maas_node:failed release_maas_node:failed release_maas_node:failed", ends: chain.FailedManual, class: broker.BMCPowerFailure, machine: maassim.Deployed},

	// Removing the machine.
	{name: "PowerOffMaasNode: it is off", kind: "removal", story: "load_site_config:succeeded release_maas_node:succeeded power_off_maas_node:skipped remove_maas_record:skipped", ends: chain.Completed, machine: maassim.Ready, check: isOff},
	{name: "PowerOffMaasNode: somebody switched it on", kind: "removal", acts: "@power_off_maas_node on(", story: "… remove_maas_record:skipped", ends: chain.Completed, machine: maassim.Ready, check: isOff},
	{name: "PowerOffMaasNode: MAAS power-off fails once", kind: "removal", acts: "@power_off_maas_node stuck(1", story: "load_site_config:succeeded release_maas_node:succeeded power_off_maas_node:failed power_off_maas_node:succeeded remove_maas_record:skipped", ends: chain.Completed, machine: maassim.Ready, check: isOff},
	{name: "PowerOffMaasNode: MAAS power-off fails always", kind: "removal", acts: "@power_off_maas_node stuck(-1", story: "load_site_config:succeeded release_maas_node:succeeded power_off_maas_node:failed power_off_maas_node:failed power_off_maas_node:failed power_off_maas_node:failed", ends: chain.FailedManual, class: broker.BMCPowerFailure, machine: maassim.Ready},
	{name: "PowerOffMaasNode: MAAS power-off fails, and the machine is switched off by hand", kind: "removal", acts: "@power_off_maas_node stuck(-1 - off( - resume", story: "load_site_config:succeeded release_maas_node:succeeded power_off_maas_node:failed power_off_maas_node:failed power_off_maas_node:failed power_off_maas_node:failed power_off_maas_node:succeeded remove_maas_record:skipped", ends: chain.Completed, machine: maassim.Ready, check: isOff},
	{name: "PowerOffMaasNode: it says yes, and the machine stays on", kind: "removal", acts: "@power_off_maas_node undead(", story: "load_site_config:succeeded release_maas_node:succeeded power_off_maas_node:failed power_off_maas_node:failed power_off_maas_node:failed power_off_maas_node:failed", ends: chain.FailedManual, class: broker.BMCPowerFailure, code: "still_on", machine: maassim.Ready},
	{name: "PowerOffMaasNode: the answer is lost", kind: "removal", acts: "@power_off_maas_node on(", faults: faults(fault(maassim.AnswerLost, "power_off")), story: "… remove_maas_record:skipped", ends: chain.Completed, machine: maassim.Ready, check: isOff},
	{name: "PowerOffMaasNode: MAAS cannot tell, and nobody pretends", kind: "removal", acts: "@power_off_maas_node manual(", story: "load_site_config:succeeded release_maas_node:succeeded power_off_maas_node:failed power_off_maas_node:failed power_off_maas_node:failed power_off_maas_node:failed", ends: chain.FailedManual, class: broker.BMCPowerFailure, code: "power_unknown", machine: maassim.Ready},
	{name: "PowerOffMaasNode: MAAS cannot tell, and a person has looked", kind: "removal", acts: "@power_off_maas_node manual( - adopt_observed_state", story: "load_site_config:succeeded release_maas_node:succeeded power_off_maas_node:failed power_off_maas_node:failed power_off_maas_node:failed power_off_maas_node:failed power_off_maas_node:succeeded remove_maas_record:skipped", ends: chain.Reconciled, machine: maassim.Ready, check: warned("only an operator has confirmed")},
	{name: "PowerOffMaasNode: the BMC does not answer", kind: "removal", acts: "@power_off_maas_node mute(", story: "load_site_config:succeeded release_maas_node:succeeded power_off_maas_node:failed power_off_maas_node:failed power_off_maas_node:failed power_off_maas_node:failed", ends: chain.FailedManual, class: broker.BMCPowerFailure, machine: maassim.Ready},
	{name: "PowerOffMaasNode: somebody took it", kind: "removal", acts: "@power_off_maas_node taken(", story: "load_site_config:succeeded release_maas_node:succeeded power_off_maas_node:failed", ends: chain.FailedManual, class: broker.StateAmbiguity, code: "machine_not_ours", machine: maassim.Allocated},

	{name: "RemoveMaasRecord: it goes well", kind: "removal", with: forget, story: "load_site_config:succeeded release_maas_node:succeeded power_off_maas_node:skipped remove_maas_record:succeeded", ends: chain.Completed, machine: noMachine, check: warned()},
	{name: "RemoveMaasRecord: already gone", kind: "removal", with: forget, acts: "@remove_maas_record delete(", story: "load_site_config:succeeded release_maas_node:succeeded power_off_maas_node:skipped remove_maas_record:skipped", ends: chain.Completed, machine: noMachine, check: warned()},
	{name: "RemoveMaasRecord: the answer is lost", kind: "removal", with: forget, faults: faults(fault(maassim.AnswerLost, "delete")), story: "load_site_config:succeeded release_maas_node:succeeded power_off_maas_node:skipped remove_maas_record:succeeded", ends: chain.Completed, machine: noMachine, check: warned()},
	{name: "RemoveMaasRecord: MAAS delete fails once", kind: "removal", with: forget, faults: faults(fault(maassim.Internal, "delete")), story: "load_site_config:succeeded release_maas_node:succeeded power_off_maas_node:skipped remove_maas_record:succeeded", ends: chain.Completed, machine: noMachine, check: warned()},
	{name: "RemoveMaasRecord: MAAS delete fails, and all else has its end", kind: "removal", with: forget, faults: faults(fault(maassim.Internal, "delete", -1)), story: "load_site_config:succeeded release_maas_node:succeeded power_off_maas_node:skipped remove_maas_record:failed", ends: chain.Completed, machine: maassim.Ready, check: warned("still in MAAS")},
	{name: "RemoveMaasRecord: somebody took it", kind: "removal", with: forget, acts: "@remove_maas_record taken(", story: "load_site_config:succeeded release_maas_node:succeeded power_off_maas_node:skipped remove_maas_record:failed", ends: chain.Completed, machine: maassim.Allocated, check: warned("still in MAAS")},
	{name: "a record that somebody deleted, and a person accepts that", kind: "removal", with: erasing("secure"), acts: "@release_maas_node delete( - adopt_observed_state", story: "load_site_config:succeeded release_maas_node:failed release_maas_node:succeeded power_off_maas_node:succeeded remove_maas_record:skipped", ends: chain.Reconciled, machine: noMachine, check: all(did("none", "no record"), warned("was deleted from MAAS", "no record of machine", "only an operator has confirmed"))},
	{name: "a record that somebody deleted is no machine to deploy", acts: "@release_maas_node delete( - adopt_observed_state", story: "load_site_config:succeeded release_maas_node:failed release_maas_node:failed", ends: chain.FailedManual, class: broker.StateAmbiguity, code: "machine_gone", machine: noMachine},

	// Beginning again.
	{name: "cancelled before the release", acts: "@release_maas_node cancel", story: "load_site_config:succeeded release_maas_node:compensated", ends: chain.Cancelled, machine: maassim.Deployed, check: released(0)},
}

func TestRowsOfTakingAMachineBack(t *testing.T) {
	for _, c := range reclaimRows {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			c.tell(t)
		})
	}
}

func forget(q *onboarding.ReclaimRequest) { q.RemoveRecord = true }

// isOff checks that the hardware is off.
func isOff(t *testing.T, w *world, _ onboarding.Onboarding) {
	t.Helper()
	if m := w.machine(maassim.Box(1).Serial); m.On {
		t.Error("it runs")
	}
}

// warned checks that the run warns of exactly these things.
func warned(of ...string) func(*testing.T, *world, onboarding.Onboarding) {
	return func(t *testing.T, _ *world, s onboarding.Onboarding) {
		t.Helper()
		if len(s.Warnings) != len(of) {
			t.Errorf("it warns of %q", s.Warnings)
			return
		}
		for _, what := range of {
			if !strings.Contains(strings.Join(s.Warnings, "\n"), what) {
				t.Errorf("it warns of %q, and not of %q", s.Warnings, what)
			}
		}
	}
}
