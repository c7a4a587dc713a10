package records

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/chain"
	"github.com/hostler/hostler/broker/operation"
	"github.com/hostler/hostler/broker/operation/definition"
	"github.com/hostler/hostler/broker/operation/statement"
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
targets: [node, allocation, group]
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
	storetest.Each(t, func(t *testing.T, db *store.DB, clock *storetest.Clock) { f(siteOn(t, db, clock)) })
}

func siteOn(t *testing.T, db *store.DB, clock *storetest.Clock) *site {
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
	return s
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
	s.joinAs(id, "h100")
}

func (s *site) joinAs(id, sku string) {
	s.Helper()
	_, err := s.db.CreateNode(s.Context(), ada, store.NewNode{ID: id, Hostname: "gpu-" + id, SKU: sku, Bootstrap: "command", TokenHash: "h-" + id, TokenExpires: s.db.Now().Add(time.Hour)})
	s.ok(err)
	_, err = s.db.Enroll(s.Context(), store.EnrollInput{
		TokenHash: "h-" + id, PublicKeyDigest: "k-" + id, TrustVersion: 1,
		Report: store.NodeReport{AgentVersion: "1.3.0", TaskTypes: []string{"operation.run@1"}, Capabilities: map[string]string{
			"gpu.vendor": "nvidia", taskcatalog.CapabilityOperationForm: strconv.Itoa(taskcatalog.OperationForm),
		}, Digest: "d"},
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

// checked holds an operation against the records as they are now.
func (s *site) checked(o broker.Operation, begins bool) error {
	s.Helper()
	_, err := s.records.Check(s.Context(), o, o.NodeIDs, begins)
	return err
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
