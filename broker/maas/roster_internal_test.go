package maas

import (
	"fmt"
	"slices"
	"testing"
)

func TestIDsAreAskedForSomeAtATime(t *testing.T) {
	for _, n := range []int{0, 1, 100, 101, 250} {
		var ids, asked []string
		for i := range n {
			ids = append(ids, fmt.Sprintf("%06d", i))
		}
		filters := ByID(ids)
		for _, f := range filters {
			if len(f["id"]) > 100 || len(f) != 1 {
				t.Errorf("of %d ids %d at once", n, len(f["id"]))
			}
			asked = append(asked, f["id"]...)
		}
		if !slices.Equal(asked, ids) || len(filters) != (n+99)/100 {
			t.Errorf("of %d ids %d are asked for in %d calls", n, len(asked), len(filters))
		}
	}
}
