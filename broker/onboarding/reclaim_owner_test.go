package onboarding_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/chain"
	"github.com/hostler/hostler/broker/onboarding"
	"github.com/hostler/hostler/test/maassim"
)

// A machine that is not certainly this node's is not touched, whoever asks for it, and the failure
// names the operator's next action.
func TestAMachineThatIsNotTheNodesIsLeftAlone(t *testing.T) {
	mark := func(node, run string) map[string]string {
		return map[string]string{"hostler-node": node, "hostler-run": run}
	}
	for name, row := range map[string]struct {
		there   func(a *maassim.Arranged, w *world)
		adopted bool
		code    string
	}{
		"of another user":                   {func(a *maassim.Arranged, _ *world) { a.Owner = "bob" }, false, "machine_not_ours"},
		"of another user, and adopted":      {func(a *maassim.Arranged, _ *world) { a.Owner, a.Annotations = "bob", nil }, true, "machine_not_ours"},
		"of nobody":                         {func(a *maassim.Arranged, _ *world) { a.Owner = "" }, false, "machine_not_ours"},
		"marked for another node":           {func(a *maassim.Arranged, _ *world) { a.Annotations = mark("n-0002", "r0") }, false, "machine_not_ours"},
		"marked for another, and adopted":   {func(a *maassim.Arranged, _ *world) { a.Annotations = mark("n-0002", "r0") }, true, "machine_not_ours"},
		"half a mark":                       {func(a *maassim.Arranged, _ *world) { a.Annotations = map[string]string{"hostler-node": "n-0001"} }, false, "machine_not_ours"},
		"the other half, and adopted":       {func(a *maassim.Arranged, _ *world) { a.Annotations = map[string]string{"hostler-run": "r0"} }, true, "machine_not_ours"},
		"no mark":                           {func(a *maassim.Arranged, _ *world) { a.Annotations = nil }, false, "machine_not_ours"},
		"adopted, and called otherwise":     {func(a *maassim.Arranged, _ *world) { a.Annotations, a.Hostname = nil, "c02" }, true, "machine_not_ours"},
		"adopted, and allocated by hand":    {func(a *maassim.Arranged, _ *world) { a.Annotations, a.Status = nil, maassim.Allocated }, true, "machine_not_ours"},
		"adopted, and broken":               {func(a *maassim.Arranged, _ *world) { a.Annotations, a.Status = nil, maassim.Broken }, true, "machine_not_ours"},
		"Ready, and of somebody":            {func(a *maassim.Arranged, _ *world) { a.Annotations, a.Status, a.Owner = nil, maassim.Ready, "bob" }, false, "machine_not_ours"},
		"locked":                            {func(a *maassim.Arranged, _ *world) { a.Locked = true }, false, "machine_locked"},
		"locked, and adopted":               {func(a *maassim.Arranged, _ *world) { a.Locked, a.Annotations = true, nil }, true, "machine_locked"},
		"it is tested":                      {func(a *maassim.Arranged, _ *world) { a.Status, a.Previous = maassim.Testing, maassim.Deployed }, false, "machine_not_releasable"},
		"released by somebody for somebody": {func(a *maassim.Arranged, _ *world) { a.Status, a.Owner = maassim.Releasing, "bob" }, false, "machine_not_ours"},
	} {
		for _, kind := range []string{"reimage", "removal"} {
			t.Run(name+"/"+kind, func(t *testing.T) {
				t.Parallel()
				w := newWorld(t, "3.6")
				id := w.node1(row.there)
				if err := w.reclaims("t1", kind, id, func(q *onboarding.ReclaimRequest) {
					q.Adopted, q.Erase, q.RemoveRecord = row.adopted, "quick", kind == "removal"
				}); err != nil {
					t.Fatal(err)
				}
				w.settle(nil)
				r := w.run("t1")
				if r.Status != chain.FailedManual || r.Stage != "release_maas_node" || r.Failure.Class != chain.StateAmbiguity || r.Failure.Code != row.code {
					t.Errorf("%s at %s: %+v", r.Status, r.Stage, r.Failure)
				}
				if row.code == "machine_not_ours" && !strings.Contains(r.NextAction, "resume") {
					t.Errorf("next: %q", r.NextAction)
				}
				for _, a := range []chain.Action{chain.Resume, chain.RetryStage, chain.Adopt, chain.Rerun, chain.Cancel} {
					w.act("t1", a)
					w.settle(nil)
				}
				if got := w.writes(); len(got) > 0 {
					t.Errorf("it changes %v", got)
				}
			})
		}
	}
}

// The run stops at a locked machine, and releases the machine once it is unlocked.
func TestALockedMachineIsReleasedWhenItIsUnlocked(t *testing.T) {
	reclaim{
		there: func(a *maassim.Arranged, _ *world) { a.Locked = true }, acts: "- unlock( - resume",
		story: "load_site_config:succeeded release_maas_node:failed …release_maas_node", ends: chain.Completed, machine: maassim.Deployed,
	}.tell(t)
}

// An adopted machine has no mark, or the mark of a deleted node: it gets its node's mark first, and
// is released in another step.
func TestAnAdoptedMachineIsMarkedBeforeItIsReleased(t *testing.T) {
	for _, old := range []bool{false, true} {
		for _, op := range []string{"", "set_workload_annotations", "release"} {
			t.Run(fmt.Sprintf("an old mark: %v, the answer to %q is lost", old, op), func(t *testing.T) {
				w := newWorld(t, "3.6")
				id := w.node1(func(a *maassim.Arranged, w *world) {
					if a.Annotations = nil; old {
						a.Annotations = map[string]string{"hostler-node": "n-0002", "hostler-run": "r9"}
					}
				})
				if _, err := w.book.Prepare(ctx, onboarding.NewNode{RunID: "r9", Site: "dc1", Hostname: "c09", MAASSystemID: "zzzzzz"}); err != nil {
					t.Fatal(err)
				}
				w.book.Put("n-0002", broker.Deleted)
				if op != "" {
					w.region.Inject(fault(maassim.AnswerLost, op))
				}
				if err := w.reclaims("t1", "removal", id, func(q *onboarding.ReclaimRequest) { q.Adopted = true }); err != nil {
					t.Fatal(err)
				}
				saved := 0
				w.settle(func() {
					if m := w.machine(maassim.Box(1).Serial); m.Annotations["hostler-run"] == "t1" && m.Annotations["hostler-node"] == "n-0001" && m.Status == maassim.Deployed {
						saved++
					}
				})
				writes := w.writes()
				if r := w.run("t1"); r.Status != chain.Completed || len(writes) < 2 || writes[0] != "set_workload_annotations" || writes[1] != "release" || len(writes) > 2 || saved == 0 {
					t.Errorf("%s at %s: %+v; %v", r.Status, r.Stage, r.Failure, writes)
				}
			})
		}
	}
}

// A node whose machine may be in use keeps the machine, whatever a run's record says.
func TestTheMachineOfANodeThatWasLetInIsNotReleased(t *testing.T) {
	for _, status := range []broker.NodeStatus{broker.Active, broker.Offline, broker.Draining} {
		w := newWorld(t, "3.6")
		id := w.node1(nil)
		w.book.Turn("n-0001", "another run")
		w.book.Put("n-0001", status)
		if err := w.reclaims("t1", "reimage", id, nil); err != nil {
			t.Fatal(err)
		}
		w.settle(nil)
		if r := w.run("t1"); r.Status != chain.FailedManual || r.Failure.Code != "node_in_use" || len(w.writes()) > 0 {
			t.Errorf("%s: %s at %s: %+v, %v", status, r.Status, r.Stage, r.Failure, w.writes())
		}
	}
}
