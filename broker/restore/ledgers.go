package restore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/store"
	"github.com/hostler/hostler/broker/taskqueue"
	"github.com/hostler/hostler/taskcatalog"
)

// Enqueuer enqueues tasks for nodes. taskqueue.Queue implements it.
type Enqueuer interface {
	Enqueue(ctx context.Context, actor broker.Actor, r taskqueue.Request) (k broker.Task, repeat bool, err error)
}

var _ Enqueuer = (*taskqueue.Queue)(nil)

// maxRequests is how many tries a node has to report its ledger: each try is a task that expires
// after minutes.
const maxRequests = 3

// ledgers asks each node let in for its accepted tasks, and compares them. A failure for
// one node is retried, and delays no other node.
func (w *Watch) ledgers(ctx context.Context, last store.Restore) error {
	nodes, err := w.DB.RestoredNodes(ctx)
	if err != nil {
		return err
	}
	var failed error
	for _, n := range nodes {
		if n.LetInAt.IsZero() || !n.ComparedAt.IsZero() {
			continue
		}
		found, done, err := w.ledger(ctx, n, last)
		if err == nil && done {
			err = w.DB.SaveCompared(ctx, n.NodeID, found)
		}
		if err != nil {
			failed = errors.Join(failed, fmt.Errorf("node %s: %w", n.NodeID, err))
		}
	}
	return failed
}

// ledger returns the differences between one node's ledger and the database; done is true when
// there is an answer, or when there will be none.
func (w *Watch) ledger(ctx context.Context, n store.RestoredNode, last store.Restore) (found []store.Difference, done bool, err error) {
	why := ""
	for try := range maxRequests {
		key := fmt.Sprintf("restore-%d-%d-%d", last.RestoredAt.UnixMicro(), n.LetInAt.UnixMicro(), try)
		k, asked, err := w.DB.TaskByKey(ctx, n.NodeID, key)
		if err != nil {
			return nil, false, err
		}
		switch {
		case !asked:
			_, _, err := w.Tasks.Enqueue(ctx, broker.Actor{Name: "system"},
				taskqueue.Request{NodeID: n.NodeID, Type: "node.task_list", IdempotencyKey: key})
			if err == nil {
				return nil, false, nil
			}
			if e := broker.AsError(err); e.Kind == broker.Internal || e.Kind == broker.Unavailable {
				return nil, false, err
			}
			why = err.Error() // for example an agent too old for this task
		case !k.Status.Ended():
			return nil, false, nil
		case k.Status == broker.TaskSucceeded:
			found, err = w.compare(ctx, n.NodeID, k.ID)
			return found, err == nil, err
		default:
			why = "its answer was " + string(k.Status) + " " + string(k.Code)
		}
	}
	return []store.Difference{{
		Subject: "node/" + n.NodeID, Code: "ledger_unread",
		Text: "the tasks that the node ran since the backup are not known: " + why,
	}}, true, nil
}

// compare compares a node's ledger with the records.
func (w *Watch) compare(ctx context.Context, nodeID, taskID string) ([]store.Difference, error) {
	answer, err := w.DB.Task(ctx, taskID)
	if err != nil {
		return nil, err
	}
	var told taskcatalog.TaskListResult
	if err := json.Unmarshal(answer.Result, &told); err != nil {
		return []store.Difference{{
			Subject: "node/" + nodeID, Code: "ledger_unread",
			Text: "the tasks that the node ran since the backup are not known: its answer cannot be read",
		}}, nil
	}
	var found []store.Difference
	differ := func(m taskcatalog.TaskMemory, code, form string, args ...any) {
		found = append(found, store.Difference{
			Subject: "task/" + taskcatalog.Clean(m.TaskID, 80), Code: code,
			Text: fmt.Sprintf(form, args...),
		})
	}
	for i, m := range told.Tasks {
		if i == taskcatalog.MaxTaskList {
			break
		}
		did := fmt.Sprintf("node %s accepted a %s at %s: %s", nodeID, taskcatalog.Clean(m.Type, 64),
			m.AcceptedAt.UTC().Format("2006-01-02 15:04"), taskcatalog.Clean(taskState(m), 64))
		k, err := w.DB.Asked(ctx, m.TaskID)
		switch {
		case err != nil && broker.AsError(err).Code != "task_not_found":
			return nil, err
		case err != nil || k.NodeID != nodeID:
			differ(m, "task_unknown", "%s; the task is not in the backup", did)
		case m.Outcome != "" && k.Outcome != m.Outcome:
			differ(m, "task_outcome", "%s; the backup has it as %s %s", did, k.Status, k.Code)
		}
	}
	if told.More > 0 {
		found = append(found, store.Difference{
			Subject: "node/" + nodeID, Code: "ledger_long",
			Text: fmt.Sprintf("the node's ledger has %d more tasks, which are older than the compared ones", told.More),
		})
	}
	return found, nil
}

// taskState returns the node's report of a task's progress or outcome.
func taskState(m taskcatalog.TaskMemory) string {
	if m.Outcome == "" {
		return m.State
	}
	return string(m.Outcome) + " " + string(m.Code)
}
