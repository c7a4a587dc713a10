package scrub

import (
	"strings"
	"testing"

	profiles "github.com/hostler/hostler/resolver-profiles"
	"github.com/hostler/hostler/taskcatalog"
)

// without is the set in which a step has nothing to do.
func without(t *testing.T, vendor, step string) *profiles.Set {
	t.Helper()
	text := text(vendor)
	at := strings.Index(text, step+": ") + len(step) + 2
	end := at + strings.Index(text[at:], "\n")
	s, problems := profiles.Parse(profiles.File{Name: "test.yaml", Text: []byte(text[:at] + "builtin:none" + text[end:])})
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	return s
}

// A tenant's process has a token in the memory of a GPU, holds the GPU and ignores SIGTERM; another
// token lies in memory without a holder. For every single step left out: if a search of the memory
// finds a token, the GPU is not clean.
func TestAStepThatIsLeftOutIsSeen(t *testing.T) {
	t.Parallel()
	for step, left := range map[string]bool{
		profiles.StepQuiesce: true, profiles.StepOverwrite: true,
		profiles.StepVerify: false, profiles.StepReset: false, profiles.StepProbe: false, profiles.StepRestore: false, profiles.StepHealth: false,
	} {
		for _, vendor := range []string{"nvidia", "amd"} {
			t.Run(vendor+" "+step, func(t *testing.T) {
				t.Parallel()
				l := newLab(t, vendor)
				l.Params.Reset = "never" // a reset would clear memory left by the overwrite
				l.faults("scrub_on_free off")
				l.plant(1, 20<<20)
				if vendor == "nvidia" {
					l.tenant(1, "ignore-sigterm")
				}
				l.Profiles = without(t, vendor, step)
				got := l.of(l.good(), 1)
				found := l.left(1) > 0
				if found != left {
					t.Errorf("tokens are left: %t, want %t", found, left)
				}
				if found && got.Verdict == taskcatalog.VerdictClean {
					t.Errorf("%d tokens are left, and the GPU is clean: %+v", l.left(1), got)
				}
				if clean := got.Verdict == taskcatalog.VerdictClean; clean != (step == profiles.StepReset) {
					t.Errorf("the GPU is %s %s (%s)", got.Verdict, got.Code, got.Message)
				}
			})
		}
	}
}

// A process that takes a GPU during the scrub is found at the end. Its memory was not checked.
func TestAHolderThatComesDuringTheScrubIsSeen(t *testing.T) {
	t.Parallel()
	l := newLab(t, "nvidia")
	came := false
	l.Progress = func(step string, _, _, _ int, _ string) {
		if step == profiles.StepOverwrite && !came {
			came = true
			l.tenant(1, "ignore-sigterm")
		}
	}
	g := l.want(l.good(), 1, taskcatalog.VerdictNotClean, taskcatalog.CodeGPUHolderPresent)
	if l.left(1) == 0 {
		t.Errorf("it left nothing, so the test proves nothing: %+v", g)
	}
}
