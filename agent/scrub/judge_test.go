package scrub

import (
	"testing"

	"github.com/hostler/hostler/taskcatalog"
)

// A process in state D holds its GPU until the machine reboots: recommending another scrub would
// lead nowhere.
func TestAHolderThatOutlivedSIGKILLIsNoReasonToScrubAgain(t *testing.T) {
	for outcome, want := range map[string]string{
		"stuck": taskcatalog.ActionReimage,
		"kept":  taskcatalog.ActionGPUScrub,
	} {
		res := &taskcatalog.GPUScrubResult{GPUs: []taskcatalog.GPUScrubbed{{
			UUID: "GPU-1", Verdict: taskcatalog.VerdictNotClean, Code: taskcatalog.CodeGPUHolderPresent,
			Holders: []taskcatalog.GPUHolder{{PID: 1, Outcome: "killed"}, {PID: 2, Outcome: outcome}},
		}}}
		r := (&Scrub{}).report(res)
		if len(r.Findings) != 1 || r.Findings[0].NextAction != want {
			t.Errorf("a holder that was %s: %+v, want next action %s", outcome, r.Findings, want)
		}
	}
}
