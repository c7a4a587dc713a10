package adminapi_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/server/servertest"
	"github.com/hostler/hostler/taskcatalog"
)

// A project orders batches, and reads where they stopped. The node after the canary gets no task.
func TestAProjectReadsWhereItsBatchesStopped(t *testing.T) {
	b := servertest.Start(t)
	undisturbed(t, b)
	ship(t, b)
	nodes := stocked(t, b, "h100.8gpu", 2, servertest.H100s(8))
	mine := newTenant(t, b, "acme", "lab")
	mine.quota(t, b, "h100.8gpu", 2)
	mine.held = mine.allocated(t, b, b.Token, mine.asks("h100.8gpu", 2))
	leads(t, b, mine.held.ID, toProvisioning, toActive)
	member := mine.tokens(t, b)["project_member of a project"]
	var made api.Operation
	ask := api.OperationCreate{Operation: readiness, AllocationID: mine.held.ID, Canary: 1, MaxFailures: 2}
	a := b.Ask(t, member, http.MethodPost, mine.operations(), ask)
	if err := json.Unmarshal(a.Body, &made); err != nil || made.Batches != (api.OperationBatches{Canary: 1, MaxFailures: 2, Count: 2, Present: 1}) {
		t.Fatalf("%d %s", a.Status, a.Body)
	}
	first := nodes[0]
	if nodes[1].NodeID < nodes[0].NodeID {
		first = nodes[1]
	}
	d, task, p := takesOperation(t, b, first)
	first.FailWith(t, d, task, taskcatalog.CodeStepFailed, "on gpu-1", resultOf(p, taskcatalog.StepFailed, "ports_down"))
	o := reaches(t, b, mine.operations()+"/"+made.ID, "failed")
	if o.Code != "batch_stopped" || !o.Batches.Stopped || o.Batches.Present != 1 || !strings.Contains(o.Message, "did not begin") {
		t.Errorf("%+v", o)
	}
	for _, n := range nodes {
		if n != first && len(n.Offered(t)) != 0 {
			t.Error("the other node has a task")
		}
	}
	ask.Canary = -1
	if a := b.Ask(t, member, http.MethodPost, mine.operations(), ask); a.Status != http.StatusUnprocessableEntity {
		t.Errorf("%d %s", a.Status, a.Body)
	}
}
