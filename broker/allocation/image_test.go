package allocation_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/chain"
	"github.com/hostler/hostler/broker/chain/chaintest"
	"github.com/hostler/hostler/broker/turnover"
	"github.com/hostler/hostler/broker/turnover/turnovertest"
	"github.com/hostler/hostler/taskcatalog"
)

// asksForImage makes an allocation with an image that its first node has already.
func (w *world) asksForImage(id string, nodes int) *broker.Allocation {
	w.Helper()
	a := w.ask(id, nodes)
	a.Image = "custom/rocm"
	w.images[a.NodeIDs[0]] = a.Image
	return a
}

// Nodes with another image are reimaged before the tenant comes, the others are left as they are. The
// release is as ever.
func TestTheImageIsInstalledBeforeTheTenantComes(t *testing.T) {
	w := newWorld(t)
	a := w.asksForImage("a-1", 3)
	w.full = 4 // the reimages wait for places, too
	w.settle()
	w.stands("a-1", broker.AllocationActive, "")
	var reimaged []string
	for _, r := range w.runs(turnover.SoftReset.Kind()) {
		reimaged = append(reimaged, r.Subject)
	}
	if want := []string{w.book.Machine(a.NodeIDs[1]).Hostname, w.book.Machine(a.NodeIDs[2]).Hostname}; !slices.Equal(slices.Sorted(slices.Values(reimaged)), want) {
		t.Errorf("reimaged are %v, want %v", reimaged, want)
	}
	w.move("a-1", broker.AllocationReleasing, broker.AllocationUser)
	w.settle()
	w.stands("a-1", broker.AllocationReleased, "")
	w.clean("a-1")
	if got := strings.Join(w.went, " "); got != "provisioning active releasing released" {
		t.Errorf("it went %s", got)
	}
}

// What keeps the image from a node ends the allocation, before any account was made. The node stays with the
// reimage that has stopped; the others become free.
func TestAnAllocationWithoutItsImageFails(t *testing.T) {
	for name, c := range map[string]struct {
		spoil func(w *world, last string)
		holds bool // a stopped run holds the last node
	}{
		"the reimage stops": {func(w *world, last string) {
			w.book.Change(last, func(m *turnovertest.Machine) {
				m.Fails = map[string]taskcatalog.Code{"node.gpu_scrub": "scrub_failed"}
			})
		}, true},
		"the reimage is refused":          {func(w *world, last string) { w.refuse = last }, false},
		"the reimage does not install it": {func(w *world, _ string) { w.forgets = true }, false},
		"a stopped run has the node": {func(w *world, last string) {
			w.held = map[string]*chain.Record{last: {ID: "r-0", Kind: turnover.StorageCleanup.Kind(), Status: chain.FailedManual, Stage: "validate_clean_node"}}
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			a := w.asksForImage("a-1", 3)
			last := a.NodeIDs[2]
			c.spoil(w, last)
			w.settle()
			w.stands("a-1", broker.AllocationFailed, "image_not_installed")
			for i, n := range a.NodeIDs {
				if tasks := w.book.Tasks(n, "allocation.provision_user"); len(tasks) > 0 {
					t.Errorf("node %s was asked for an account", n)
				}
				holder, err := w.Holder(ctx, n)
				if err != nil || (holder != nil) != (i == 2 && c.holds) {
					t.Errorf("node %s: run %+v, %v", n, holder, err)
				}
			}
			if m := w.book.Machine(last); name == "the reimage stops" && (m.Status == broker.Active || !m.TurnoverOwed) {
				t.Errorf("the node whose reimage stopped is %s, turnover owed %v", m.Status, m.TurnoverOwed)
			}
			if !strings.Contains(w.all["a-1"].Failure(), "image") {
				t.Errorf("the tenant is told %q", w.all["a-1"].Failure())
			}
		})
	}
}

// A run that is cancelled while the image is installed ends the allocation. The reimage goes on, and the node
// becomes free.
func TestACancelDuringTheReimageLeavesTheReimage(t *testing.T) {
	w := newWorld(t)
	w.asksForImage("a-1", 2)
	for len(w.runs(turnover.SoftReset.Kind())) == 0 {
		w.settleFor(1e9)
	}
	w.act(w.runs(broker.ProvisionKind)[0].ID, chain.Cancel)
	w.settle()
	w.stands("a-1", broker.AllocationFailed, "provisioning_cancelled")
	w.clean("a-1")
}

// A broker that dies at any call of the store has no node reimaged twice, and none that has the image.
func TestADeathAtAnyCallReimagesNoNodeTwice(t *testing.T) {
	play := func(t *testing.T, fate chaintest.Fate, at int) (calls int) {
		w := newWorld(t)
		w.lossy.Fate = func(call int) chaintest.Fate {
			if call == at {
				return fate
			}
			return chaintest.Done
		}
		a := w.asksForImage("a-1", 2)
		w.settle()
		w.stands("a-1", broker.AllocationActive, "")
		for i, n := range a.NodeIDs {
			if got := len(w.book.Tasks(n, "node.gpu_scrub")); got != i {
				t.Errorf("node %s was turned over %d times, want %d", n, got, i)
			}
		}
		return w.lossy.Calls()
	}
	atEachCall(t, 30, play)
}
