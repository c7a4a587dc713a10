package records

import (
	"context"
	"database/sql"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/chain"
	"github.com/hostler/hostler/broker/operation/definition"
	operationrecords "github.com/hostler/hostler/broker/operation/records"
	"github.com/hostler/hostler/broker/store"
	"github.com/hostler/hostler/broker/store/storetest"
	"github.com/hostler/hostler/broker/turnover"
	"github.com/hostler/hostler/pki"
	profiles "github.com/hostler/hostler/resolver-profiles"
	"github.com/hostler/hostler/taskcatalog"
)

// look is an operation for allocations; the name is replaced.
const look = `operation: demo.look
version: v1
summary: look at the driver
backend_type: node_agent
safety: forced
targets: [node, allocation]
deadline_seconds: 600
steps:
  - {id: driver, kind: gpu.driver.validate, timeout_seconds: 60}
`

// shipLook stores active definitions of operations that look.
func shipLook(t testing.TB, db *store.DB, names ...string) {
	t.Helper()
	var all []broker.OperationDefinition
	for _, name := range names {
		d, problems := definition.Parse(profiles.File{Name: "op.yaml", Text: []byte(strings.Replace(look, "demo.look", name, 1))})
		if problems != nil {
			t.Fatal(problems)
		}
		content, err := d.Encode()
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, broker.OperationDefinition{Operation: d.Operation, Version: d.Version, Summary: d.Summary, Digest: d.Digest(), Content: content})
	}
	if err := db.ShipOperationDefinitions(t.Context(), all); err != nil {
		t.Fatal(err)
	}
}

// planOf is the plan that a task carries.
func planOf(t testing.TB, params []byte) (p taskcatalog.OperationPlan) {
	t.Helper()
	if err := json.Unmarshal(params, &p); err != nil {
		t.Fatal(err)
	}
	return p
}

// carriedOut is what a node reports of a plan.
func carriedOut(t testing.TB, params []byte, fails bool) taskcatalog.OperationResult {
	t.Helper()
	var r taskcatalog.OperationResult
	for _, s := range planOf(t, params).Steps {
		row := taskcatalog.OperationStep{ID: s.ID}
		if row.AttemptNumber, row.Status, row.StepKind = 1, taskcatalog.StepSucceeded, s.Kind; fails {
			row.Status, row.ErrorCode = taskcatalog.StepFailed, "exit_code"
		}
		r.Steps = append(r.Steps, row)
	}
	return r
}

// binds binds operations to the SKU and to project p-1; empty: none.
func (s *site) binds(sku, project broker.OperationBindings) {
	s.Helper()
	shipLook(s, s.db, "demo.begin", "demo.end", "demo.other")
	_, err := s.db.UpdateSKU(s.Context(), ada, "h100", "", func(k *broker.SKU) error { k.Bindings = sku; return nil })
	s.ok(err)
	_, err = s.db.SetBindings(s.Context(), ada, "p-1", "", func(b *broker.OperationBindings) { *b = project })
	s.ok(err)
}

func bound(name string) *broker.BoundOperation {
	return &broker.BoundOperation{Operation: name + "@v1"}
}

// operations are those of project p-1, oldest first.
func (s *site) operations() []broker.Operation {
	s.Helper()
	all, _, err := s.db.Operations(s.Context(), store.OperationFilter{ProjectID: "p-1"})
	s.ok(err)
	slices.Reverse(all)
	return all
}

// begins begins an operation of project p-1 on an allocation.
func (s *site) begins(name, allocation string) {
	s.Helper()
	d, _, err := s.records.Operations.Definition(s.Context(), name+"@v1")
	s.ok(err)
	p, err := s.db.Project(s.Context(), broker.Place{}, "p-1")
	s.ok(err)
	a, err := s.db.Allocation(s.Context(), allocation)
	s.ok(err)
	o, err := s.records.Operations.New(s.Context(), operationrecords.Order{Definition: d, Project: p, Allocation: a, RequestedBy: "eve"})
	s.ok(err)
	_, err = s.engine.Start(s.Context(), operationrecords.Start(o, ""))
	s.ok(err)
}

// The operations of an allocation are the SKU's, or else the project's. Each is an operation of the project like any
// other, with its statement.
func TestAnAllocationRunsTheOperationsThatAreNamed(t *testing.T) {
	eachSite(t, 2, func(s *site) {
		s.binds(broker.OperationBindings{OnBegin: bound("demo.begin")}, broker.OperationBindings{OnBegin: bound("demo.other"), OnEnd: bound("demo.end")})
		s.ask("alc-1", 2)
		s.settle()
		s.stands("alc-1", broker.AllocationActive, "")
		s.release("alc-1")
		s.settle()
		s.stands("alc-1", broker.AllocationReleased, "")
		all := s.operations()
		if len(all) != 2 {
			t.Fatalf("%d operations: %+v", len(all), all)
		}
		for i, want := range []struct {
			operation, id string
			trigger       broker.OperationTrigger
		}{{"demo.begin@v1", "op-1-begin", "allocation_provision"}, {"demo.end@v1", "op-1-end", "allocation_release"}} {
			o := all[i]
			if o.Operation != want.operation || o.ID != want.id || o.Trigger != want.trigger || o.Status != broker.OperationSucceeded || o.Attempt != 1 ||
				o.AllocationID != "alc-1" || len(o.NodeIDs) != 2 || o.RequestedBy != "system" || o.ProjectID != "p-1" {
				t.Errorf("%+v, want %+v", o, want)
			}
			file, err := s.db.OperationStatement(s.Context(), o.ID, 1)
			if s.ok(err); len(file) == 0 {
				t.Errorf("operation %s has no statement", o.ID)
			}
		}
		want := "provision_user provision_user check_login check_login operation.run operation.run operation.run operation.run revoke_user revoke_user"
		if got := strings.ReplaceAll(strings.Join(s.asked, " "), "allocation.", ""); got != want {
			t.Errorf("the nodes were asked for %s", got)
		}
	})
}

func TestAnOperationThatFailsEndsItsAllocation(t *testing.T) {
	eachSite(t, 1, func(s *site) {
		s.binds(broker.OperationBindings{OnBegin: bound("demo.begin")}, broker.OperationBindings{})
		s.fails = true
		s.ask("alc-1", 1)
		s.settle()
		s.stands("alc-1", broker.AllocationFailed, "begin_operation_failed")
		if all := s.operations(); len(all) != 1 || all[0].Status != broker.OperationFailed || all[0].Code != "step_failed" {
			t.Errorf("%+v", all)
		}
		all, err := s.db.Runs(s.Context(), chain.Filter{Kind: broker.TurnoverKinds})
		if s.ok(err); len(all) != 1 || all[0].CorrelationID != "alc-1" {
			t.Errorf("turnovers: %+v", all)
		}
	})
}

// A policy that denies the project's operation denies the begin, too: it is not left out. At the end, the release goes
// on. No policy of the project takes away what the SKU names.
func TestAPolicyDeniesABoundOperation(t *testing.T) {
	eachSite(t, 2, func(s *site) {
		s.binds(broker.OperationBindings{}, broker.OperationBindings{OnBegin: bound("demo.begin"), OnEnd: bound("demo.end")})
		deny := func(name string) {
			t.Helper()
			no := false
			_, err := s.db.SetOperationPolicy(s.Context(), ada, broker.OperationPolicy{
				Place: broker.Place{OrganisationID: "org-1", ProjectID: "p-1"}, Operation: name, Overlay: broker.OperationOverlay{Enabled: &no},
			}, false, "")
			s.ok(err)
		}
		deny("demo.end")
		s.ask("alc-1", 1)
		s.settle()
		s.stands("alc-1", broker.AllocationActive, "")
		s.release("alc-1")
		s.settle()
		s.stands("alc-1", broker.AllocationReleased, "")
		deny("demo.begin")
		s.ask("alc-2", 1)
		s.settle()
		s.stands("alc-2", broker.AllocationFailed, "begin_operation_failed")
		if all := s.operations(); len(all) != 1 {
			t.Errorf("%+v", all)
		}
		s.binds(broker.OperationBindings{OnBegin: bound("demo.begin"), OnEnd: bound("demo.end")}, broker.OperationBindings{})
		s.ask("alc-3", 1)
		s.settle()
		s.stands("alc-3", broker.AllocationActive, "")
		s.release("alc-3")
		s.settle()
		s.stands("alc-3", broker.AllocationReleased, "")
		if all := s.operations(); len(all) != 3 || all[1].Status != broker.OperationSucceeded || all[2].Status != broker.OperationSucceeded {
			t.Errorf("%+v", all)
		}
	})
}

// An operation whose node says nothing is cancelled, with its task, and the release goes on.
func TestAnOperationThatHangsHoldsNoReleaseUp(t *testing.T) {
	eachSite(t, 1, func(s *site) {
		s.binds(broker.OperationBindings{}, broker.OperationBindings{OnEnd: bound("demo.end")})
		s.ask("alc-1", 1)
		s.settle()
		s.hangs = true
		s.release("alc-1")
		s.settleFor(19 * time.Minute) // its deadline, and two silences less a minute
		s.stands("alc-1", broker.AllocationReleasing, "")
		s.settleFor(16 * time.Minute)
		s.stands("alc-1", broker.AllocationReleased, "")
		if all := s.operations(); len(all) != 1 || all[0].CanceledBy != "system" {
			t.Errorf("%+v", all)
		}
	})
}

// A member's operation has the nodes when the release begins: it is cancelled, its requester reads why, and the one of the
// SKU begins as soon as the node has said that it ended.
func TestTheOperationOfTheEndWaitsForAnother(t *testing.T) {
	eachSite(t, 1, func(s *site) {
		s.binds(broker.OperationBindings{OnEnd: bound("demo.end")}, broker.OperationBindings{})
		a := s.ask("alc-1", 1)
		s.settle()
		s.hangs, s.deaf = true, true
		s.begins("demo.other", a.ID)
		s.settleFor(time.Minute)
		s.hangs = false
		s.release("alc-1")
		s.settleFor(4 * time.Minute)
		s.stands("alc-1", broker.AllocationReleasing, "")
		if waits, err := s.db.AllocationWaits(s.Context(), "alc-1"); err != nil || !strings.Contains(waits, "may still run on n-0, and was cancelled") {
			t.Errorf("it waits for %q, %v", waits, err)
		}
		if all := s.operations(); len(all) != 1 || all[0].CanceledBy != "system" || all[0].Status != broker.OperationRunning {
			t.Errorf("%+v", all)
		}
		s.deaf = false
		s.settleFor(2 * time.Minute)
		s.stands("alc-1", broker.AllocationReleased, "")
		all := s.operations()
		if len(all) != 2 || all[0].Status != broker.OperationCanceled || all[0].Code != broker.OperationTargetGone ||
			!strings.Contains(all[0].Message, "allocation alc-1 is released") || all[1].ID != "op-1-end" || all[1].Status != broker.OperationSucceeded {
			t.Errorf("%+v", all)
		}
	})
}

// What an enrolment has cut off may still run on the node, although nobody waits for it any more: each turnover that
// begins by itself is a reimage, until one has a certificate.
func TestWhatAnEnrolmentCutOffIsReimaged(t *testing.T) {
	eachSite(t, 0, func(s *site) {
		s.withImages("ubuntu/noble")
		shipLook(s, s.db, "demo.look")
		a := s.ask("alc-1", 1)
		s.settle()
		past := func() turnover.Past {
			s.Helper()
			n, err := s.db.Node(s.Context(), "n-0")
			s.ok(err)
			p, err := s.records.Starts.Past(s.Context(), n, broker.DefaultPolicy().ModePolicy, nil)
			s.ok(err)
			return p
		}
		s.begins("demo.look", a.ID)
		s.settleFor(time.Minute)
		if all := s.operations(); len(all) != 1 || all[0].Status != broker.OperationSucceeded || past().Unended != "" {
			t.Fatalf("%+v, %+v", all, past())
		}
		s.hangs, s.deaf = true, true
		s.begins("demo.look", a.ID)
		s.settleFor(time.Minute)
		if got := past().Unended; !strings.Contains(got, "the end of operation "+s.operations()[1].ID) {
			t.Errorf("while it runs: %q", got)
		}
		s.enrolsAgain("n-0")
		s.settleFor(10 * time.Second)
		all := s.operations()
		if !all[1].Status.Ended() {
			t.Fatalf("%+v", all[1])
		}
		if got := past().Unended; !strings.Contains(got, "the end of operation "+all[1].ID) {
			t.Errorf("after the enrolment: %q", got)
		}
		_, err := s.db.KeepCleanCertificate(s.Context(), ada, store.CleanCertificate{
			ID: "c-1", RunID: "r-1", NodeID: "n-0", NodeEpoch: 2, Mode: "reimage", Digest: "sha256:c", IssuedAt: s.db.Now(), ValidUntil: s.db.Now(), File: []byte("{}"),
		})
		if s.ok(err); past().Unended != "" {
			t.Errorf("after a reimage: %+v", past())
		}
	})
}

// enrolsAgain gives a node another enrolment, as a person does whose node has lost its key. Nothing is asked of it since.
func (s *site) enrolsAgain(id string) {
	s.Helper()
	old, again := s.nodes[id], &agent{Node: s.authority.NewNode(s.T)}
	delete(s.nodes, id)
	cert := again.Cert.Leaf
	digest, err := pki.PublicKeyDigest(cert.PublicKey)
	s.ok(err)
	s.ok(s.db.IssueToken(s.Context(), ada, id, "h-again-"+id, s.db.Now().Add(time.Hour), "it lost its key"))
	n, err := s.db.Node(s.Context(), id)
	s.ok(err)
	_, err = s.db.Enroll(s.Context(), store.EnrollInput{
		TokenHash: "h-again-" + id, PublicKeyDigest: digest, TrustVersion: 1, MAASSystemID: n.MAASSystemID,
		Report: store.NodeReport{AgentVersion: "1.3.0", TaskTypes: taskcatalog.IDs(), Digest: "d"},
		Issue: func(broker.Node, int64) (store.IssuedCert, error) {
			return store.IssuedCert{Serial: pki.Serial(cert), PEM: "p", PublicKey: cert.RawSubjectPublicKeyInfo, NotBefore: cert.NotBefore, NotAfter: s.db.Now().Add(24 * time.Hour)}, nil
		},
	})
	s.ok(err)
	_, err = s.db.FirstContact(s.Context(), id, old.Epoch+1, pki.Serial(cert))
	s.ok(err)
}

// A release asks at each look whether there is an operation to give up. Where there is none, it needs no transaction
// that writes: it goes on while somebody else writes.
func TestNothingToGiveUpIsNoWrite(t *testing.T) {
	url := storetest.URL(t, "sqlite")
	db := storetest.Reopen(t, url, storetest.NewClock().Now)
	r := &Records{DB: db, Operations: &operationrecords.Records{DB: db}}
	raw, err := sql.Open("sqlite", "file:"+strings.TrimPrefix(url, "sqlite:"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = raw.Close() }()
	conn, err := raw.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	if _, err := conn.ExecContext(t.Context(), "BEGIN IMMEDIATE"); err != nil {
		t.Fatal(err)
	}
	defer func() { _, _ = conn.ExecContext(context.Background(), "ROLLBACK") }()
	ctx, done := context.WithTimeout(t.Context(), 5*time.Second)
	defer done()
	if err := r.GiveUp(ctx, "op-none", "it goes on without it"); broker.AsError(err).Code != "operation_not_found" {
		t.Errorf("%v", err)
	}
}
