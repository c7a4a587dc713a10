package selfupdate

import (
	"testing"
	"time"

	"github.com/hostler/hostler/taskcatalog"
)

func TestAVersionIsJudgedByWhatIsSeenOfIt(t *testing.T) {
	reached := Trial{WindowSeconds: 300, Reached: true}
	alone := Trial{WindowSeconds: 300}
	proving := Trial{WindowSeconds: 300, Reached: true, Step: Proving}
	long := 5 * time.Hour
	for _, c := range []struct {
		story   string
		trial   Trial
		seen    Observation
		verdict Verdict
		code    taskcatalog.Code
	}{
		{"it starts", reached, Observation{Unready: time.Second}, Continue, ""},
		{"it is ready and silent", reached, Observation{Ready: true, Watched: time.Minute}, Continue, ""},
		{"it has just spoken", reached, Observation{Ready: true, Contact: true, Steady: time.Second}, Continue, ""},
		{"it has spoken and stays", reached, Observation{Ready: true, Contact: true, Steady: settle}, Confirm, ""},
		{"it speaks after the window", reached, Observation{Ready: true, Contact: true, Steady: settle, Watched: long}, Confirm, ""},
		{"it speaks, where the old one did not", alone, Observation{Ready: true, Contact: true, Steady: settle}, Confirm, ""},
		{"it ended once", reached, Observation{Exits: 1}, Continue, ""},
		{"it ended twice", reached, Observation{Exits: 2}, Revert, CodeCrashLoop},
		{"it ended twice after it had spoken", reached, Observation{Exits: 2, Ready: true, Contact: true, Steady: settle}, Revert, CodeCrashLoop},
		{"it is confirmed, and works", proving, Observation{Ready: true, Contact: true, Steady: long, Watched: time.Minute, Proof: 5 * time.Minute}, Continue, ""},
		{"it has worked for long enough", proving, Observation{Ready: true, Watched: 5 * time.Minute, Proof: 5 * time.Minute}, Keep, ""},
		{"it has ended once since, and works", proving, Observation{Exits: 1, Ready: true, Watched: 5 * time.Minute, Proof: 5 * time.Minute}, Keep, ""},
		{"it has ended twice since", proving, Observation{Exits: 2, Watched: 5 * time.Minute, Proof: 5 * time.Minute}, Revert, CodeCrashLoop},
		{"it hangs since", proving, Observation{Unready: readyLimit, Watched: long, Proof: 5 * time.Minute}, Revert, CodeNotReady},
		{"the broker is silent since", proving, Observation{Ready: true, Watched: time.Minute, Reaches: long, Proof: 5 * time.Minute}, Continue, ""},
		{"the power went twice", reached, Observation{Boots: 2}, Continue, ""},
		{"the machine goes down under it", reached, Observation{Boots: 3}, Revert, CodeBootLoop},
		{"it hangs at its start", reached, Observation{Unready: readyLimit}, Revert, CodeNotReady},
		{"it hangs at its start, and nobody knows the broker", alone, Observation{Unready: readyLimit}, Revert, CodeNotReady},
		{"it is silent, and the broker does not answer the old one either", reached, Observation{Ready: true, Watched: long}, Continue, ""},
		{"the broker is back for a moment", reached, Observation{Ready: true, Watched: long, Reaches: 30 * time.Second}, Continue, ""},
		{"the broker is back, and it stays silent", reached, Observation{Ready: true, Watched: long, Reaches: reachGrace}, Revert, CodeNoContact},
		{"it is silent, and the window is not over", reached, Observation{Ready: true, Watched: 299 * time.Second, Reaches: 280 * time.Second}, Continue, ""},
		{"it is silent, and the old one was", alone, Observation{Ready: true, Watched: long, Reaches: long}, Continue, ""},
	} {
		verdict, code, why := c.trial.Decide(c.seen)
		if verdict != c.verdict || code != c.code || (verdict == Revert) != (why != "") {
			t.Errorf("%s: %s %s %q, want %s %s", c.story, verdict, code, why, c.verdict, c.code)
		}
	}
}

// For a version in its proof, PreviousSlot is the replaced version, not the version known to work
// before that.
func TestTheVersionBeforeIsWhatWouldBePutBack(t *testing.T) {
	st := &State{Good: "b", Previous: "a", Trial: &Trial{Step: Proving, From: "b", To: "c"}}
	if got := st.PreviousSlot(); got != "b" {
		t.Errorf("before c, which proves itself, was %s", got)
	}
	st.Trial.Step = Watching // c may be reverted, and b is the running version as far as was reported
	if got := st.PreviousSlot(); got != "a" {
		t.Errorf("before b, beside which c is tried, was %s", got)
	}
	st.Good, st.Previous, st.Trial = "c", "b", nil
	if got := st.PreviousSlot(); got != "b" {
		t.Errorf("before c was %s", got)
	}
}
