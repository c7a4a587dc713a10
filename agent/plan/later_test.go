package plan

import (
	"context"
	"errors"
	"testing"

	"github.com/hostler/hostler/agent/steps"
)

// The second task found the step undone and was killed in the middle of it.
func TestAStepThatALaterTaskDoesAgainIsFinishedAfterACrash(t *testing.T) {
	l := newLab(t)
	there, crashes, broken := false, false, true
	l.kinds["service.control"] = steps.Kind{
		Look: func(context.Context, *steps.Step) (steps.Proof, bool, error) { return steps.Proof{}, there, nil },
		Do: func(context.Context, *steps.Step) (steps.Proof, error) {
			if crashes {
				crash()
			}
			return steps.Proof{}, nil
		},
	}
	l.kinds["gpu.driver.validate"] = steps.Kind{Do: func(context.Context, *steps.Step) (steps.Proof, error) {
		if broken {
			return steps.Proof{}, errors.New("broken")
		}
		return steps.Proof{}, nil
	}}
	p := aPlan(t, `[{"id":"one","kind":"service.control","attempts":2,"with":{"action":"start","unit":"demo.service"}},{"id":"end","kind":"gpu.driver.validate"}]`)
	l.run(t.Context(), "t-1", p)
	broken, crashes, p.Attempt = false, true, 2
	if e := l.run(t.Context(), "t-2", p); !e.crashed {
		t.Fatal(e.err)
	}
	crashes = false
	if e := l.run(t.Context(), "t-2", p); e.err != nil || story(e) != "one failed step_interrupted, one succeeded, end succeeded" {
		t.Errorf("%s: %v", story(e), e.err)
	}
}

// Between two tasks somebody may have taken away what the first one did.
func TestALaterTaskLooksWhetherAStepIsStillDone(t *testing.T) {
	for name, c := range map[string]struct {
		kind, with string
		there      bool
		story      string
		did        int
	}{
		"there":     {"service.control", `"action":"start","unit":"demo.service"`, true, "one succeeded earlier, end succeeded", 1},
		"gone":      {"service.control", `"action":"start","unit":"demo.service"`, false, "one succeeded, end succeeded", 2},
		"a restart": {"service.control", `"action":"restart","unit":"demo.service"`, false, "one succeeded earlier, end succeeded", 1},
		"a reboot":  {"host.reboot", "", false, "one succeeded earlier, end succeeded", 1},
	} {
		l := newLab(t)
		there, broken, did := false, true, 0
		code, _ := steps.Lookup(c.kind)
		l.kinds[c.kind] = steps.Kind{
			Event: code.Event,
			Look:  func(context.Context, *steps.Step) (steps.Proof, bool, error) { return steps.Proof{}, there, nil },
			Do:    func(context.Context, *steps.Step) (steps.Proof, error) { did++; return steps.Proof{}, nil },
		}
		l.kinds["gpu.driver.validate"] = steps.Kind{Do: func(context.Context, *steps.Step) (steps.Proof, error) {
			if broken {
				return steps.Proof{}, errors.New("broken")
			}
			return steps.Proof{}, nil
		}}
		p := aPlan(t, `[{"id":"one","kind":"`+c.kind+`","with":{`+c.with+`}},{"id":"end","kind":"gpu.driver.validate"}]`)
		l.run(t.Context(), "t-1", p)
		there, broken, p.Attempt = c.there, false, 2
		if e := l.run(t.Context(), "t-2", p); e.err != nil || story(e) != c.story || did != c.did {
			t.Errorf("%s: %s: %v; done %d times", name, story(e), e.err, did)
		}
	}
}
