package adminapi_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/chain"
	"github.com/hostler/hostler/broker/operation"
	"github.com/hostler/hostler/broker/operation/definition"
	"github.com/hostler/hostler/broker/operation/statement"
	"github.com/hostler/hostler/broker/server"
	"github.com/hostler/hostler/broker/server/servertest"
	"github.com/hostler/hostler/broker/store"
	profiles "github.com/hostler/hostler/resolver-profiles"
	"github.com/hostler/hostler/taskcatalog"
	"github.com/hostler/hostler/taskcatalog/operations"
	"github.com/hostler/hostler/taskcatalog/wire"
)

const readiness = "runtime.readiness.verify@v1"

// openStore opens the store of a broker.
func openStore(t *testing.T, b *servertest.Broker) *store.DB {
	t.Helper()
	db, err := store.Open(t.Context(), store.Options{URL: server.StoreURL(b.Dir, ""), Now: b.Now})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}

// ship stores the definitions that ship, unless the broker has.
func ship(t *testing.T, b *servertest.Broker) {
	t.Helper()
	var all []broker.OperationDefinition
	for _, id := range []string{readiness, "gpu.host.bootstrap@v1"} {
		text, err := operations.Files.ReadFile(id + ".yaml")
		if err != nil {
			t.Fatal(err)
		}
		d, problems := definition.Parse(profiles.File{Name: id, Text: text})
		if problems != nil {
			t.Fatal(problems)
		}
		raw, err := d.Encode()
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, broker.OperationDefinition{Operation: d.Operation, Version: d.Version, Summary: d.Summary, Digest: d.Digest(), Content: raw})
	}
	if err := openStore(t, b).ShipOperationDefinitions(t.Context(), all); err != nil {
		t.Fatal(err)
	}
}

func (n tenant) operations() string { return "/projects/" + n.project.ID + "/operations" }

// operated is the id of an operation of the tenant on its allocation, which no node carries out.
func (n tenant) operated(t *testing.T, b *servertest.Broker) string {
	t.Helper()
	leads(t, b, n.held.ID, toProvisioning, toActive)
	return n.began(t, b, "op-"+n.org.Name, "theirs")
}

// began stores an operation of the tenant on its active allocation, which no node carries out.
func (n tenant) began(t *testing.T, b *servertest.Broker, id, by string) string {
	t.Helper()
	db := openStore(t, b)
	a, err := db.Allocation(t.Context(), n.held.ID)
	if err != nil {
		t.Fatal(err)
	}
	o := broker.Operation{
		ID: id, Operation: readiness, ProjectID: n.project.ID, Target: broker.TargetAllocation, TargetID: a.ID, AllocationID: a.ID,
		NodeIDs: a.NodeIDs, Site: a.Site, RequestedBy: by, Trigger: broker.TriggerTenant,
	}
	state, err := json.Marshal(operation.Work{OperationID: o.ID, Attempt: 1, NodeIDs: a.NodeIDs})
	if err != nil {
		t.Fatal(err)
	}
	r := chain.Record{
		ID: o.ID + "-1", Kind: broker.OperationKind, Site: "dc1", Status: chain.Pending, Stage: "check_target", Direction: chain.Forward, Attempt: 1,
		State: state, RequestedBy: by, DueAt: b.Now().Add(100 * time.Hour),
	}
	if err := db.Insert(t.Context(), []chain.NewRun{{Record: r, Effects: []any{broker.RequestOperation{Operation: o}}}}, nil); err != nil {
		t.Fatal(err)
	}
	return o.ID
}

// takesOperation waits for the task of an operation, as a node.
func takesOperation(t *testing.T, b *servertest.Broker, n *servertest.Node) (wire.Delivery, *taskcatalog.Task, taskcatalog.OperationPlan) {
	t.Helper()
	var d wire.Delivery
	servertest.Eventually(t, "the task of an operation", func() bool {
		b.Advance(time.Second / 2)
		offered := n.Offered(t)
		if len(offered) == 1 {
			d = offered[0]
		}
		return len(offered) == 1
	})
	task := n.Verified(t, d)
	var p taskcatalog.OperationPlan
	if err := json.Unmarshal(task.Params, &p); err != nil || task.Type != "operation.run" {
		t.Fatalf("task %s: %v", task.Type, err)
	}
	return d, task, p
}

// resultOf is a result in which every step of a plan has a status, but for the last.
func resultOf(p taskcatalog.OperationPlan, last taskcatalog.StepStatus, code taskcatalog.Code) (out taskcatalog.OperationResult) {
	out.OperationID, out.Operation, out.DefinitionDigest, out.InputsDigest = p.OperationID, p.Operation, p.DefinitionDigest, p.InputsDigest
	for i, s := range p.Steps {
		r := taskcatalog.StepRecord{StepKind: s.Kind, AttemptNumber: 1, Status: taskcatalog.StepSucceeded, DurationMS: 5, ResolvedProfile: "nvidia_smi_health"}
		if i == len(p.Steps)-1 {
			r.Status, r.ErrorCode = last, code
		}
		out.Steps = append(out.Steps, taskcatalog.OperationStep{ID: s.ID, Message: "words of gpu-1", StepRecord: r})
	}
	return out
}

func reaches(t *testing.T, b *servertest.Broker, path, status string) (o api.Operation) {
	t.Helper()
	servertest.Eventually(t, "the operation to be "+status, func() bool {
		b.Advance(time.Second / 2)
		o = servertest.Must[api.Operation](t, b, http.MethodGet, path, nil)
		return o.Status == status
	})
	return o
}

// A member begins an operation on an allocation; the node gets the signed plan; the rows that the node signed
// are the log. Nobody of the project reads of a node.
func TestAProjectRunsAnOperationOnItsAllocation(t *testing.T) {
	b := servertest.Start(t)
	ship(t, b)
	nodes := stocked(t, b, "h100.8gpu", 1, servertest.H100s(8))
	mine := newTenant(t, b, "acme", "lab")
	mine.holds(t, b, "h100.8gpu")
	nodes[0].Provision(t, mine.held.ID)
	tokens := mine.tokens(t, b)
	member, viewer, admin := tokens["project_member of a project"], tokens["project_viewer of a project"], tokens["project_admin of a project"]
	ask := api.OperationCreate{Operation: readiness, AllocationID: mine.held.ID, Reason: "before the training"}

	var plan struct{ Plan taskcatalog.OperationPlan }
	a := b.Ask(t, member, http.MethodPost, mine.operations()+"/plan", ask)
	if err := json.Unmarshal(a.Body, &plan); err != nil || len(plan.Plan.Steps) != 5 || plan.Plan.OperationID != "" || plan.Plan.AllocationID != mine.held.ID {
		t.Fatalf("%d %s, %v", a.Status, a.Body, err)
	}
	for name, c := range map[string]struct {
		token string
		body  api.OperationCreate
		code  string
	}{
		"a viewer":                  {viewer, ask, "role_insufficient"},
		"an allocation of nobody":   {member, api.OperationCreate{Operation: readiness, AllocationID: "alc-none"}, "allocation_not_found"},
		"a definition that is none": {member, api.OperationCreate{Operation: "demo.none@v1", AllocationID: mine.held.ID}, "operation_definition_not_found"},
		"inputs that are none":      {member, api.OperationCreate{Operation: readiness, AllocationID: mine.held.ID, Inputs: json.RawMessage(`{"shell":"x"}`)}, "operation_inputs"},
		"a target of another kind":  {member, api.OperationCreate{Operation: "gpu.host.bootstrap@v1", AllocationID: mine.held.ID}, "operation_target_kind"},
	} {
		if a := b.Ask(t, c.token, http.MethodPost, mine.operations(), c.body); a.Code() != c.code {
			t.Errorf("%s: %d %s, want %s", name, a.Status, a.Body, c.code)
		}
	}

	var made, again api.Operation
	a = b.AskOnce(t, "key-1", member, http.MethodPost, mine.operations(), ask)
	if err := json.Unmarshal(a.Body, &made); err != nil || a.Status != http.StatusCreated || made.Status != "queued" && made.Status != "running" || made.Trigger != "tenant_request" || made.Nodes != 1 {
		t.Fatalf("%d %s, %v", a.Status, a.Body, err)
	}
	a = b.AskOnce(t, "key-1", member, http.MethodPost, mine.operations(), ask)
	if err := json.Unmarshal(a.Body, &again); err != nil || again.ID != made.ID {
		t.Errorf("the same key began %d %s", a.Status, a.Body)
	}
	if a := b.Ask(t, member, http.MethodPost, mine.operations(), ask); a.Code() != "operation_running" || strings.Contains(string(a.Body), nodes[0].NodeID) {
		t.Errorf("a second operation on the allocation: %d %s", a.Status, a.Body)
	}

	path := mine.operations() + "/" + made.ID
	d, task, p := takesOperation(t, b, nodes[0])
	if p.OperationID != made.ID || p.Attempt != 1 || p.ProjectID != mine.project.ID || p.DefinitionDigest != made.DefinitionDigest {
		t.Errorf("the node is asked for %+v", p)
	}
	nodes[0].Progress(t, d, wire.ProgressRequest{CurrentStepIndex: 2, TotalSteps: 5, CurrentStepName: "runtime", StepStatus: "running", StepStartedAt: b.Now(), StepPercent: 40})
	reaches(t, b, path, "running")
	servertest.Eventually(t, "the progress to be told", func() bool {
		b.Advance(time.Second / 2)
		return strings.Contains(string(b.Ask(t, b.Token, http.MethodGet, "/events?follow=false&after=0", nil).Body), "operation.progress")
	})
	a = b.Ask(t, viewer, http.MethodGet, path, nil)
	if !strings.Contains(string(a.Body), `"step_id":"runtime","step_index":2,"steps":5,"percent":40`) {
		t.Errorf("its progress: %s", a.Body)
	}
	nodes[0].FailWith(t, d, task, taskcatalog.CodeStepFailed, "on gpu-1", resultOf(p, taskcatalog.StepFailed, "ports_down"))
	if o := reaches(t, b, path, "failed"); o.Code != "step_failed" || !strings.Contains(o.Message, "retry it") {
		t.Errorf("%+v", o)
	}

	if a := b.Ask(t, member, http.MethodPost, path+"/retry", api.ReasonBody{Reason: "cabled"}); a.Status != http.StatusOK || !strings.Contains(string(a.Body), `"attempt":2`) {
		t.Fatalf("%d %s", a.Status, a.Body)
	}
	d, task, p = takesOperation(t, b, nodes[0])
	if p.Attempt != 2 || p.OperationID != made.ID {
		t.Errorf("the node is asked for %+v", p)
	}
	nodes[0].Finish(t, d, task, taskcatalog.OutcomeSucceeded, resultOf(p, taskcatalog.StepSkipped, ""), taskcatalog.Report{})
	reaches(t, b, path, "succeeded")
	if a := b.Ask(t, admin, http.MethodPost, path+"/retry", api.ReasonBody{}); a.Code() != "transition_refused" {
		t.Errorf("a success is tried again: %d %s", a.Status, a.Body)
	}

	// Each attempt has a statement, which verifies with the broker's trust bundle alone, for the platform alone.
	for attempt, want := range map[int]string{1: statement.Failed, 2: statement.Succeeded} {
		at := fmt.Sprintf("/operations/%s/statement?attempt=%d", made.ID, attempt)
		file := servertest.Must[api.OperationStatement](t, b, http.MethodGet, at, nil)
		r, err := statement.Verify([]byte(file.File), nodes[0].Trust, b.Now())
		if err != nil {
			t.Fatal(err)
		}
		o := r.Operation
		if o.Status != want || o.Attempt != attempt || o.OperationID != made.ID || o.DefinitionDigest != made.DefinitionDigest || len(o.Tasks) != 1 ||
			o.Tasks[0].Proof == nil || len(o.Steps) != 5 || o.Steps[1].ResolvedProfile != "nvidia_smi_health" || o.Steps[1].NodeID != nodes[0].NodeID ||
			file.Digest != r.Digest {
			t.Errorf("attempt %d: %+v", attempt, o)
		}
		if a := b.Ask(t, admin, http.MethodGet, at, nil); a.Code() != "role_insufficient" && a.Status != http.StatusForbidden {
			t.Errorf("a project reads of its nodes: %d %s", a.Status, a.Body)
		}
		receives(t, b, viewer, fmt.Sprintf("%s/statement?attempt=%d", path, attempt), nodes[0], want, file.Digest)
	}
	receivesNone(t, b, viewer, path, made.ID)
	if a := b.Ask(t, b.Token, http.MethodGet, "/operations/"+made.ID+"/statement?attempt=3", nil); a.Code() != "operation_statement_not_found" {
		t.Errorf("%d %s", a.Status, a.Body)
	}
	if a := b.Ask(t, admin, http.MethodPost, path+"/cancel", api.ReasonBody{}); a.Status != http.StatusOK || !strings.Contains(string(a.Body), `"succeeded"`) {
		t.Errorf("a cancel after the end: %d %s", a.Status, a.Body)
	}

	var rows []api.OperationLine
	cursor := ""
	for {
		a := b.Ask(t, viewer, http.MethodGet, path+"/logs?limit=3&cursor="+cursor, nil)
		var page api.OperationLog
		if err := json.Unmarshal(a.Body, &page); err != nil || len(page.Items) == 0 || len(page.Items) > 3 {
			t.Fatalf("%d %s, %v", a.Status, a.Body, err)
		}
		if strings.Contains(string(a.Body), "words of") || strings.Contains(string(a.Body), "nvidia_smi") {
			t.Errorf("a tenant reads what the node says of itself: %s", a.Body)
		}
		rows = append(rows, page.Items...)
		if cursor = page.Next; cursor == "" {
			break
		}
	}
	if len(rows) != 10 || rows[4].ErrorCode != "ports_down" || rows[9].Attempt != 2 || rows[9].Status != "skipped" || rows[0].Place != 1 {
		t.Errorf("%d rows: %+v", len(rows), rows)
	}
	one := servertest.Must[api.PlatformOperationLog](t, b, http.MethodGet, "/operations/"+made.ID+"/logs?step_id=driver", nil)
	if len(one.Items) != 2 || one.Items[0].Message != "words of gpu-1" || one.Items[0].ResolvedProfile != "nvidia_smi_health" {
		t.Errorf("%+v", one)
	}
	if a := b.Ask(t, viewer, http.MethodGet, path+"/logs?cursor=1.2", nil); a.Code() != "cursor_invalid" {
		t.Errorf("%d %s", a.Status, a.Body)
	}
	if got := servertest.Must[api.PlatformOperation](t, b, http.MethodGet, "/operations/"+made.ID, nil); len(got.NodeIDs) != 1 || got.NodeIDs[0] != nodes[0].NodeID || got.RunID != made.ID+"-2" {
		t.Errorf("%+v", got)
	}
	for _, list := range []string{
		mine.operations(), mine.operations() + "?status=succeeded", mine.operations() + "?operation=" + readiness,
		mine.operations() + "?operation=runtime.readiness.verify&allocation=" + mine.held.ID + "&from=" + made.RequestedAt.Format(time.RFC3339Nano), path,
	} {
		if a := b.Ask(t, viewer, http.MethodGet, list, nil); !strings.Contains(string(a.Body), made.ID) || strings.Contains(string(a.Body), nodes[0].NodeID) {
			t.Errorf("GET %s: %s", list, a.Body)
		}
	}
	if a := b.Ask(t, viewer, http.MethodGet, mine.operations()+"?status=fine", nil); a.Code() != "status_unknown" {
		t.Errorf("%d %s", a.Status, a.Body)
	}
	correlated(t, b, made.ID)
	if seen := documented(t, b); seen["operation.requested"] != 2 || seen["operation.failed"] != 1 || seen["operation.completed"] != 1 || seen["operation.progress"] == 0 {
		t.Errorf("events %v", seen)
	}
	readsItsOperation(t, b, mine, viewer, made.ID, nodes[0].NodeID)
}

// readsItsOperation checks the events that a project has of its operation: each of them, and nothing of a node,
// of who asked, or of the platform.
func readsItsOperation(t *testing.T, b *servertest.Broker, mine tenant, token, operation, node string) {
	t.Helper()
	mine.told(t, b, token, 7)
	raw := b.Ask(t, token, http.MethodGet, mine.events()+"?after=0&follow=false", nil)
	seen := documentedForProject(t, raw)
	if seen["operation.requested"] != 2 || seen["operation.progress"] != 1 || seen["operation.failed"] != 1 || seen["operation.completed"] != 1 {
		t.Errorf("it reads %v", seen)
	}
	for _, word := range []string{"dc1", node, "of gpu-1", "hostler/runs", `"by"`, `"site"`, "before the training", "cabled", "operation.execution", "hostname", operation + "-1"} {
		if reads(string(raw.Body), word) {
			t.Errorf("a project reads %q in %s", word, raw.Body)
		}
	}
}

// A member cancels and retries what their own token began, an admin of the project or of the organisation all that
// the project has. Of the platform only an admin does. A caller who may not changes nothing.
func TestAMemberCancelsAndRetriesItsOwnOperationsAlone(t *testing.T) {
	b := servertest.Start(t)
	undisturbed(t, b)
	ship(t, b)
	stocked(t, b, "h100.8gpu", 2)
	mine, theirs := newTenant(t, b, "acme", "lab"), newTenant(t, b, "secret", "moonshot")
	mine.holds(t, b, "h100.8gpu")
	leads(t, b, mine.held.ID, toProvisioning, toActive)
	const done = ""
	type may struct{ own, others string }
	all, none, unknown := may{done, done}, may{"role_insufficient", "role_insufficient"}, may{"operation_not_found", "operation_not_found"}
	want := map[string]may{
		"platform_admin": all, "operator": none, "viewer": none,
		"tenant_admin": all, "project_admin": all, "project_admin of a project": all,
		"project_member": {done, "operation_not_yours"}, "project_member of a project": {done, "operation_not_yours"},
		"project_viewer": none, "project_viewer of a project": none,
		"project_admin elsewhere": unknown, "project_member elsewhere": unknown, "tenant_admin elsewhere": unknown,
	}
	tokens := mine.tokens(t, b)
	for role, token := range theirs.tokens(t, b) {
		tokens[role+" elsewhere"] = token
	}
	for _, role := range []string{"platform_admin", "operator", "viewer"} {
		tokens[role] = b.NewToken(t, api.TokenCreate{Name: strings.ReplaceAll(role, "_", "-"), Role: role})
	}
	n := 0
	for role, may := range want {
		var me api.Token
		if a := b.Ask(t, tokens[role], http.MethodGet, "/whoami", nil); json.Unmarshal(a.Body, &me) != nil || me.Name == "" {
			t.Fatalf("%d %s", a.Status, a.Body)
		}
		for by, code := range map[string]string{me.Name: may.own, "acme-other": may.others} {
			n++
			path := mine.operations() + "/" + mine.began(t, b, fmt.Sprint("op-", n), by)
			if strings.HasSuffix(role, "elsewhere") {
				path = theirs.operations() + strings.TrimPrefix(path, mine.operations())
			}
			retried := code
			if code == done {
				retried = "transition_refused" // it has not ended
			}
			if a := b.Ask(t, tokens[role], http.MethodPost, path+"/retry", api.ReasonBody{Reason: "r"}); a.Code() != retried {
				t.Errorf("%s retries what %s began: %d %s, want %q", role, by, a.Status, a.Body, retried)
			}
			a := b.Ask(t, tokens[role], http.MethodPost, path+"/cancel", api.ReasonBody{Reason: "r"})
			if a.Code() != code || code == done && !strings.Contains(string(a.Body), `"canceling":true`) {
				t.Errorf("%s cancels what %s began: %d %s, want %q", role, by, a.Status, a.Body, code)
			}
			o := servertest.Must[api.PlatformOperation](t, b, http.MethodGet, fmt.Sprint("/operations/op-", n), nil)
			if o.Canceling != (code == done) {
				t.Errorf("after %s: %+v", role, o)
			}
			b.Advance(time.Second)
		}
	}
	if rows := audited(t, b, "operation_not_yours"); len(rows) != 4 {
		t.Errorf("audited %d refusals", len(rows))
	}
}

// What an admin of the platform begins on a project's allocation is no request of a tenant.
func TestAnOperationSaysWhoBeganIt(t *testing.T) {
	b := servertest.Start(t)
	ship(t, b)
	nodes := stocked(t, b, "h100.8gpu", 1, servertest.H100s(8))
	mine := newTenant(t, b, "acme", "lab")
	mine.holds(t, b, "h100.8gpu")
	nodes[0].Provision(t, mine.held.ID)
	made := servertest.Must[api.Operation](t, b, http.MethodPost, mine.operations(), api.OperationCreate{Operation: readiness, AllocationID: mine.held.ID})
	if made.Trigger != "admin" {
		t.Errorf("it is by %s, %q", made.RequestedBy, made.Trigger)
	}
}

// A cancel stops the task on the node, and the operation is canceled once the node has said so.
func TestACancelStopsTheTaskOnTheNode(t *testing.T) {
	b := servertest.Start(t)
	ship(t, b)
	node := stocked(t, b, "h100.8gpu", 1, servertest.H100s(8))[0]
	ask := api.PlatformOperationCreate{Operation: readiness, Node: node.NodeID, Reason: "look"}
	if a := b.Ask(t, b.Token, http.MethodPost, "/operations", api.PlatformOperationCreate{Operation: readiness, Node: node.NodeID}); a.Code() != "reason_missing" {
		t.Errorf("without a reason: %d %s", a.Status, a.Body)
	}
	planned := servertest.Must[api.OperationPlan](t, b, http.MethodPost, "/operations/plan", ask)
	if planned.Warning != "" || !strings.Contains(string(planned.Plan), "gpu.driver.validate") {
		t.Errorf("%+v", planned)
	}
	made := servertest.Must[api.PlatformOperation](t, b, http.MethodPost, "/operations", ask)
	if made.Trigger != "admin" || made.Site != "dc1" || made.ProjectID != "" {
		t.Errorf("%+v", made)
	}
	d, task, p := takesOperation(t, b, node)
	if a := b.Ask(t, b.Token, http.MethodPost, "/operations", ask); a.Code() != "node_in_run" {
		t.Errorf("a second operation on the node: %d %s", a.Status, a.Body)
	}
	if a := b.Ask(t, b.Token, http.MethodPost, "/operations/"+made.ID+"/cancel", api.ReasonBody{}); a.Code() != "reason_missing" {
		t.Errorf("without a reason: %d %s", a.Status, a.Body)
	}
	// A freeze holds the operation's run, and not the cancel.
	servertest.Must[api.FreezeResult](t, b, http.MethodPost, "/freeze", api.FreezePut{Site: "dc1", Reason: "storm"})
	got := servertest.Must[api.PlatformOperation](t, b, http.MethodPost, "/operations/"+made.ID+"/cancel", api.ReasonBody{Reason: "enough"})
	if !got.Canceling || got.CancelReason != "enough" {
		t.Errorf("%+v", got)
	}
	if !servertest.Must[api.Task](t, b, http.MethodGet, "/tasks/"+task.TaskID, nil).CancelRequested {
		t.Error("the node is not asked to stop")
	}
	servertest.Must[api.FreezeResult](t, b, http.MethodPost, "/unfreeze", api.FreezePut{Site: "dc1", Reason: "over"})
	node.Finish(t, d, task, taskcatalog.OutcomeCanceled, resultOf(p, taskcatalog.StepCanceled, ""), taskcatalog.Report{})
	if o := reaches(t, b, "/operations/"+made.ID, "canceled"); o.Code != "canceled" || o.Canceling {
		t.Errorf("%+v", o)
	}
}

// A node that an allocation holds is its project's: operators of the platform begin nothing on it.
func TestThePlatformBeginsNothingOnANodeOfATenant(t *testing.T) {
	b := servertest.Start(t)
	ship(t, b)
	node := stocked(t, b, "h100.8gpu", 1, servertest.H100s(8))[0]
	mine := newTenant(t, b, "acme", "lab")
	mine.holds(t, b, "h100.8gpu")
	a := b.Ask(t, b.Token, http.MethodPost, "/operations", api.PlatformOperationCreate{Operation: readiness, Node: node.NodeID, Reason: "look"})
	if a.Status != http.StatusConflict || a.Code() != "allocation_live" {
		t.Errorf("%d %s", a.Status, a.Body)
	}
}
