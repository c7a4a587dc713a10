package broker

import (
	"strings"
	"testing"
	"time"
)

func TestANodeIsHeldFromTheLimitOn(t *testing.T) {
	at := time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)
	for _, c := range []struct{ limit, failures int }{{1, 1}, {2, 2}, {3, 3}, {0, 2}} { // 0: the default
		var p ProvisionFailures
		for n := 1; n <= c.failures+1; n++ {
			p.Add(ProvisionFault{NodeID: "n-1", Code: "login_refused", Message: "sshd\x1b is away"}, "a-1", c.limit, at.Add(time.Duration(n)*time.Hour))
			if held := !p.HeldAt.IsZero(); held != (n >= c.failures) {
				t.Errorf("limit %d: after %d failures held is %v", c.limit, n, held)
			}
		}
		if !p.HeldAt.Equal(at.Add(time.Duration(c.failures) * time.Hour)) {
			t.Errorf("limit %d: held since %v", c.limit, p.HeldAt)
		}
		if says := p.String(); !strings.Contains(says, "(login_refused: sshd") || strings.Contains(says, "\x1b") {
			t.Errorf("it says %q", says)
		}
	}
}
