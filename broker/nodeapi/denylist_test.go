package nodeapi

import (
	"testing"
	"time"

	"github.com/hostler/hostler/test/suspended"
)

func TestAReadingThatIsOvertakenChangesNothing(t *testing.T) {
	d, at := new(denyList), time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	d.replace(map[string]string{"later": ""}, time.Time{}, at.Add(time.Second))
	d.replace(map[string]string{"earlier": ""}, time.Time{}, at)
	if d.denied("earlier") || !d.denied("later") || d.unknown(at.Add(time.Second+denyListGrace)) {
		t.Errorf("the list has %v, read at %v", d.serials, d.readAt)
	}
}

func TestAListFromBeforeASuspensionIsTooOld(t *testing.T) {
	d, now := new(denyList), time.Now()
	d.replace(nil, time.Time{}, now)
	if d.unknown(now.Add(denyListGrace)) || !d.unknown(suspended.For(t, now, time.Minute)) {
		t.Error("a list that was read a minute ago by the date is taken for a fresh one")
	}
}
