package broker_test

import (
	"testing"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/test/suspended"
)

func TestTimeElapsesWhileAMachineIsSuspended(t *testing.T) {
	now := time.Now()
	for name, c := range map[string]struct {
		now  time.Time
		want time.Duration
	}{
		"awake":                 {now.Add(time.Hour), time.Hour},
		"suspended":             {suspended.For(t, now, time.Hour), time.Hour},
		"the date was put back": {suspended.For(t, now.Add(time.Hour), -2*time.Hour), time.Hour},
	} {
		if got := broker.Elapsed(c.now, now); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}
