package onboarding_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/chain"
	"github.com/hostler/hostler/broker/onboarding"
	"github.com/hostler/hostler/test/maassim"
)

func neverCommissioned(change func(*maassim.Arranged)) func(*maassim.Arranged, *world) {
	return func(a *maassim.Arranged, _ *world) {
		a.Annotations, a.Uncommissioned = nil, true
		if change != nil {
			change(a)
		}
	}
}

func adopted(erase string) func(*onboarding.ReclaimRequest) {
	return func(q *onboarding.ReclaimRequest) { q.Adopted, q.Erase = true, erase }
}

// A machine that was added to MAAS as deployed becomes New, not Ready, when it is released. It is
// commissioned before it is redeployed, and a warning says so before the release.
func TestAMachineThatWasNeverCommissionedIsCommissionedWhenItIsReimaged(t *testing.T) {
	for _, version := range []string{"3.4", "3.6"} {
		for _, erase := range []string{"none", "quick"} {
			w := newWorld(t, version)
			if err := w.reclaims("t1", "reimage", w.node1(neverCommissioned(nil)), adopted(erase)); err != nil {
				t.Fatal(err)
			}
			warned := false
			w.settle(func() {
				if hardware(w, "release") == 0 && slices.ContainsFunc(w.turned("t1").Warnings, func(s string) bool { return strings.Contains(s, "was never commissioned in MAAS") }) {
					warned = true
				}
			})
			r := w.run("t1")
			if r.Status != chain.Completed || hardware(w, "commission") != 1 || hardware(w, "deploy") != 1 || !warned {
				t.Errorf("MAAS %s, erase %s: %s at %s (%+v); commissioned %d times, deployed %d, warned before %v", version, erase, r.Status, r.Stage, r.Failure, hardware(w, "commission"), hardware(w, "deploy"), warned)
			}
		}
	}
}

// A failure of this commissioning is reported as such, and a resume repeats the commissioning.
func TestAFailedCommissioningOfAReimageIsResumed(t *testing.T) {
	w := newWorld(t, "3.4")
	w.region.Inject(maassim.Fault{Kind: maassim.CommissioningFails})
	if err := w.reclaims("t1", "reimage", w.node1(neverCommissioned(nil)), adopted("none")); err != nil {
		t.Fatal(err)
	}
	w.settle(nil)
	if f := w.run("t1").Failure; f == nil || f.Code != "failed_commission" || !strings.Contains(f.Message, "post-processing") {
		t.Errorf("%+v", f)
	}
	w.act("t1", "resume")
	w.settle(nil)
	if r := w.run("t1"); r.Status != chain.Completed {
		t.Errorf("%s at %s: %+v", r.Status, r.Stage, r.Failure)
	}
}

// A machine that could not be redeployed is neither erased nor released.
func TestAMachineThatCannotComeBackIsNotGivenBack(t *testing.T) {
	w := newWorld(t, "3.4")
	id := w.node1(neverCommissioned(func(a *maassim.Arranged) { a.PowerType = "manual" }))
	if err := w.reclaims("t1", "reimage", id, adopted("quick")); err != nil {
		t.Fatal(err)
	}
	w.settle(nil)
	r, m := w.run("t1"), w.machine(maassim.Box(1).Serial)
	if r.Failure == nil || r.Failure.Code != "machine_not_commissionable" || r.Failure.Class != chain.Class(broker.InputConfigError) || !strings.Contains(r.NextAction, "BMC") {
		t.Errorf("%s at %s: %+v, next %q", r.Status, r.Stage, r.Failure, r.NextAction)
	}
	if wrote := w.writes(); len(wrote) > 0 || m.Status != maassim.Deployed {
		t.Errorf("MAAS was asked for %v, the machine is %v", wrote, m.Status)
	}
}
