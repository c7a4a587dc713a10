package allocation_test

import (
	"cmp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/turnover/turnovertest"
)

// operated are the operations, revokes, turnovers and reimages of a world, in their order.
func (w *world) operated() string {
	var all []string
	for _, s := range w.saw {
		if strings.HasPrefix(s, "op-") || s == "allocation.revoke_user" || s == "turnover" || s == "reimage" {
			all = append(all, s)
		}
	}
	return strings.Join(all, " ")
}

// What the SKU names for the end must end well before the account ends and the node is reclaimed. Without that the release
// waits for a person, whose next release tries it again, and whose force goes on without it.
func TestARevokeNeedsTheOperationOfTheSKU(t *testing.T) {
	for name, spoil := range map[string]func(w *world){
		"it fails":           func(w *world) { w.bound[broker.TriggerEnd] = broker.OperationFailed },
		"a policy denies it": func(w *world) { w.bound[broker.TriggerEnd] = "denied" },
		"it can never begin": func(w *world) { w.bound[broker.TriggerEnd], w.busy = broker.OperationSucceeded, true },
		"nobody judges it":   func(w *world) { w.bound[broker.TriggerEnd] = "away" },
	} {
		for _, force := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				w := newWorld(t)
				w.required = true
				a := w.ask("alc-1", 2)
				w.settle()
				spoil(w)
				w.move("alc-1", broker.AllocationReleasing, broker.AllocationUser)
				w.settle()
				w.stands("alc-1", broker.AllocationReleaseFailed, "end_operation_failed")
				if got := w.operated(); strings.Contains(got, "revoke") || strings.Contains(got, "turnover") {
					t.Errorf("it went %s", got)
				}
				if text := w.all["alc-1"].Failure(); !strings.Contains(text, "operation") || strings.Contains(text, a.NodeIDs[0]) {
					t.Errorf("the tenant is told %q", text)
				}
				w.clock.Advance(time.Minute)
				if a.Forced = force; !force {
					w.bound[broker.TriggerEnd], w.busy = broker.OperationSucceeded, false
				}
				w.move("alc-1", broker.AllocationReleasing, broker.AllocationAdmin)
				w.settle()
				w.stands("alc-1", broker.AllocationReleased, "")
				w.clean("alc-1")
				if got := w.operated(); !strings.HasSuffix(got, "allocation.revoke_user allocation.revoke_user turnover turnover") {
					t.Errorf("it went %s", got)
				}
			})
		}
	}
}

// What the policy passes over is not tried once more, and the account ends.
func TestAPassedEndIsNotTriedAgain(t *testing.T) {
	w := newWorld(t)
	w.required = true
	a := w.ask("alc-1", 2)
	w.settle()
	w.bound[broker.TriggerEnd] = broker.OperationFailed
	w.move("alc-1", broker.AllocationReleasing, broker.AllocationUser)
	w.settle()
	w.stands("alc-1", broker.AllocationReleaseFailed, "end_operation_failed")
	a.PassedAt = w.clock.Now()
	w.move("alc-1", broker.AllocationReleasing, broker.AllocationWorker)
	w.settle()
	w.stands("alc-1", broker.AllocationReleased, "")
	if got := w.operated(); got != "op-1-end#1 op-1-end failed allocation.revoke_user allocation.revoke_user turnover turnover" {
		t.Errorf("it went %s", got)
	}
}

// A node on which an operation may still run is not cleaned in place: after five minutes it is reimaged. The other nodes
// are not.
func TestANodeIsReimagedWhereAnOperationMayStillRun(t *testing.T) {
	for trigger, want := range map[broker.OperationTrigger]string{
		broker.TriggerBegin: "op-1-begin#1 op-1-begin given up reimage turnover",
		broker.TriggerEnd:   "op-1-end#1 op-1-end given up allocation.revoke_user reimage turnover",
	} {
		for _, ends := range []bool{false, true} { // the node reports the end while it is waited for
			t.Run(string(trigger), func(t *testing.T) {
				w := newWorld(t)
				a := w.ask("alc-1", 2)
				w.bound[trigger] = broker.OperationRunning
				w.lingers = a.NodeIDs[:1]
				if trigger == broker.TriggerEnd {
					w.settle()
					w.move("alc-1", broker.AllocationReleasing, broker.AllocationUser)
				}
				w.settleFor(22 * time.Minute) // the operation is given up after twenty
				if got := w.operated(); !strings.HasSuffix(got, "given up") {
					t.Fatalf("it went %s before the end was known", got)
				}
				if ends {
					w.lingers = nil
				}
				w.settle()
				if trigger == broker.TriggerEnd {
					w.stands("alc-1", broker.AllocationReleased, "")
				}
				w.clean("alc-1")
				got := w.operated()
				if !ends && got != want {
					t.Errorf("it went %s, want %s", got, want)
				}
				if ends && (strings.Contains(got, "reimage") || !strings.HasSuffix(got, "turnover turnover")) {
					t.Errorf("it went %s", got)
				}
			})
		}
	}
}

// A silent node keeps no release: the reimage ends what the operation was to end, also that of the SKU.
func TestASilentNodeNeedsNoOperationOfTheEnd(t *testing.T) {
	w := newWorld(t)
	w.required = true
	a := w.ask("alc-1", 1)
	w.settle()
	w.bound[broker.TriggerEnd], w.deaf = broker.OperationRunning, slices.Clone(a.NodeIDs)
	w.move("alc-1", broker.AllocationReleasing, broker.AllocationUser)
	w.settle()
	w.stands("alc-1", broker.AllocationReleased, "")
	if got := w.operated(); got != "op-1-end#1 op-1-end given up reimage" {
		t.Errorf("it went %s", got)
	}
}

// A node that has lost the account, because somebody removed it or turned it over, frees no other node from the operation
// of the SKU: it can no longer begin, and a person lets the release go on.
func TestALostNodeFreesNoOtherFromTheOperation(t *testing.T) {
	w := newWorld(t)
	w.required = true
	a := w.ask("alc-1", 2)
	w.settle()
	w.bound[broker.TriggerEnd] = broker.OperationSucceeded
	w.book.Change(a.NodeIDs[0], func(m *turnovertest.Machine) { m.Users = nil })
	w.move("alc-1", broker.AllocationReleasing, broker.AllocationUser)
	w.settle()
	w.stands("alc-1", broker.AllocationReleaseFailed, "end_operation_failed")
	if got := w.operated(); got != "" {
		t.Errorf("it went %s", got)
	}
	a.Forced = true
	w.move("alc-1", broker.AllocationReleasing, broker.AllocationAdmin)
	w.settle()
	w.stands("alc-1", broker.AllocationReleased, "")
}

// A tenant's operation that is under way ends before the one of the SKU begins, however long a node takes to say so. What
// never says so is reimaged, and keeps no release for longer than a cancel may take.
func TestTheOperationOfTheEndWaitsForTheEndOfOthers(t *testing.T) {
	for name, c := range map[string]struct {
		ends time.Duration // when the node says so; zero: never
		want string
	}{
		"it ends":       {4 * time.Minute, "op-1-end#1 op-1-end succeeded allocation.revoke_user turnover"},
		"it never ends": {0, "reimage"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.required = true
			a := w.ask("alc-1", 1)
			w.settle()
			w.bound[broker.TriggerEnd] = broker.OperationSucceeded
			w.others = map[string]string{a.NodeIDs[0]: "op-9"}
			w.lingers = a.NodeIDs
			w.move("alc-1", broker.AllocationReleasing, broker.AllocationUser)
			w.settleFor(cmp.Or(c.ends, 4*time.Minute))
			if got := w.operated(); got != "" {
				t.Fatalf("it went %s beside op-9", got)
			}
			if c.ends > 0 {
				w.others, w.lingers = nil, nil
			}
			begun := w.clock.Now()
			for w.all["alc-1"].Status == broker.AllocationReleasing && w.clock.Now().Sub(begun) < 20*time.Minute {
				w.settleFor(10 * time.Second)
			}
			w.stands("alc-1", broker.AllocationReleased, "")
			w.clean("alc-1")
			if got := w.operated(); got != c.want {
				t.Errorf("it went %s, want %s", got, c.want)
			}
		})
	}
}
