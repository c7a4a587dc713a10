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

// A project runs one operation on several of its allocations. It reads them as members, and nothing of nodes; another
// project's allocation is in no group of it.
func TestAProjectRunsAnOperationOnAGroup(t *testing.T) {
	b := servertest.Start(t)
	ship(t, b)
	nodes := stocked(t, b, "h100.8gpu", 3, servertest.H100s(8))
	undisturbed(t, b)
	mine, theirs := newTenant(t, b, "acme", "lab"), newTenant(t, b, "other", "lab")
	mine.quota(t, b, "h100.8gpu", 3)
	theirs.quota(t, b, "h100.8gpu", 3)
	var ids []string
	for range 2 {
		held := mine.allocated(t, b, b.Token, mine.asks("h100.8gpu", 1))
		leads(t, b, held.ID, toProvisioning, toActive)
		ids = append(ids, held.ID)
	}
	foreign := theirs.allocated(t, b, b.Token, theirs.asks("h100.8gpu", 1))
	leads(t, b, foreign.ID, toProvisioning, toActive)
	tokens := mine.tokens(t, b)
	member, viewer := tokens["project_member of a project"], tokens["project_viewer of a project"]

	for _, c := range []struct {
		token, path string
		ask         api.OperationCreate
		status      int
		code        string
	}{
		{member, mine.operations(), api.OperationCreate{}, http.StatusUnprocessableEntity, "operation_target_invalid"},
		{member, mine.operations(), api.OperationCreate{Group: "all", AllocationID: ids[0]}, http.StatusUnprocessableEntity, "operation_target_invalid"},
		{member, mine.operations(), api.OperationCreate{Group: "all,"}, http.StatusUnprocessableEntity, "selector_invalid"},
		{member, mine.operations(), api.OperationCreate{Group: ids[0] + "," + foreign.ID}, http.StatusNotFound, "allocation_not_found"},
		{member, mine.operations(), api.OperationCreate{Group: ids[0] + ",alc-none"}, http.StatusNotFound, "allocation_not_found"},
		{member, mine.operations(), api.OperationCreate{Group: "tier=gold"}, http.StatusConflict, "operation_group_empty"},
		{viewer, mine.operations(), api.OperationCreate{Group: "all"}, http.StatusForbidden, "role_insufficient"},
		{member, theirs.operations(), api.OperationCreate{Group: "all"}, http.StatusNotFound, "project_not_found"},
	} {
		c.ask.Operation = readiness
		if a := b.Ask(t, c.token, http.MethodPost, c.path, c.ask); a.Status != c.status || !strings.Contains(string(a.Body), `"`+c.code+`"`) {
			t.Errorf("%+v: %d %s, want %d %s", c.ask, a.Status, a.Body, c.status, c.code)
		}
	}

	ask := api.OperationCreate{Operation: readiness, Group: "all", Canary: 1}
	if a := b.Ask(t, member, http.MethodPost, mine.operations()+"/plan", ask); a.Status != http.StatusOK {
		t.Errorf("plan: %d %s", a.Status, a.Body)
	}
	var made, again api.Operation
	read := func(a servertest.Answer, into *api.Operation) {
		t.Helper()
		if err := json.Unmarshal(a.Body, into); err != nil || into.ID == "" {
			t.Fatalf("%d %s", a.Status, a.Body)
		}
		for _, n := range nodes {
			if strings.Contains(string(a.Body), n.NodeID) {
				t.Errorf("a project reads the id of a node: %s", a.Body)
			}
		}
	}
	read(b.AskOnce(t, "k", member, http.MethodPost, mine.operations(), ask), &made)
	read(b.AskOnce(t, "k", member, http.MethodPost, mine.operations(), ask), &again)
	if again.ID != made.ID || made.Group != "all" || made.Target != "group" || made.AllocationID != "" || made.Nodes != 2 || len(made.Members) != 2 || made.Batches.Count != 2 {
		t.Errorf("%+v, and again %s", made, again.ID)
	}
	if a := b.Ask(t, member, http.MethodPost, mine.operations(), api.OperationCreate{Operation: readiness, AllocationID: ids[1]}); !strings.Contains(string(a.Body), "operation_running") {
		t.Errorf("two operations have one allocation: %d %s", a.Status, a.Body)
	}
	for _, id := range made.Members {
		for _, n := range nodes {
			if nodeOf(t, b, id.AllocationID) != n.NodeID {
				continue
			}
			d, task, p := takesOperation(t, b, n)
			if p.AllocationID != id.AllocationID {
				t.Errorf("the plan is for allocation %q, want %s", p.AllocationID, id.AllocationID)
			}
			n.Finish(t, d, task, taskcatalog.OutcomeSucceeded, resultOf(p, taskcatalog.StepSkipped, ""), taskcatalog.Report{})
		}
	}
	o := reaches(t, b, mine.operations()+"/"+made.ID, "succeeded")
	if len(o.Members) != 2 || o.Members[0] != (api.OperationMember{AllocationID: made.Members[0].AllocationID, Nodes: 1, Succeeded: 1}) || o.Batches.Present != 2 {
		t.Errorf("%+v", o)
	}
	for _, n := range nodes {
		if nodeOf(t, b, foreign.ID) == n.NodeID && len(n.Offered(t)) != 0 {
			t.Error("another project's node has a task")
		}
	}
	var list api.OperationList
	a := b.Ask(t, viewer, http.MethodGet, mine.operations()+"?allocation="+ids[1], nil)
	if err := json.Unmarshal(a.Body, &list); err != nil || len(list.Items) != 1 || list.Items[0].Group != "all" {
		t.Errorf("%d %s", a.Status, a.Body)
	}
}

// nodeOf is the node of an allocation.
func nodeOf(t *testing.T, b *servertest.Broker, id string) string {
	t.Helper()
	a, err := openStore(t, b).Allocation(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	return a.NodeIDs[0]
}
