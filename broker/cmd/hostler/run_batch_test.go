package main

import (
	"testing"

	"github.com/hostler/hostler/broker/api"
)

func TestABatchIsFollowedByItsStages(t *testing.T) {
	k := runs[runLook]{look: func(r runLook) runLook { return r }}
	l := runPage[runLook]{
		batch: &api.BatchState{Counts: map[string]int64{"pending": 1, "running": 3, "completed": 1}},
		runs: []runLook{
			{status: "running", stage: "deploy_via_maas"},
			{status: "completed", stage: "wait_for_agent_enrollment"},
			{status: "running", stage: "wait_for_deployed"},
			{status: "pending", stage: "load_site_config"},
			{status: "running", stage: "wait_for_deployed"},
		},
	}
	mark, text := k.standing(l)
	if want := "1 pending, 3 running, 1 completed; at 2 wait_for_deployed, 1 deploy_via_maas"; text != want {
		t.Errorf("the batch is shown as %q, want %q", text, want)
	}
	l.runs[0].stage = "wait_for_deployed"
	if other, _ := k.standing(l); other == mark {
		t.Error("a stage that the last run has left gets no line")
	}
	l.runs[0].stage, l.runs[2].stage = "wait_for_deployed", "deploy_via_maas"
	if same, _ := k.standing(l); same != mark {
		t.Error("runs that change places get a line")
	}
	l.runs = nil
	if _, text := k.standing(l); text != "1 pending, 3 running, 1 completed" {
		t.Errorf("without runs the batch is shown as %q", text)
	}
}
