package agent

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/hostler/hostler/agent/identity"
	"github.com/hostler/hostler/taskcatalog"
)

const goneSession = "ts-7k2m4q6s"

func TestTheBrokerIsToldOfASessionThatWasKilled(t *testing.T) {
	inBubble(t, func(l *lab) {
		if _, err := Enroll(l.t.Context(), l.config, identity.Provided("the command line", l.boot, "")); err != nil {
			l.t.Fatal(err)
		}
		if err := ReportTerminalGone(l.t.Context(), l.config, goneSession, "oom-kill"); err != nil {
			l.t.Fatal(err)
		}
		if got := l.broker.Gone[goneSession]; got != "oom-kill" {
			l.t.Errorf("the broker heard %q", got)
		}
	})
}

// This includes a machine from which the agent was just removed: no file of it is created anew.
func TestAMachineThatIsNoNodeTellsNobody(t *testing.T) {
	inBubble(t, func(l *lab) {
		for _, make := range []bool{false, true} {
			if make {
				if err := os.MkdirAll(l.config.StateDir, 0o700); err != nil {
					l.t.Fatal(err)
				}
			}
			err := ReportTerminalGone(l.t.Context(), l.config, goneSession, "signal")
			if taskcatalog.CodeOf(err, "") != identity.CodeNoIdentitySource {
				l.t.Errorf("it was told: %v", err)
			}
			if left, err := filepath.Glob(l.config.StateDir + "/*"); err != nil || len(left) > 0 {
				l.t.Errorf("%q are made (%v)", left, err)
			}
		}
		if len(l.broker.Gone) > 0 {
			l.t.Errorf("%v", l.broker.Gone)
		}
	})
}
