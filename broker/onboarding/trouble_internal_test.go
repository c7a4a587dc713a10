package onboarding

import (
	"testing"
	"time"
)

func TestAStageLooksOftenAtFirstAndSeldomLater(t *testing.T) {
	for waited, want := range map[time.Duration]time.Duration{
		0: least, time.Second: least, 10 * time.Second: 5 * time.Second, 29 * time.Second: 14500 * time.Millisecond, time.Hour: lookAgain,
	} {
		entered := time.Unix(1_800_000_000, 0)
		if got := patience(&run{EnteredAt: entered, Now: entered.Add(waited)}, lookAgain); got != want {
			t.Errorf("after %v a stage looks again in %v, want %v", waited, got, want)
		}
	}
}
