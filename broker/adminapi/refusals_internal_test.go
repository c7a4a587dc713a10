package adminapi

import (
	"fmt"
	"testing"
	"time"

	"github.com/hostler/hostler/broker"
)

func TestABudgetIsOneActorsForAMinute(t *testing.T) {
	var b budget
	now := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
	count := func(actor string) (n int) {
		for b.take(actor, now) {
			n++
		}
		return n
	}
	if got := []int{count("vic"), count("vic"), count("ann")}; got[0] != maxApart || got[1] != 0 || got[2] != maxApart {
		t.Errorf("took %v", got)
	}
	now = now.Add(apartTime)
	if got := count("vic"); got != maxApart {
		t.Errorf("took %d a minute later", got)
	}
	for i := range 2 * maxActors {
		b.take(fmt.Sprint(i), now)
	}
	if len(b.used) > maxActors {
		t.Errorf("%d actors are kept", len(b.used))
	}
}

// A caller who causes more kinds of refusals than are counted hides nobody else's.
func TestAFloodOfRefusalsHidesNobody(t *testing.T) {
	var seen broker.Repeats[refusal]
	now := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
	due := func(actor, what string) bool {
		_, due := seen.Due(refusal{actor, "role_insufficient", what}, refusal{actor: actor, code: "role_insufficient"}, now)
		return due
	}
	written := 0
	for i := range 6000 {
		if due("vic", fmt.Sprint(i)) {
			written++
		}
	}
	if written > 4097 {
		t.Errorf("%d rows", written)
	}
	if !due("ann", "delete the node") {
		t.Error("the refusal of another actor is not written")
	}
	if due("ann", "delete the node") || due("ann", "delete the site") {
		t.Error("an actor beyond the kinds that are counted has more than one row")
	}
	written = 0
	for i := range 20000 { // actors without end
		if due(fmt.Sprint("actor", i), "") {
			written++
		}
	}
	if written > 4097 {
		t.Errorf("%d rows of actors", written)
	}
}
