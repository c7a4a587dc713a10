package broker

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// settled is an allocation that lacks nothing that a transition requires.
func settled(status AllocationStatus) Allocation {
	return Allocation{ID: "a-1", Status: status, Nodes: 2, Code: "ssh_unreachable", CertificateIDs: []string{"c-1", "c-2"}}
}

// wholeAllocations renders every pair of statuses with its owners.
func wholeAllocations() string {
	var b strings.Builder
	for _, from := range AllocationStatuses {
		for _, to := range AllocationStatuses {
			var may []string
			for _, by := range AllocationOwners {
				if TransitionAllocation(settled(from), to, by) == nil {
					may = append(may, string(by))
				}
			}
			if len(may) == 0 {
				may = []string{"refused"}
			}
			fmt.Fprintf(&b, "%-14s -> %-14s %s\n", from, to, strings.Join(may, " "))
		}
	}
	return b.String()
}

func TestTheWholeTableOfAllocationsIsAsAgreed(t *testing.T) {
	const golden = "testdata/allocationtransitions.golden"
	got := wholeAllocations()
	if *update {
		if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("the table differs from %s (go test ./broker -update, and read the diff):\n%s", golden, got)
	}
}

func TestThePageHasTheTransitionsOfAllocations(t *testing.T) {
	var want strings.Builder
	want.WriteString("| from | to | by |\n| --- | --- | --- |\n")
	for _, from := range AllocationStatuses {
		for _, to := range AllocationStatuses {
			if by := allocationTransitions[allocationEdge{from, to}]; len(by) > 0 {
				fmt.Fprintf(&want, "| `%s` | `%s` | %s |\n", from, to, strings.ReplaceAll(strings.Trim(fmt.Sprint(by), "[]"), " ", ", "))
			}
		}
	}
	onStatesPage(t, "allocation transitions", want.String())
}

func TestARefusedTransitionOfAnAllocationSaysWhy(t *testing.T) {
	uncertified, causeless := settled(AllocationReleasing), settled(AllocationProvisioning)
	uncertified.CertificateIDs, causeless.Code = []string{"c-1"}, ""
	for _, c := range []struct {
		allocation Allocation
		to         AllocationStatus
		by         AllocationOwner
		code, says string
	}{
		{settled(AllocationReleased), AllocationActive, AllocationAdmin, "transition_refused", "from released to active: there is no such transition"},
		{settled(AllocationReleasing), AllocationReleased, AllocationAdmin, "transition_refused", "admin does not own that transition"},
		{settled(AllocationReleaseFailed), AllocationReleasing, AllocationBilling, "transition_refused", "billing does not own that transition"},
		{uncertified, AllocationReleased, AllocationWorker, "certificate_missing", "there are 1 certificates for its 2 nodes"},
		{causeless, AllocationFailed, AllocationWorker, "failure_code_missing", "the code of the failure is missing"},
	} {
		err := TransitionAllocation(c.allocation, c.to, c.by)
		if e := AsError(err); err == nil || e.Kind != Refused || e.Code != c.code || !strings.Contains(e.Message, c.says) {
			t.Errorf("%s to %s by %s: %v, want %s %q", c.allocation.Status, c.to, c.by, err, c.code, c.says)
		}
	}
}

// Whatever the owners ask for, an ended allocation stays as it is, and every status has the time
// at which it was reached.
func TestNoWalkBreaksTheStateMachineOfAllocations(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		now := time.Unix(1000, 0)
		var a Allocation
		a.ID, a.Nodes = "a-1", 1
		a.Reach(AllocationRequested, now)
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			now = now.Add(time.Second)
			to, by := rapid.SampledFrom(AllocationStatuses).Draw(t, "to"), rapid.SampledFrom(AllocationOwners).Draw(t, "by")
			next := a
			if to == AllocationFailed || to == AllocationReleaseFailed {
				next.Code = "broken"
			}
			if to == AllocationReleased && rapid.Bool().Draw(t, "certified") {
				next.CertificateIDs = []string{"c-1"}
			}
			if TransitionAllocation(next, to, by) != nil {
				continue
			}
			if a.Status.Ended() || to == AllocationRequested || to == a.Status {
				t.Fatalf("%s moved to %s", a.Status, to)
			}
			next.Reach(to, now)
			if to == AllocationReleasing && next.Code != "" {
				t.Fatal("a release that goes on shows an earlier failure")
			}
			if !a.ReleasingAt.IsZero() && !next.ReleasingAt.Equal(a.ReleasingAt) {
				t.Fatal("a retry made the release look younger")
			}
			a = next
		}
		for status, at := range map[AllocationStatus]time.Time{
			AllocationProvisioning: a.ProvisioningAt, AllocationActive: a.ActiveAt, AllocationReleasing: a.ReleasingAt, AllocationReleased: a.ReleasedAt,
			AllocationFailed: a.FailedAt, AllocationReleaseFailed: a.ReleaseFailedAt,
		} {
			if a.Status == status && (at.IsZero() || at.Before(a.RequestedAt)) {
				t.Fatalf("it is %s since %v", status, at)
			}
		}
		if a.Status == AllocationReleased && len(a.CertificateIDs) == 0 {
			t.Fatal("released without a certificate")
		}
	})
}
