package adminapi_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/chain"
	"github.com/hostler/hostler/broker/operation"
	"github.com/hostler/hostler/broker/server/servertest"
)

// A project_admin says what runs on the project's allocations, as far as definitions and policies let it.
func TestAProjectBindsOperations(t *testing.T) {
	b := servertest.Start(t)
	ship(t, b)
	mine := newTenant(t, b, "acme", "lab")
	admin := b.NewToken(t, api.TokenCreate{Name: "pa", Role: "project_admin", Project: mine.project.ID})
	path := "/projects/" + mine.project.ID + "/operation-bindings"
	bind := func(p api.ProjectBindings) servertest.Answer {
		t.Helper()
		return b.Ask(t, admin, http.MethodPatch, path, p)
	}
	seen := func(begin, end string) {
		t.Helper()
		p := servertest.Must[api.Project](t, b, http.MethodGet, "/projects/"+mine.project.ID, nil)
		name := func(o *api.BoundOperation) string {
			if o == nil {
				return ""
			}
			return o.Operation
		}
		if name(p.OnBegin) != begin || name(p.OnEnd) != end {
			t.Errorf("it has %+v and %+v, want %s and %s", p.OnBegin, p.OnEnd, begin, end)
		}
	}
	if a := bind(api.ProjectBindings{OnBegin: &api.BoundOperation{Operation: readiness}}); a.Status != http.StatusOK {
		t.Fatalf("%d %s", a.Status, a.Body)
	}
	leave := &api.BoundOperation{Operation: "slurm.node.leave@v1", Inputs: json.RawMessage(`{"cluster":"lab"}`)}
	if a := bind(api.ProjectBindings{OnEnd: leave, Reason: "the cluster is ours"}); a.Status != http.StatusOK {
		t.Fatalf("%d %s", a.Status, a.Body)
	}
	const end = "allocation.runtime.deprovision@v1"
	if a := bind(api.ProjectBindings{OnEnd: &api.BoundOperation{Operation: end}, Reason: "stop at the end, too"}); a.Status != http.StatusOK {
		t.Fatalf("%d %s", a.Status, a.Body)
	}
	seen(readiness, end)
	for code, p := range map[string]api.ProjectBindings{
		"operation_not_bindable":         {OnEnd: &api.BoundOperation{Operation: readiness}}, // it may take longer than a project's end
		"invalid_request":                {},
		"operation_definition_not_found": {OnBegin: &api.BoundOperation{Operation: "no.such@v1"}},
		"operation_target_kind":          {OnEnd: &api.BoundOperation{Operation: "gpu.host.bootstrap@v1"}},
		"operation_inputs":               {OnBegin: &api.BoundOperation{Operation: readiness, Inputs: json.RawMessage(`{"port":1}`)}},
	} {
		if a := bind(p); a.Code() != code {
			t.Errorf("%d %s, want %s", a.Status, a.Body, code)
		}
	}
	servertest.Must[api.OperationPolicy](t, b, http.MethodPut, "/operation-policies/runtime.readiness.verify",
		api.OperationPolicyPut{Policy: api.OperationOverlay{AllowedTargetKinds: []string{"node"}}})
	if a := bind(api.ProjectBindings{OnBegin: &api.BoundOperation{Operation: readiness}}); a.Code() != "target_kind_denied" {
		t.Errorf("%d %s, want target_kind_denied", a.Status, a.Body)
	}
	if a := bind(api.ProjectBindings{OnBegin: &api.BoundOperation{}}); a.Status != http.StatusOK {
		t.Fatalf("%d %s", a.Status, a.Body)
	}
	seen("", end)
}

// A change of something else leaves what a SKU binds, and inputs never outlive their operation.
func TestASKUBindsOperations(t *testing.T) {
	b := servertest.Start(t)
	ship(t, b)
	const staging = "model.artifact.stage@v1"
	inputs := map[string]any{"bucket": "models/public", "source": "models/public/w.bin", "digest": "sha256:" + strings.Repeat("a", 64), "name": "w.bin"}
	with := func(operation string, inputs any) map[string]any {
		return map[string]any{"operation": operation, "inputs": inputs}
	}
	servertest.Must[api.SKU](t, b, http.MethodPost, "/skus", map[string]any{"id": "h100", "on_begin": with(staging, inputs)})
	change := func(body map[string]any) api.SKU {
		t.Helper()
		return servertest.Must[api.SKU](t, b, http.MethodPatch, "/skus/h100", body)
	}
	if s := change(map[string]any{"description": "new"}); s.OnEnd != nil || s.OnBegin == nil || s.OnBegin.Operation != staging || !strings.Contains(string(s.OnBegin.Inputs), "w.bin") {
		t.Errorf("%+v", s.OnBegin)
	}
	if s := change(map[string]any{"on_begin": map[string]any{"operation": readiness}}); s.OnBegin == nil || s.OnBegin.Operation != readiness || len(s.OnBegin.Inputs) > 0 {
		t.Errorf("%+v", s.OnBegin)
	}
	if a := b.Ask(t, b.Token, http.MethodPatch, "/skus/h100", map[string]any{"on_end": with(staging, inputs)}); a.Code() != "operation_not_bindable" {
		t.Errorf("an operation of half a day at the end: %d %s", a.Status, a.Body)
	}
	if a := b.Ask(t, b.Token, http.MethodPatch, "/skus/h100", map[string]any{"on_begin": map[string]any{"operation": "gpu.host.bootstrap@v1"}}); a.Code() != "operation_target_kind" {
		t.Errorf("%d %s", a.Status, a.Body)
	}
	if s := change(map[string]any{"on_begin": map[string]any{"operation": ""}}); s.OnBegin != nil {
		t.Errorf("%+v", s.OnBegin)
	}
}

// Nobody but the allocation tries its operation again, and no project ends it: it may be the platform's.
func TestABoundOperationBelongsToItsAllocation(t *testing.T) {
	b := servertest.Start(t)
	undisturbed(t, b)
	ship(t, b)
	stocked(t, b, "h100.8gpu", 1)
	mine := newTenant(t, b, "acme", "lab")
	mine.holds(t, b, "h100.8gpu")
	leads(t, b, mine.held.ID, toProvisioning)
	db := openStore(t, b)
	a, err := db.Allocation(t.Context(), mine.held.ID)
	if err != nil {
		t.Fatal(err)
	}
	o := broker.Operation{
		ID: broker.BoundOperationID(a.ID, broker.TriggerBegin), Operation: readiness, ProjectID: mine.project.ID, Target: broker.TargetAllocation, TargetID: a.ID,
		AllocationID: a.ID, NodeIDs: a.NodeIDs, Site: a.Site, RequestedBy: "system", Trigger: broker.TriggerBegin,
	}
	state, err := json.Marshal(operation.Work{OperationID: o.ID, Attempt: 1, NodeIDs: a.NodeIDs})
	if err != nil {
		t.Fatal(err)
	}
	r := chain.Record{
		ID: o.ID + "-1", Kind: broker.OperationKind, Site: "dc1", Status: chain.Pending, Stage: "check_target", Direction: chain.Forward, Attempt: 1,
		State: state, RequestedBy: "system", DueAt: b.Now().Add(100 * time.Hour),
	}
	if err := db.Insert(t.Context(), []chain.NewRun{{Record: r, Effects: []any{broker.RequestOperation{Operation: o}}}}, nil); err != nil {
		t.Fatal(err)
	}
	admin := b.NewToken(t, api.TokenCreate{Name: "pa", Role: "project_admin", Project: mine.project.ID})
	for path, token := range map[string]string{
		mine.operations() + "/" + o.ID + "/retry": admin, "/operations/" + o.ID + "/retry": b.Token, mine.operations() + "/" + o.ID + "/cancel": admin,
	} {
		if a := b.Ask(t, token, http.MethodPost, path, api.ReasonBody{Reason: "again"}); a.Code() != "operation_bound" {
			t.Errorf("%s: %d %s, want operation_bound", path, a.Status, a.Body)
		}
	}
	if a := b.Ask(t, b.Token, http.MethodPost, "/operations/"+o.ID+"/cancel", api.ReasonBody{Reason: "stands in the way"}); a.Status/100 != 2 {
		t.Errorf("the platform cannot end it: %d %s", a.Status, a.Body)
	}
}
