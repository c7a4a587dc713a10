package nodeapi

import (
	"testing"
	"time"
)

func TestAReadingThatIsOvertakenChangesNothing(t *testing.T) {
	d, at := new(denyList), time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	d.replace(map[string]string{"later": ""}, time.Time{}, at.Add(time.Second))
	d.replace(map[string]string{"earlier": ""}, time.Time{}, at)
	if d.denied("earlier") || !d.denied("later") || d.unknown(at.Add(time.Second+denyListGrace)) {
		t.Errorf("the list has %v, read at %v", d.serials, d.readAt)
	}
}
