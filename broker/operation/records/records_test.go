package records

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/operation"
	"github.com/hostler/hostler/broker/operation/statement"
	"github.com/hostler/hostler/broker/store"
	"github.com/hostler/hostler/taskcatalog"
)

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
