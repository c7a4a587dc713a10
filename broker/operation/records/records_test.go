package records

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/chain"
	"github.com/hostler/hostler/broker/operation"
	"github.com/hostler/hostler/broker/operation/definition"
	"github.com/hostler/hostler/broker/operation/statement"
	"github.com/hostler/hostler/broker/retention"
	"github.com/hostler/hostler/broker/store"
	"github.com/hostler/hostler/broker/store/storetest"
	"github.com/hostler/hostler/broker/taskqueue"
	"github.com/hostler/hostler/broker/taskstage"
	"github.com/hostler/hostler/pki"
	profiles "github.com/hostler/hostler/resolver-profiles"
	"github.com/hostler/hostler/taskcatalog"
)

var ada = broker.Actor{Name: "ada"}

// look is an operation that fits any target.
const look = `operation: demo.look
version: v1
summary: look at the driver
backend_type: node_agent
safety: forced
targets: [node, allocation]
deadline_seconds: 600
requires: {gpu.vendor: [nvidia]}
steps:
  - {id: driver, kind: gpu.driver.validate, timeout_seconds: 60}
`

func parsed(t testing.TB, change ...string) *definition.Definition {
	t.Helper()
	d, problems := definition.Parse(profiles.File{Name: "op.yaml", Text: []byte(strings.NewReplacer(change...).Replace(look))})
	if problems != nil {
		t.Fatal(problems)
	}
	return d
}

// site is a broker over the real store, with two projects and active nodes. Tasks are a stand-in.
type site struct {
	testing.TB
	db      *store.DB
	clock   *storetest.Clock
	records *Records
	engine  *chain.Engine
	tasks   *tasks
	project broker.Project
	lab     broker.Allocation // of project p-1, on n-0 and n-1
}

// tasks are tasks whose nodes answer at the second look.
type tasks struct {
	*Records
	all  []*broker.Task
	does func(k *broker.Task)
}

func (f *tasks) Request(_ context.Context, t taskstage.Task) (broker.Task, error) {
	for _, k := range f.all {
		if k.IdempotencyKey == t.Key {
			if !k.Status.Ended() {
				f.does(k)
			}
			return *k, nil
		}
	}
	k := &broker.Task{ID: "t-" + t.Key, IdempotencyKey: t.Key, NodeID: t.NodeID, CorrelationID: t.RunID, Status: broker.TaskDispatched, EnvelopeDigest: pki.Digest([]byte(t.Key))}
	f.all = append(f.all, k)
	return *k, nil
}

func (f *tasks) Withdraw(ctx context.Context, nodeID, runID, _ string) ([]broker.Task, error) {
	for _, k := range f.all {
		if k.NodeID == nodeID && k.CorrelationID == runID && !k.Status.Ended() {
			k.Status, k.Code = broker.TaskCanceled, taskcatalog.CodeCanceled
		}
	}
	return f.Tasks(ctx, nodeID, runID)
}

func (f *tasks) Statement(ctx context.Context, o broker.Operation, end broker.EndOperation) (file, receipt []byte, err error) {
	return f.state(ctx, o, end, f.Tasks)
}

func (f *tasks) Tasks(_ context.Context, nodeID, runID string) (all []broker.Task, err error) {
	for _, k := range f.all {
		if k.NodeID == nodeID && k.CorrelationID == runID {
			all = append(all, *k)
		}
	}
	return all, nil
}

func ended(k *broker.Task, status broker.TaskStatus, code taskcatalog.Code, step taskcatalog.StepStatus) {
	k.Status, k.Code = status, code
	k.Result, _ = json.Marshal(taskcatalog.OperationResult{Steps: []taskcatalog.OperationStep{
		{ID: "driver", Message: "of " + k.NodeID, StepRecord: taskcatalog.StepRecord{AttemptNumber: 1, Status: step, ErrorCode: code, DurationMS: 7}},
	}})
}

func succeeds(k *broker.Task) { ended(k, broker.TaskSucceeded, "", taskcatalog.StepSucceeded) }
func fails(k *broker.Task) {
	ended(k, broker.TaskFailed, taskcatalog.CodeStepFailed, taskcatalog.StepFailed)
}

// theKey is a statement key, which everybody knows.
type theKey struct{}

var theSeed = make([]byte, ed25519.SeedSize)

func (theKey) StatementSigner(context.Context) (pki.Signer, error) {
	return pki.NewSigner(ed25519.NewKeyFromSeed(theSeed))
}

// stated is the verified statement of an attempt.
func (s *site) stated(o broker.Operation) statement.Operation {
	s.Helper()
	file, err := s.db.OperationStatement(s.Context(), o.ID, o.Attempt)
	s.ok(err)
	r, err := statement.Verify(file, s.trust(), s.db.Now())
	s.ok(err)
	return r.Operation
}

func (s *site) trust() *pki.TrustBundle {
	s.Helper()
	const year = 365 * 24 * time.Hour
	key, err := pki.NewBundleKey(pki.UseStatement, ed25519.NewKeyFromSeed(theSeed).Public(), s.db.Now().Add(-year), s.db.Now().Add(year))
	s.ok(err)
	return &pki.TrustBundle{Version: 1, Keys: []pki.BundleKey{key}}
}

// received is the verified receipt of an attempt.
func (s *site) received(o broker.Operation) statement.Receipt {
	s.Helper()
	file, err := s.db.OperationReceipt(s.Context(), o.ProjectID, o.ID, o.Attempt)
	s.ok(err)
	r, err := statement.Verify(file, s.trust(), s.db.Now())
	s.ok(err)
	return *r.Receipt
}

func each(t *testing.T, f func(s *site)) {
	storetest.Each(t, func(t *testing.T, db *store.DB, clock *storetest.Clock) {
		s := &site{TB: t, db: db, clock: clock, records: &Records{DB: db, Queue: taskqueue.New(taskqueue.Config{DB: db, Rand: rand.Reader}), Signer: theKey{}}}
		s.tasks = &tasks{Records: s.records, does: succeeds}
		classes := chain.Classes{}
		for _, h := range broker.FailureHandlings {
			classes[chain.Class(h.Class)] = chain.Handling{Retry: h.Retry, Ends: chain.FailedRetryable}
		}
		var err error
		s.engine, err = chain.New(db, classes, chain.Options{}, (&operation.Chains{Records: s.tasks}).All()...)
		s.ok(err)
		s.stock()
		f(s)
	})
}

func (s *site) ok(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

func (s *site) refused(err error, code string) {
	s.Helper()
	if err == nil || broker.AsError(err).Code != code {
		s.Errorf("%v, want %s", err, code)
	}
}

// labGPUs is how many GPUs a node of the SKU has.
const labGPUs = 8

func (s *site) stock() {
	s.Helper()
	k := broker.NewSKU()
	k.ID, k.GPUVendor, k.GPUCount = "h100", "nvidia", labGPUs
	_, err := s.db.CreateSKU(s.Context(), ada, k)
	s.ok(err)
	_, err = s.db.CreateOrganisation(s.Context(), ada, broker.Organisation{ID: "org-1", Name: "acme"})
	s.ok(err)
	for _, id := range []string{"p-1", "p-2"} {
		s.project, err = s.db.CreateProject(s.Context(), ada, broker.Project{ID: id, OrganisationID: "org-1", Name: id})
		s.ok(err)
		_, err = s.db.SetQuota(s.Context(), ada, broker.Quota{ProjectID: id, SKU: "h100", Nodes: 10}, "")
		s.ok(err)
	}
	s.project, err = s.db.Project(s.Context(), broker.Place{}, "p-1")
	s.ok(err)
	d := parsed(s)
	content, err := d.Encode()
	s.ok(err)
	s.ok(s.db.ShipOperationDefinitions(s.Context(), []broker.OperationDefinition{
		{Operation: d.Operation, Version: d.Version, Summary: d.Summary, Digest: d.Digest(), Content: content},
	}))
	for i := range 2 {
		s.join(fmt.Sprintf("n-%d", i))
	}
	s.lab = s.allocated("alc-1", "p-1", 2)
	s.join("n-2")
}

func (s *site) join(id string) {
	s.Helper()
	_, err := s.db.CreateNode(s.Context(), ada, store.NewNode{ID: id, Hostname: "gpu-" + id, SKU: "h100", Bootstrap: "command", TokenHash: "h-" + id, TokenExpires: s.db.Now().Add(time.Hour)})
	s.ok(err)
	_, err = s.db.Enroll(s.Context(), store.EnrollInput{
		TokenHash: "h-" + id, PublicKeyDigest: "k-" + id, TrustVersion: 1,
		Report: store.NodeReport{AgentVersion: "1.3.0", TaskTypes: []string{"operation.run@1"}, Capabilities: map[string]string{"gpu.vendor": "nvidia"}, Digest: "d"},
		Issue: func(broker.Node, int64) (store.IssuedCert, error) {
			return store.IssuedCert{Serial: "s-" + id, PEM: "p", PublicKey: []byte(id), NotBefore: s.db.Now(), NotAfter: s.db.Now().Add(240 * time.Hour)}, nil
		},
	})
	s.ok(err)
	_, err = s.db.FirstContact(s.Context(), id, 1, "s-"+id)
	s.ok(err)
	s.ok(s.db.SaveBaseline(s.Context(), ada, id, "sha256:b", []byte("{}"), "test"))
	_, err = s.db.Transition(s.Context(), ada, id, store.Change{To: broker.Active, By: broker.OwnerOnboarding, Reason: "test"})
	s.ok(err)
	s.ok(s.db.TouchNodes(s.Context(), map[string]time.Time{id: s.db.Now()}))
}

func (s *site) allocated(id, project string, nodes int) broker.Allocation {
	s.Helper()
	_, err := s.db.CreateAllocation(s.Context(), ada, store.NewAllocation{ID: id, ProjectID: project, AllocationRequest: broker.AllocationRequest{SKU: "h100", Nodes: nodes}})
	s.ok(err)
	s.moves(id, broker.AllocationProvisioning, broker.AllocationWorker)
	s.moves(id, broker.AllocationActive, broker.AllocationWorker)
	a, err := s.db.Allocation(s.Context(), id)
	s.ok(err)
	return a
}

func (s *site) moves(id string, to broker.AllocationStatus, by broker.AllocationOwner) {
	s.Helper()
	_, err := s.db.TransitionAllocation(s.Context(), ada, id, store.AllocationChange{To: to, By: by})
	s.ok(err)
}

func (s *site) node(id string) broker.Node {
	s.Helper()
	n, err := s.db.Node(s.Context(), id)
	s.ok(err)
	return n
}

// onLab is an order of project p-1 on its allocation.
func (s *site) onLab() Order {
	return Order{Definition: parsed(s), Project: s.project, Allocation: s.lab, RequestedBy: "eve", Role: "project_member", Reason: "look"}
}

func (s *site) begin(w Order) (broker.Operation, error) {
	s.Helper()
	o, err := s.records.New(s.Context(), w)
	if err != nil {
		return o, err
	}
	_, err = s.engine.Start(s.Context(), Start(o, w.Role))
	return o, err
}

func (s *site) begun(w Order) broker.Operation {
	s.Helper()
	o, err := s.begin(w)
	s.ok(err)
	return o
}

func (s *site) settle() {
	s.Helper()
	for range 10 {
		for worked := true; worked; {
			var err error
			worked, err = s.engine.Step(s.Context())
			s.ok(err)
		}
		s.clock.Advance(3 * time.Second)
	}
}

func (s *site) stands(id string, status broker.OperationStatus, attempt int, code string) broker.Operation {
	s.Helper()
	o, err := s.db.Operation(s.Context(), id)
	s.ok(err)
	if o.Status != status || o.Attempt != attempt || o.Code != code || o.EndedAt.IsZero() == status.Ended() {
		s.Errorf("it is %s in attempt %d (%s: %s), ended %v, want %s %d (%s)", o.Status, o.Attempt, o.Code, o.Message, o.EndedAt, status, attempt, code)
	}
	return o
}

func (s *site) audited(id string) (actions []string) {
	s.Helper()
	rows, err := s.db.ListAudit(s.Context(), store.AuditFilter{Subject: "operation/" + id, Limit: 100})
	s.ok(err)
	for _, r := range rows {
		actions = append(actions, r.Action)
	}
	slices.Sort(actions)
	return actions
}

func (s *site) told() (types []string) {
	s.Helper()
	_, err := s.db.PlaceEvents(s.Context(), 1000)
	s.ok(err)
	page, _, err := s.db.Outbox(s.Context(), store.OutboxFilter{Limit: 1000})
	s.ok(err)
	for _, e := range page {
		if strings.HasPrefix(e.Subject, "operation/") {
			types = append(types, e.Type)
			for _, secret := range []string{"n-0", "n-1", "gpu-n"} {
				if strings.Contains(string(e.Data), secret) {
					s.Errorf("event %s names a node: %s", e.Type, e.Data)
				}
			}
		}
	}
	return types
}

func TestAnOperationOfAProjectIsKeptAuditedAndTold(t *testing.T) {
	each(t, func(s *site) {
		o := s.begun(s.onLab())
		s.stands(o.ID, broker.OperationQueued, 1, "")
		s.settle()
		kept := s.stands(o.ID, broker.OperationSucceeded, 1, "")
		if kept.ProjectID != "p-1" || kept.OrganisationID != "org-1" || kept.AllocationID != "alc-1" || !slices.Equal(kept.NodeIDs, s.lab.NodeIDs) ||
			kept.Trigger != broker.TriggerTenant || kept.RequestedBy != "eve" || kept.Plan.Steps[0].ID != "driver" || kept.Requires["gpu.vendor"][0] != "nvidia" ||
			kept.Plan.DefinitionDigest != kept.DefinitionDigest || kept.Plan.GPUs != labGPUs || kept.StartedAt.IsZero() {
			t.Errorf("%+v", kept)
		}
		rows, err := s.db.OperationSteps(s.Context(), o.ID, "", store.StepPlace{}, 10)
		s.ok(err)
		if len(rows) != 2 || rows[0].Message != "of "+s.lab.NodeIDs[0] || rows[1].Place != 1 || rows[1].StepKind != "gpu.driver.validate" || rows[1].DurationMS != 7 {
			t.Errorf("%+v", rows)
		}
		// The stand-in's nodes sign nothing: the statement names their tasks, and calls nothing a success.
		if r := s.received(kept); r.AllocationID != "alc-1" || r.ProjectID != "p-1" || r.Nodes != 2 || r.Proven != 0 || r.Status != statement.Failed {
			t.Errorf("%+v", r)
		}
		_, err = s.db.OperationReceipt(s.Context(), "p-2", kept.ID, 1)
		s.refused(err, "operation_statement_not_found")
		said := s.stated(kept)
		if said.OperationID != o.ID || said.Operation != "demo.look@v1" || said.DefinitionDigest != o.DefinitionDigest || said.Attempt != 1 ||
			said.Status != statement.Failed || len(said.Tasks) != 2 || said.Tasks[1].NodeID != s.lab.NodeIDs[1] || said.Tasks[0].Proof != nil {
			t.Errorf("%+v", said)
		}
		next, err := s.db.OperationSteps(s.Context(), o.ID, "driver", store.StepPlace{Task: 1}, 1)
		s.ok(err)
		if len(next) != 1 || next[0].Place != 1 {
			t.Errorf("after the first row: %+v", next)
		}
		if got := s.audited(o.ID); !slices.Equal(got, []string{"operation.request", "operation.transition", "operation.transition"}) {
			t.Errorf("audited %q", got)
		}
		if got := s.told(); !slices.Equal(got, []string{"operation.requested", "operation.completed"}) {
			t.Errorf("told %q", got)
		}
	})
}

// A project has the events of its operations, and of no other's: not of their runs, and not of the platform's.
func TestAProjectHasTheEventsOfItsOperations(t *testing.T) {
	each(t, func(s *site) {
		mine, platform := s.begun(s.onLab()), s.begun(Order{Definition: parsed(s), Node: s.node("n-2"), RequestedBy: "ada"})
		s.settle()
		s.stands(mine.ID, broker.OperationSucceeded, 1, "")
		s.stands(platform.ID, broker.OperationSucceeded, 1, "")
		s.told()
		for project, want := range map[string][]string{"p-1": {"operation.requested", "operation.completed"}, "p-2": nil} {
			page, _, err := s.db.Outbox(s.Context(), store.OutboxFilter{ProjectID: project, Limit: 1000})
			s.ok(err)
			var got []string
			for _, e := range page {
				if strings.HasPrefix(e.Type, "operation.") {
					got = append(got, e.Type)
				}
			}
			if !slices.Equal(got, want) {
				t.Errorf("project %s has %q, want %q", project, got, want)
			}
		}
	})
}

// A canary that fails leaves the other nodes untouched, which is stored and told. A retry begins with the canary.
func TestAFailedCanaryStopsTheBatches(t *testing.T) {
	each(t, func(s *site) {
		s.tasks.does = fails
		w := s.onLab()
		w.Batches = broker.OperationBatches{Canary: 1, Size: 1, MaxFailures: 9}
		o := s.begun(w)
		s.settle()
		kept := s.stands(o.ID, broker.OperationFailed, 1, broker.OperationBatchStopped)
		if len(s.tasks.all) != 1 || s.tasks.all[0].NodeID != s.lab.NodeIDs[0] || kept.Batch != 1 || kept.Batches != w.Batches {
			t.Errorf("%d tasks: %+v", len(s.tasks.all), kept)
		}
		if said := s.stated(kept); said.Status != statement.Failed || said.Code != broker.OperationBatchStopped || len(said.Tasks) != 1 {
			t.Errorf("%+v", said)
		}
		page, _, err := s.db.Outbox(s.Context(), store.OutboxFilter{Types: []string{store.OperationFailedEvent}})
		s.ok(err)
		if s.told(); len(page) > 0 {
			t.Errorf("events without a place: %+v", page)
		}
		page, _, err = s.db.Outbox(s.Context(), store.OutboxFilter{Types: []string{store.OperationFailedEvent}})
		s.ok(err)
		if len(page) != 1 || !strings.Contains(string(page[0].Data), `"code":"batch_stopped"`) {
			t.Errorf("told %+v", page)
		}
		s.tasks.does = succeeds
		next, err := s.records.Retry(s.Context(), kept, chain.Actor{Name: "eve"}, "again")
		s.ok(err)
		_, err = s.engine.Start(s.Context(), next)
		s.ok(err)
		s.settle()
		if kept = s.stands(o.ID, broker.OperationSucceeded, 2, ""); len(s.tasks.all) != 3 || kept.Batch != 2 {
			t.Errorf("%d tasks, batch %d", len(s.tasks.all), kept.Batch)
		}
	})
}

// A run may give a node tasks of other types. They are not its operation's.
func TestTasksOfOtherTypesAreNotTheOperations(t *testing.T) {
	each(t, func(s *site) {
		for _, typ := range []string{"node.diagnostics", operation.TaskType, "node.task_probe"} {
			_, _, err := s.db.InsertTask(s.Context(), broker.System, broker.Task{
				ID: "t-" + typ, NodeID: "n-2", NodeEpoch: s.node("n-2").Epoch, Type: typ, Version: 1, Class: taskcatalog.ClassMutating,
				Lane: taskcatalog.LaneExclusive, Params: []byte(`{}`), Envelope: []byte(typ), EnvelopeDigest: "sha256:" + typ, KeyID: "k1",
				Nonce: "nonce", IssuedAt: s.db.Now(), NotAfter: s.db.Now().Add(time.Hour), CorrelationID: "op-1-1",
			})
			s.ok(err)
		}
		all, err := s.records.Tasks(s.Context(), "n-2", "op-1-1")
		s.ok(err)
		if len(all) != 1 || all[0].ID != "t-operation.run" {
			t.Errorf("%+v", all)
		}
	})
}

func TestARetryGoesOnWithTheSamePlan(t *testing.T) {
	each(t, func(s *site) {
		s.tasks.does = fails
		o := s.begun(s.onLab())
		s.settle()
		failed := s.stands(o.ID, broker.OperationFailed, 1, "step_failed")
		start, err := s.records.Retry(s.Context(), failed, chain.Actor{Name: "ada"}, "again")
		s.ok(err)
		_, err = s.engine.Start(s.Context(), start)
		s.ok(err)
		if _, err := s.engine.Start(s.Context(), start); err == nil {
			t.Error("one attempt has two runs")
		}
		s.tasks.does = succeeds
		s.settle()
		now := s.stands(o.ID, broker.OperationSucceeded, 2, "")
		if now.PlanOf().Attempt != 2 || broker.OperationOfRun(now.RunID) != o.ID {
			t.Errorf("%+v", now)
		}
		if _, err := s.records.Retry(s.Context(), now, chain.Actor{Name: "ada"}, "again"); err == nil {
			t.Error("a success is tried again")
		}
		if first, second := s.stated(failed), s.stated(now); first.Attempt != 1 || first.Code != "step_failed" || second.Attempt != 2 || second.Code != "" {
			t.Errorf("the attempts' statements: %+v, %+v", first, second)
		}
		rows, err := s.db.OperationSteps(s.Context(), o.ID, "", store.StepPlace{}, 10)
		s.ok(err)
		if len(rows) != 4 || rows[3].Task != 2 {
			t.Errorf("%+v", rows)
		}
	})
}

func TestARetiredDefinitionIsNotTriedAgain(t *testing.T) {
	each(t, func(s *site) {
		s.tasks.does = fails
		o := s.begun(s.onLab())
		s.settle()
		failed := s.stands(o.ID, broker.OperationFailed, 1, "step_failed")
		for _, to := range []broker.OperationDefinitionStatus{broker.DefinitionDeprecated, broker.DefinitionRetired} {
			if _, err := s.records.Retry(s.Context(), failed, chain.Actor{Name: "ada"}, "again"); err != nil {
				t.Errorf("before it is %s: %v", to, err)
			}
			_, err := s.db.MoveOperationDefinition(s.Context(), ada, o.Operation, to, "", "old")
			s.ok(err)
		}
		_, err := s.records.Retry(s.Context(), failed, chain.Actor{Name: "ada"}, "again")
		s.refused(err, "operation_definition_retired")
	})
}

func TestACancelEndsAnOperationOnce(t *testing.T) {
	each(t, func(s *site) {
		s.tasks.does = func(*broker.Task) {}
		o := s.begun(s.onLab())
		s.settle()
		s.stands(o.ID, broker.OperationRunning, 1, "")
		for range 2 {
			_, err := s.db.CancelOperation(s.Context(), broker.Actor{Name: "eve"}, o.ID, "enough")
			s.ok(err)
		}
		s.settle()
		s.stands(o.ID, broker.OperationCanceled, 1, "canceled")
		if got := s.audited(o.ID); !slices.Equal(got, []string{"operation.cancel", "operation.request", "operation.transition", "operation.transition"}) {
			t.Errorf("audited %q", got)
		}

		// The run was cancelled before it began: the operation ends with it.
		o = s.begun(s.onLab())
		_, err := s.engine.Act(s.Context(), chain.Order{ID: runID(o.ID, 1), Actor: chain.Actor{Name: "ada"}, Action: chain.Cancel, Reason: "no"})
		s.ok(err)
		s.settle()
		if got := s.stands(o.ID, broker.OperationCanceled, 1, "canceled"); got.CanceledBy != "ada" || got.CancelReason != "no" {
			t.Errorf("%+v", got)
		}
		_, err = s.db.CancelOperation(s.Context(), broker.Actor{Name: "eve"}, o.ID, "enough") // it stays as it is
		s.ok(err)
		s.begun(s.onLab()) // nothing of it holds the nodes
	})
}

func TestATargetIsHeldAgainstTheRecords(t *testing.T) {
	each(t, func(s *site) {
		foreign, gone, drained, wide := s.onLab(), s.onLab(), s.onLab(), s.onLab()
		other, err := s.db.Project(s.Context(), broker.Place{}, "p-2")
		s.ok(err)
		foreign.Project = other
		gone.Allocation.ID = "alc-none"
		drained.Definition = parsed(s, "safety: forced", "safety: drained")
		wide.Definition = parsed(s, "nvidia", "amd")
		idle, kind := s.onLab(), s.onLab()
		idle.Definition = parsed(s, "safety: forced", "safety: idle")
		kind.Definition = parsed(s, "targets: [node, allocation]", "targets: [node]")
		for name, c := range map[string]struct {
			w    Order
			code string
		}{
			"another project's allocation":  {foreign, broker.OperationTargetGone},
			"no allocation":                 {gone, "allocation_not_found"},
			"a definition for idle nodes":   {idle, "operation_not_idle"},
			"a definition for drained ones": {drained, "operation_not_drained"},
			"another vendor":                {wide, "capability_missing"},
			"another kind of target":        {kind, "operation_target_kind"},
			"a node that is allocated":      {Order{Definition: parsed(s), Node: s.node("n-0"), RequestedBy: "ada"}, "allocation_live"},
		} {
			_, err := s.begin(c.w)
			if err == nil || broker.AsError(err).Code != c.code {
				t.Errorf("%s: %v, want %s", name, err, c.code)
			}
			if err != nil && c.w.Allocation.ID != "" && strings.Contains(err.Error(), "n-0") {
				t.Errorf("%s: a tenant reads the name of a node: %v", name, err)
			}
		}
		// Between the check and the start, the allocation is released.
		o, err := s.records.New(s.Context(), s.onLab())
		s.ok(err)
		s.moves("alc-1", broker.AllocationReleasing, broker.AllocationUser)
		_, err = s.engine.Start(s.Context(), Start(o, ""))
		s.refused(err, broker.OperationTargetGone)
		_, err = s.db.Operation(s.Context(), o.ID)
		s.refused(err, "operation_not_found")
	})
}

// A release takes its task from an operation on the allocation.
func TestAReleaseEndsTheOperationOnItsNodes(t *testing.T) {
	each(t, func(s *site) {
		s.tasks.does = func(*broker.Task) {}
		o := s.begun(s.onLab())
		s.settle()
		s.moves("alc-1", broker.AllocationReleasing, broker.AllocationUser)
		s.settle()
		failed := s.stands(o.ID, broker.OperationFailed, 1, broker.OperationTargetGone)
		_, err := s.records.Retry(s.Context(), failed, chain.Actor{Name: "eve"}, "")
		s.refused(err, broker.OperationTargetGone)
	})
}

// No two operations have one node, and a node with an operation is handed to nobody.
func TestAnOperationHasItsNodesAlone(t *testing.T) {
	each(t, func(s *site) {
		s.tasks.does = func(*broker.Task) {}
		s.begun(s.onLab())
		if _, err := s.begin(s.onLab()); err == nil {
			t.Error("two operations have one allocation")
		}
		onNode := Order{Definition: parsed(s, "safety: forced", "safety: idle"), Node: s.node("n-2"), RequestedBy: "ada"}
		o := s.begun(onNode)
		if o.Trigger != broker.TriggerAdmin || o.ProjectID != "" || o.TargetID != "n-2" {
			t.Errorf("%+v", o)
		}
		_, err := s.db.CreateAllocation(s.Context(), ada, store.NewAllocation{ID: "alc-2", ProjectID: "p-2", AllocationRequest: broker.AllocationRequest{SKU: "h100", Nodes: 1}})
		if err == nil {
			t.Error("the node was handed out")
		}
		s.tasks.does = succeeds
		s.settle()
		s.stands(o.ID, broker.OperationSucceeded, 1, "")
		s.allocated("alc-2", "p-2", 1)
	})
}

func TestListsHaveTheProjectsOwnNewestFirst(t *testing.T) {
	each(t, func(s *site) {
		var ids []string
		for range 3 {
			ids = append(ids, s.begun(s.onLab()).ID)
			s.settle()
		}
		slices.Reverse(ids)
		page, next, err := s.db.Operations(s.Context(), store.OperationFilter{ProjectID: "p-1", Limit: 2})
		s.ok(err)
		if len(page) != 2 || page[0].ID != ids[0] || next != ids[1] {
			t.Errorf("%d, next %s of %q", len(page), next, ids)
		}
		page, next, err = s.db.Operations(s.Context(), store.OperationFilter{ProjectID: "p-1", After: next, Limit: 2, Statuses: []broker.OperationStatus{broker.OperationSucceeded}})
		s.ok(err)
		if len(page) != 1 || page[0].ID != ids[2] || next != "" {
			t.Errorf("%d, next %s of %q", len(page), next, ids)
		}
		first, err := s.db.Operation(s.Context(), ids[2])
		s.ok(err)
		last, err := s.db.Operation(s.Context(), ids[0])
		s.ok(err)
		for name, row := range map[string]struct {
			f    store.OperationFilter
			want int
		}{
			"a definition":           {store.OperationFilter{Operation: "demo.look@v1"}, 3},
			"another version":        {store.OperationFilter{Operation: "demo.look@v2"}, 0},
			"a type":                 {store.OperationFilter{Operation: "demo.look"}, 3},
			"a type of another name": {store.OperationFilter{Operation: "demo.loo"}, 0},
			"no wildcards":           {store.OperationFilter{Operation: "demo_look"}, 0},
			"its allocation":         {store.OperationFilter{AllocationID: "alc-1"}, 3},
			"another allocation":     {store.OperationFilter{AllocationID: "alc-2"}, 0},
			"from the last on":       {store.OperationFilter{From: last.RequestedAt}, 1},
			"before the last":        {store.OperationFilter{To: last.RequestedAt}, 2},
			"between":                {store.OperationFilter{From: first.RequestedAt.Add(time.Second), To: last.RequestedAt}, 1},
		} {
			row.f.ProjectID = "p-1"
			page, _, err := s.db.Operations(s.Context(), row.f)
			if s.ok(err); len(page) != row.want {
				s.Errorf("%s: %d operations, want %d", name, len(page), row.want)
			}
		}
		for _, of := range []string{"p-2", "p-none"} {
			page, _, err = s.db.Operations(s.Context(), store.OperationFilter{ProjectID: of, After: ids[0]})
			if s.ok(err); len(page) != 0 {
				t.Errorf("%s sees %+v", of, page)
			}
			_, err = s.db.ProjectOperation(s.Context(), of, ids[0])
			s.refused(err, "operation_not_found")
		}
	})
}

func TestOldOperationsGoWithTheirRuns(t *testing.T) {
	each(t, func(s *site) {
		o := s.begun(s.onLab())
		s.settle()
		s.clock.Advance(500 * 24 * time.Hour)
		old := store.History{Before: s.db.Now().Add(-400 * 24 * time.Hour), Mark: "/x"}
		_, err := s.db.DropOperations(s.Context(), old, store.HistoryPage{}, 10)
		s.ok(err)
		s.stands(o.ID, broker.OperationSucceeded, 1, "") // its run is still there
		_, err = s.db.DropRuns(s.Context(), old, store.HistoryPage{}, 10)
		s.ok(err)
		_, err = s.db.DropOperations(s.Context(), old, store.HistoryPage{}, 10)
		s.ok(err)
		_, err = s.db.Operation(s.Context(), o.ID)
		s.refused(err, "operation_not_found")
		rows, err := s.db.OperationSteps(s.Context(), o.ID, "", store.StepPlace{}, 10)
		if s.ok(err); len(rows) != 0 {
			t.Errorf("%+v", rows)
		}
	})
}

// The newest ended operations of a project stay, and all that have not ended.
func TestAProjectKeepsABoundedNumberOfOperations(t *testing.T) {
	each(t, func(s *site) {
		var ids []string
		for range 3 {
			ids = append(ids, s.begun(s.onLab()).ID)
			s.settle()
		}
		onNode := s.begun(Order{Definition: parsed(s), Node: s.node("n-2"), RequestedBy: "ada", Reason: "look"}) // the platform's
		s.settle()
		s.tasks.does = func(*broker.Task) {}
		live := s.begun(s.onLab())
		s.settle()
		forEver := time.Duration(0)
		for _, keeper := range []retention.Keeper{{}, {Operations: 2}} {
			s.stands(ids[0], broker.OperationSucceeded, 1, "")
			keeper.DB, keeper.History = s.db, retention.Policy{For: &forEver}
			s.ok(keeper.Drop(s.Context()))
		}
		_, err := s.db.Operation(s.Context(), ids[0])
		s.refused(err, "operation_not_found")
		_, err = s.db.OperationStatement(s.Context(), ids[0], 1)
		s.refused(err, "operation_statement_not_found")
		rows, err := s.db.OperationSteps(s.Context(), ids[0], "", store.StepPlace{}, 10)
		if s.ok(err); len(rows) != 0 {
			t.Errorf("%+v", rows)
		}
		for _, id := range []string{ids[1], ids[2], onNode.ID} {
			s.stands(id, broker.OperationSucceeded, 1, "")
		}
		s.stands(live.ID, broker.OperationRunning, 1, "")
		audit, err := s.db.ListAudit(s.Context(), store.AuditFilter{Action: "operation.dropped"})
		if s.ok(err); len(audit) != 1 || !strings.Contains(string(audit[0].After), `"project":"p-1"`) {
			t.Errorf("%+v", audit)
		}
	})
}

// The policy narrows a plan, denies with the level that says so, and is asked again while the task runs.
func TestAPolicyNarrowsAndDeniesOperations(t *testing.T) {
	each(t, func(s *site) {
		at := broker.Place{OrganisationID: "org-1", ProjectID: "p-1"}
		set := func(at broker.Place, o broker.OperationOverlay) {
			_, err := s.db.SetOperationPolicy(s.Context(), ada, broker.OperationPolicy{Place: at, Operation: "demo.look", Overlay: o}, false, "test")
			s.ok(err)
		}
		seconds, one, no := int64(9), int64(1), false
		set(broker.Place{}, broker.OperationOverlay{TimeoutSeconds: &seconds, MaxConcurrency: &one})
		s.tasks.does = func(*broker.Task) {}
		o := s.begun(s.onLab())
		s.settle()
		if kept := s.stands(o.ID, broker.OperationRunning, 1, ""); kept.Plan.DeadlineSeconds != 9 {
			t.Errorf("the deadline is %d s", kept.Plan.DeadlineSeconds)
		}
		other := s.onLab()
		other.Allocation = s.allocated("alc-3", "p-1", 1)
		_, err := s.begin(other)
		s.refused(err, "operation_concurrency_denied")
		set(at, broker.OperationOverlay{Enabled: &no})
		s.settle()
		s.stands(o.ID, broker.OperationFailed, 1, "operation_denied")
		_, err = s.begin(other)
		s.refused(err, "operation_denied")
		if err != nil && !strings.Contains(err.Error(), "the project's policy for demo.look") {
			t.Errorf("the denial does not say which level denied: %v", err)
		}
		set(at, broker.OperationOverlay{AllowedTargetKinds: []string{"node"}})
		_, err = s.begin(other)
		s.refused(err, "target_kind_denied")
	})
}
