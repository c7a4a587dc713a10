package allocation_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/chain"
	"github.com/hostler/hostler/broker/chain/chaintest"
	"github.com/hostler/hostler/broker/turnover/turnovertest"
	"github.com/hostler/hostler/taskcatalog"
)

// stages are the ends of a run's stages, as STAGE:STATUS or STAGE:CODE.
func (w *world) stages(kind string) string {
	w.Helper()
	var all []string
	for _, r := range w.runs(kind) {
		events, err := w.store.Events(ctx, r.ID)
		if err != nil {
			w.Fatal(err)
		}
		for _, e := range events {
			end := string(e.Status)
			if e.Status == chain.Failed {
				var d struct {
					Code string `json:"error_code"`
				}
				_ = json.Unmarshal(e.Details, &d)
				end = d.Code
			}
			if e.Status != chain.Started {
				all = append(all, e.Stage+":"+end)
			}
		}
	}
	return strings.Join(all, " ")
}

// The operation of the begin runs after the account is made and before the tenant is told; that of the end runs
// before the account ends, and the turnover follows.
func TestBoundOperationsRunInTheirPlace(t *testing.T) {
	w := newWorld(t)
	w.bound[broker.TriggerBegin], w.bound[broker.TriggerEnd] = broker.OperationSucceeded, broker.OperationSucceeded
	w.ask("alc-1", 1)
	w.settle()
	w.stands("alc-1", broker.AllocationActive, "")
	w.move("alc-1", broker.AllocationReleasing, broker.AllocationUser)
	w.settle()
	w.stands("alc-1", broker.AllocationReleased, "")
	w.clean("alc-1")
	want := "provisioning allocation.provision_user allocation.check_login op-1-begin#1 op-1-begin succeeded active " +
		"op-1-end#1 op-1-end succeeded allocation.revoke_user turnover released"
	if got := strings.Join(w.saw, " "); got != want {
		t.Errorf("it went\n%s, want\n%s", got, want)
	}
}

// What does not end well at the begin ends the allocation, and its nodes come back through a turnover. It is nothing
// against the nodes.
func TestAnAllocationFailsWithItsFirstOperation(t *testing.T) {
	for name, c := range map[string]struct {
		spoil func(w *world)
		code  string // of the stage
		most  time.Duration
	}{
		"it fails":            {func(w *world) { w.bound[broker.TriggerBegin] = broker.OperationFailed }, "step_failed", time.Minute},
		"somebody cancels it": {func(w *world) { w.bound[broker.TriggerBegin] = broker.OperationCanceled }, "allocation_unmet", time.Minute},
		"a policy denies it":  {func(w *world) { w.bound[broker.TriggerBegin] = "denied" }, "operation_denied", time.Minute},
		"it never ends":       {func(w *world) { w.bound[broker.TriggerBegin] = broker.OperationRunning }, "operation_late", 21 * time.Minute},
		"it can never begin":  {func(w *world) { w.bound[broker.TriggerBegin], w.busy = broker.OperationSucceeded, true }, "operation_late", 6 * time.Minute},
		"nobody judges it":    {func(w *world) { w.bound[broker.TriggerBegin] = "away" }, "operation_late", 6 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			a := w.ask("alc-1", 2)
			c.spoil(w)
			begun := w.clock.Now()
			w.settle()
			w.stands("alc-1", broker.AllocationFailed, "begin_operation_failed")
			w.clean("alc-1")
			if n := len(w.runs(broker.TurnoverKinds)); n != 2 {
				t.Errorf("%d turnovers of two nodes", n)
			}
			if took := w.all["alc-1"].FailedAt.Sub(begun); took > c.most {
				t.Errorf("the tenant waits for %v", took)
			}
			if got := w.stages(broker.ProvisionKind); !strings.Contains(got, "run_begin:"+c.code+" fail_begin:succeeded") {
				t.Errorf("the run went %s", got)
			}
			if end := w.ended[0]; len(end.Faults) > 0 || !slices.Equal(end.Provisioned, a.NodeIDs) || a.Failure() == "" {
				t.Errorf("it ended as %+v", end)
			}
			if slices.Contains(w.went, string(broker.AllocationActive)) {
				t.Error("the tenant was told of nodes that are not ready")
			}
		})
	}
}

// Whatever becomes of a project's operation at the end, the account ends and the nodes are cleaned.
func TestAReleaseGoesOnWithoutItsOperation(t *testing.T) {
	for name, c := range map[string]struct {
		spoil func(w *world)
		code  string // of the stage
	}{
		"it fails":           {func(w *world) { w.bound[broker.TriggerEnd] = broker.OperationFailed }, "step_failed"},
		"a policy denies it": {func(w *world) { w.bound[broker.TriggerEnd] = "denied" }, "operation_denied"},
		"it never ends":      {func(w *world) { w.bound[broker.TriggerEnd] = broker.OperationRunning }, "operation_late"},
		"it can never begin": {func(w *world) { w.bound[broker.TriggerEnd], w.busy = broker.OperationSucceeded, true }, "operation_late"},
		"nobody judges it":   {func(w *world) { w.bound[broker.TriggerEnd] = "away" }, "operation_late"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.ask("alc-1", 2)
			w.settle()
			c.spoil(w)
			w.move("alc-1", broker.AllocationReleasing, broker.AllocationUser)
			w.settle()
			w.stands("alc-1", broker.AllocationReleased, "")
			w.clean("alc-1")
			got := strings.ReplaceAll(w.stages(broker.ReleaseKind), ":skipped", ":succeeded")
			if !strings.HasPrefix(got, "end_others:succeeded run_end:"+c.code+" settle_end:succeeded end_users:succeeded turn_over:succeeded") {
				t.Errorf("the run went %s", got)
			}
		})
	}
}

// An operation whose record cannot be read any more is ended before what follows it begins.
func TestWhatCannotBeReadDoesNotGoOnBesideWhatFollows(t *testing.T) {
	for trigger, want := range map[broker.OperationTrigger]string{
		broker.TriggerBegin: "op-1-begin given up failed turnover",
		broker.TriggerEnd:   "op-1-end given up allocation.revoke_user turnover released",
	} {
		t.Run(string(trigger), func(t *testing.T) {
			w := newWorld(t)
			w.bound[trigger], w.unread = broker.OperationRunning, 1
			w.ask("alc-1", 1)
			w.settle()
			if trigger == broker.TriggerEnd {
				w.move("alc-1", broker.AllocationReleasing, broker.AllocationUser)
				w.settle()
			}
			if got := strings.Join(w.saw, " "); !strings.HasSuffix(got, want) {
				t.Errorf("it went %s, want %s in the end", got, want)
			}
		})
	}
}

// A release that is tried again tries the operation again, unless an account has ended: the operation comes first.
func TestTheOperationOfTheEndIsTriedAgainBeforeTheRevoke(t *testing.T) {
	for name, c := range map[string]struct {
		revoke bool // the first release got as far as the end of the account
		want   string
	}{
		"the accounts live":    {false, "op-1-end#1 op-1-end failed op-1-end#2 op-1-end succeeded"},
		"an account has ended": {true, "op-1-end#1 op-1-end failed"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			a := w.ask("alc-1", 1)
			w.settle()
			w.bound[broker.TriggerEnd] = broker.OperationFailed
			w.book.Change(a.NodeIDs[0], func(m *turnovertest.Machine) {
				m.Fails = map[string]taskcatalog.Code{"node.validate_clean": "read_failed"}
				if !c.revoke {
					m.Silent = true
				}
			})
			w.move("alc-1", broker.AllocationReleasing, broker.AllocationUser)
			if !c.revoke { // the run is cancelled before the account ends
				w.settleFor(time.Minute)
				w.act(w.runs(broker.ReleaseKind)[0].ID, chain.Cancel)
			}
			w.settle()
			w.stands("alc-1", broker.AllocationReleaseFailed, map[bool]string{true: "cleaning_failed", false: "release_cancelled"}[c.revoke])
			w.book.Change(a.NodeIDs[0], func(m *turnovertest.Machine) { m.Fails, m.Silent = nil, false })
			w.bound[broker.TriggerEnd] = broker.OperationSucceeded
			w.clock.Advance(time.Minute)
			w.move("alc-1", broker.AllocationReleasing, broker.AllocationUser)
			w.settle()
			w.stands("alc-1", broker.AllocationReleased, "")
			var got []string
			for _, s := range w.saw {
				if strings.HasPrefix(s, "op-") {
					got = append(got, s)
				}
			}
			if strings.Join(got, " ") != c.want {
				t.Errorf("operations: %v, want %s", got, c.want)
			}
		})
	}
}

// An operator's turnover ends the account by force: the operation, which comes before, does not begin.
func TestNoOperationOfTheEndBeginsBesideATurnover(t *testing.T) {
	w := newWorld(t)
	w.bound[broker.TriggerEnd] = broker.OperationSucceeded
	a := w.ask("alc-1", 1)
	w.settle()
	w.move("alc-1", broker.AllocationReleasing, broker.AllocationAdmin)
	if _, err := w.begin(ctx, *a, a.NodeIDs[0], "an operator wants it"); err != nil {
		t.Fatal(err)
	}
	w.settle()
	w.stands("alc-1", broker.AllocationReleased, "")
	if len(w.ops) > 0 {
		t.Errorf("it went %v", w.saw)
	}
}

// A reclaim that finds the node not clean keeps it from everybody, and the release says so.
func TestANodeThatIsNotReclaimedIsQuarantined(t *testing.T) {
	w := newWorld(t)
	w.bound[broker.TriggerEnd] = broker.OperationSucceeded
	a := w.ask("alc-1", 1)
	w.settle()
	w.book.Change(a.NodeIDs[0], func(m *turnovertest.Machine) { m.Residue = []taskcatalog.Finding{{Check: "users", Subject: "mallory"}} })
	w.move("alc-1", broker.AllocationReleasing, broker.AllocationUser)
	w.settle()
	w.stands("alc-1", broker.AllocationReleaseFailed, "cleaning_failed")
	if m := w.book.Machine(a.NodeIDs[0]); m.Status != broker.Quarantined || m.StatusReason == "" || !m.TurnoverOwed {
		t.Errorf("node is %s (%s), owes %v", m.Status, m.StatusReason, m.TurnoverOwed)
	}
	want := "end_others:succeeded run_end:succeeded settle_end:succeeded end_users:succeeded turn_over:residue_found"
	if got := w.stages(broker.ReleaseKind); !strings.HasPrefix(got, want) {
		t.Errorf("the run went %s, want %s", got, want)
	}
}

// A run that is cancelled while the operation of the begin runs gives the nodes back.
func TestAProvisioningIsCancelledDuringItsOperation(t *testing.T) {
	w := newWorld(t)
	w.bound[broker.TriggerBegin] = broker.OperationRunning
	w.ask("alc-1", 1)
	w.settleFor(2 * time.Minute)
	w.act(w.runs(broker.ProvisionKind)[0].ID, chain.Cancel)
	w.settle()
	w.stands("alc-1", broker.AllocationFailed, "provisioning_cancelled")
	w.clean("alc-1")
}

// A broker dies at each call of the store: each operation begins once, and nothing hangs.
func TestBoundOperationsBeginOnceWhereverABrokerDies(t *testing.T) {
	atEachCall(t, 60, func(t *testing.T, fate chaintest.Fate, at int) int {
		w := newWorld(t)
		w.bound[broker.TriggerBegin], w.bound[broker.TriggerEnd] = broker.OperationSucceeded, broker.OperationFailed
		w.lossy.Fate = func(call int) chaintest.Fate {
			if call == at {
				return fate
			}
			return chaintest.Done
		}
		w.ask("alc-1", 1)
		w.settle()
		w.stands("alc-1", broker.AllocationActive, "")
		w.move("alc-1", broker.AllocationReleasing, broker.AllocationUser)
		w.settle()
		w.stands("alc-1", broker.AllocationReleased, "")
		w.clean("alc-1")
		var got []string
		for _, s := range w.saw {
			if strings.HasPrefix(s, "op-") {
				got = append(got, s)
			}
		}
		if s := strings.Join(got, " "); s != "op-1-begin#1 op-1-begin succeeded op-1-end#1 op-1-end failed" {
			t.Errorf("operations: %s", s)
		}
		return w.lossy.Calls()
	})
}
