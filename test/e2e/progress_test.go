//go:build e2e

package e2e

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// progress is how far a running task is.
type progress struct {
	Step    string `json:"current_step_name"`
	Percent int    `json:"step_percent"`
	Message string `json:"message"`
}

func (g *gpus) progress(id string) progress {
	g.t.Helper()
	var t struct {
		Status   string    `json:"status"`
		Code     string    `json:"code"`
		Message  string    `json:"message"`
		Progress *progress `json:"progress"`
	}
	g.json(&t, "task", "show", id)
	if t.Status != "queued" && t.Status != "dispatched" {
		g.t.Fatalf("task %s is %s: %s: %s", id, t.Status, t.Code, t.Message)
	}
	if t.Progress == nil {
		return progress{}
	}
	return *t.Progress
}

// reaches waits until a task is at a step.
func (g *gpus) reaches(id, step string) {
	g.t.Helper()
	err := g.Wait(g.ctx, "task "+id+" at "+step, func() error {
		p := g.progress(id)
		if p.Step != step {
			return fmt.Errorf("it is at %q (%s)", p.Step, p.Message)
		}
		return nil
	})
	if err != nil {
		g.t.Fatal(err)
	}
}

// seesProgress follows a scrub until the overwrite is over: the progress shows bytes of several
// GPUs at once, and the bytes grow.
func (g *gpus) seesProgress(id string, count int) {
	g.t.Helper()
	percents := map[int]bool{}
	err := g.Wait(g.ctx, "progress of the overwrite", func() error {
		p := g.progress(id)
		if p.Step == "gpu.scrub.overwrite" {
			percents[p.Percent] = true
			if p.Message != "" && !strings.HasPrefix(p.Message, fmt.Sprintf("%d GPUs, ", count)) {
				g.t.Errorf("the progress says %q", p.Message)
			}
		}
		if !slices.Contains([]string{"gpu.scrub.reset", "gpu.scrub.probe", "gpu.scrub.restore", "gpu.scrub.health"}, p.Step) {
			return errors.New("it is at " + p.Step)
		}
		return nil
	})
	if err != nil || len(percents) < 2 {
		g.t.Errorf("of the overwrite %v percent were seen: %v", percents, err)
	}
}
