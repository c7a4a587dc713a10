package records

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/chain"
	"github.com/hostler/hostler/broker/operation"
	"github.com/hostler/hostler/broker/operation/statement"
	"github.com/hostler/hostler/broker/store"
	"github.com/hostler/hostler/broker/store/storetest"
	"github.com/hostler/hostler/taskcatalog"
)

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
		if now.PlanOf(now.Parts()[0]).Attempt != 2 || broker.OperationOfRun(now.RunID) != o.ID {
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
			_, _, err := s.db.CancelOperation(s.Context(), broker.Actor{Name: "eve"}, o.ID, "enough")
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
		_, _, err = s.db.CancelOperation(s.Context(), broker.Actor{Name: "eve"}, o.ID, "enough") // it stays as it is
		s.ok(err)
		s.begun(s.onLab()) // nothing of it holds the nodes
	})
}

// An operation whose run is gone is ended by the cancel itself, which says so once: nobody else counts it.
func TestACancelOfAnOperationWithoutARunIsTold(t *testing.T) {
	url, clock := storetest.URL(t, "sqlite"), storetest.NewClock()
	s := siteOn(t, storetest.Reopen(t, url, clock.Now), clock)
	var told []string
	s.records.Ended = func(_ context.Context, o broker.Operation) { told = append(told, o.ID+" "+string(o.Status)+" "+o.Code) }
	s.tasks.does = func(*broker.Task) {}
	o := s.begun(s.onLab())
	s.settle()
	raw, err := sql.Open("sqlite", "file:"+strings.TrimPrefix(url, "sqlite:"))
	s.ok(err)
	defer func() { _ = raw.Close() }()
	for _, table := range []string{"chain_locks WHERE run_id", "chain_events WHERE run_id", "chain_runs WHERE id"} {
		_, err = raw.Exec("DELETE FROM "+table+" = ?", runID(o.ID, 1))
		s.ok(err)
	}
	for attempt := range 2 { // the first cancel may be cut off before its tasks are withdrawn: the second withdraws them
		id, node := fmt.Sprintf("t-%d", attempt), o.NodeIDs[attempt]
		_, _, err := s.db.InsertTask(s.Context(), broker.System, broker.Task{
			ID: id, NodeID: node, NodeEpoch: s.node(node).Epoch, Type: operation.TaskType, Version: 1, Class: taskcatalog.ClassMutating,
			Lane: taskcatalog.LaneExclusive, Params: []byte(`{}`), Envelope: []byte(id), EnvelopeDigest: "sha256:" + id, KeyID: "k1",
			Nonce: "nonce-" + id, IssuedAt: s.db.Now(), NotAfter: s.db.Now().Add(time.Hour), CorrelationID: runID(o.ID, 1),
		})
		s.ok(err)
		_, err = s.records.Cancel(s.Context(), ada, o.ID, "enough")
		s.ok(err)
		if task, err := s.db.Task(s.Context(), id); err != nil || !task.Status.Ended() {
			t.Errorf("after cancel %d: %+v, %v", attempt, task, err)
		}
	}
	other := s.begun(s.onLab()) // has a run, which ends it
	_, err = s.records.Cancel(s.Context(), ada, other.ID, "enough")
	s.ok(err)
	if want := o.ID + " canceled canceled"; len(told) != 1 || told[0] != want {
		t.Errorf("told %q, want %q", told, want)
	}
}
