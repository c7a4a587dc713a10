//go:build e2e

package e2e

import (
	"encoding/json"
	"fmt"
	"os"

	"github.com/hostler/hostler/taskcatalog"
)

// task holds the fields of a task that a case reads.
type task struct {
	ID       string          `json:"id"`
	Type     string          `json:"type"`
	Status   string          `json:"status"`
	Outcome  string          `json:"outcome"`
	Code     string          `json:"code"`
	Message  string          `json:"message"`
	Verdict  string          `json:"verdict"`
	Attempt  int             `json:"attempt"`
	Result   json.RawMessage `json:"result"`
	Evidence bool            `json:"evidence"`
}

// enqueue orders a task and returns at once.
func (s *site) enqueue(taskType string, params any) task {
	s.t.Helper()
	var t task
	s.json(&t, s.order(taskType, params)...)
	*s.asked = append(*s.asked, t.ID)
	return t
}

// do orders a task and waits for its end, whatever the outcome.
func (s *site) do(taskType string, params any) task {
	s.t.Helper()
	return s.end(s.enqueue(taskType, params).ID)
}

// must is do for a task that must succeed.
func (s *site) must(taskType string, params any) task {
	s.t.Helper()
	t := s.do(taskType, params)
	if t.Status != "succeeded" {
		s.t.Fatalf("%s ended %s: %s: %s\n%s", taskType, t.Status, t.Code, t.Message, s.hostler("task", "show", t.ID))
	}
	return t
}

func (s *site) order(taskType string, params any) []string {
	s.t.Helper()
	raw, err := json.Marshal(params)
	if err != nil {
		s.t.Fatal(err)
	}
	file := s.Path("params.json")
	if err := os.WriteFile(file, raw, 0o600); err != nil {
		s.t.Fatal(err)
	}
	return []string{"task", "enqueue", node, taskType, "--params", file, "--yes"}
}

// end waits for a task's end. The broker does the waiting unless it is down: polling would take a
// tenth of a core from the guests.
func (s *site) end(id string) task {
	s.t.Helper()
	_, _ = s.Hostler(s.ctx, "task", "watch", id)
	var t task
	err := s.Wait(s.ctx, "task "+id, func() error {
		s.json(&t, "task", "show", id)
		if t.Status == "queued" || t.Status == "dispatched" {
			return fmt.Errorf("it is %s", t.Status)
		}
		return nil
	})
	if err != nil {
		s.t.Fatal(err)
	}
	return t
}

// evidence reads the accepted evidence of a task.
func (s *site) evidence(id string) taskcatalog.Evidence {
	s.t.Helper()
	var shown struct {
		Report *struct {
			Evidence taskcatalog.Evidence `json:"evidence"`
		} `json:"report"`
	}
	s.json(&shown, "task", "show", id)
	if shown.Report == nil {
		s.t.Fatalf("task %s has no evidence", id)
	}
	return shown.Report.Evidence
}
