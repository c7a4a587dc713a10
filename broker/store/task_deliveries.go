package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/chain"
	"github.com/hostler/hostler/broker/store/sqlkit"
	"github.com/hostler/hostler/taskcatalog"
)

// Delivery is the delivery of an agent to a node, running or ended.
type Delivery struct {
	NodeID        string
	CorrelationID string
	At            time.Time // its start
	Result        string    // running, or the outcome
	Reason        string    // code
	Seconds       int64
}

// Deliver records the state of a delivery. A delivery that began before the recorded delivery
// changes nothing. A delivery whose outcome the broker does not know does not overwrite an outcome
// that the node reported for the same correlation id.
func (db *DB) Deliver(ctx context.Context, d Delivery) error {
	return db.write(ctx, func(ctx context.Context, t *tx) error {
		a, err := t.ownAgent(ctx, d.NodeID)
		if err != nil || unknown(taskcatalog.Code(d.Reason)) && a.CorrelationID == d.CorrelationID && slices.Contains(outcomes, a.Result) {
			return err
		}
		return t.deliver(ctx, d)
	})
}

// outcomes are the results of an update that a node reports.
var outcomes = []string{string(taskcatalog.UpdateConfirmed), string(taskcatalog.UpdateRolledBack), string(taskcatalog.UpdateRefused)}

// unknown reports whether the code means that a task ended without a report of its node.
func unknown(c taskcatalog.Code) bool {
	return c == taskcatalog.CodeOutcomeUnknown || c == taskcatalog.CodeNodeReenrolled
}

func (t *tx) deliver(ctx context.Context, d Delivery) error {
	_, err := t.ExecContext(ctx,
		`UPDATE node_agents SET attempt_at = $1, result = $2, reason = $3, seconds = $4, correlation_id = $5 WHERE node_id = $6 AND attempt_at <= $1`,
		sqlkit.Micros(d.At), d.Result, d.Reason, d.Seconds, d.CorrelationID, d.NodeID)
	return err
}

// hearDelivery records a node's report of its last update, once. The update may have been made by a
// person on the node, by a task without a run, or by a task that was given up (see givenUp). Every
// other update is reported by its run, from the task's own result.
func (t *tx) hearDelivery(ctx context.Context, a broker.Agent, d *taskcatalog.AgentDelivery) error {
	if d == nil {
		return nil
	}
	k, err := t.updateOf(ctx, a.NodeID, d.ID)
	switch {
	case err != nil:
		return err
	case k != nil && k.Type != "node.self_update":
		return nil // the named task was no update, so there is nothing to report
	}
	of := d.ID
	if k != nil && k.run != nil {
		of = k.run.ID
	}
	// A confirmed version may be rolled back later, and then only the node knows.
	reverted := a.Result == string(taskcatalog.UpdateConfirmed) && d.Outcome == taskcatalog.UpdateRolledBack && a.CorrelationID == of &&
		(k == nil || k.Status == broker.TaskSucceeded)
	if !reverted && (d.ID == a.DeliveryID || k != nil && k.run != nil && !k.givenUp()) {
		return nil
	}
	if _, err := t.ExecContext(ctx, `UPDATE node_agents SET delivery_id = $1 WHERE node_id = $2`, d.ID, a.NodeID); err != nil {
		return err
	}
	heard := Delivery{
		NodeID: a.NodeID, CorrelationID: d.ID, At: d.At, Result: string(d.Outcome), Reason: string(d.Reason),
		Seconds: int64(max(d.SwitchSeconds, 0) + 0.999),
	}
	if d.At.IsZero() || d.At.After(t.now) { // by the node's clock
		heard.At = t.now
	}
	if k != nil && k.run != nil {
		if heard.CorrelationID = k.run.ID; heard.CorrelationID == a.CorrelationID {
			heard.At = a.AttemptAt // this is the end of the recorded delivery
		}
	}
	if reverted && (k == nil || k.run == nil) {
		heard.At = t.now
	}
	replaced := false
	if k != nil && k.run != nil && k.run.Status.Moving() {
		if replaced, err = t.replaced(ctx, k); err != nil {
			return err
		}
	}
	if reverted || !replaced {
		if err := t.deliver(ctx, heard); err != nil {
			return err
		}
	}
	if a.ReportedAt.IsZero() {
		return nil // the update was done before the node existed
	}
	return t.tellDelivery(ctx, a.NodeID, d, k)
}

// updateTask is a task that a node reports as an update, and the task's run; run nil: no run.
type updateTask struct {
	broker.Task
	run *chain.Record
}

// givenUp reports whether the broker ended the task without a report of the node.
func (k *updateTask) givenUp() bool { return unknown(k.Code) }

// replaced reports whether the task's run has since asked the node for another update.
func (t *tx) replaced(ctx context.Context, k *updateTask) (yes bool, err error) {
	err = t.QueryRowContext(ctx,
		`SELECT EXISTS (SELECT 1 FROM tasks WHERE node_id = $1 AND correlation_id = $2 AND type = $3 AND issued_at > $4)`,
		k.NodeID, k.CorrelationID, k.Type, sqlkit.Micros(k.IssuedAt)).Scan(&yes)
	return yes, err
}

// wentBack reports whether the task asked for the previous version.
func (k *updateTask) wentBack() bool {
	var p taskcatalog.SelfUpdateParams
	return json.Unmarshal(k.Params, &p) == nil && p.Phase == taskcatalog.PhaseRollback
}

// updateOf returns the task of a delivery; nil: the node has no such task, so a person updated the
// node by hand.
func (t *tx) updateOf(ctx context.Context, nodeID, id string) (*updateTask, error) {
	k, err := task(ctx, t, id, "")
	switch {
	case err != nil && broker.AsError(err).Kind == broker.NotFound, err == nil && k.NodeID != nodeID:
		return nil, nil
	case err != nil:
		return nil, err
	}
	out := &updateTask{Task: k}
	r, err := scanRun(t.QueryRowContext(ctx, `SELECT `+runColumns+` FROM chain_runs WHERE id = $1`, k.CorrelationID))
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return out, nil
	case err != nil:
		return nil, err
	}
	out.run = &r
	return out, nil
}

// tellDelivery announces a delivery that no run announces, and writes it into the history of the
// run that had given the delivery up, or that had ended before the update was rolled back.
func (t *tx) tellDelivery(ctx context.Context, nodeID string, d *taskcatalog.AgentDelivery, k *updateTask) error {
	n, err := node(ctx, t, nodeID, "")
	if err != nil {
		return err
	}
	data := map[string]any{
		"node_id": nodeID, "task_id": "", "from": d.From, "to": d.To, "outcome": string(d.Outcome), "reason": d.Reason,
		"switch_seconds": d.SwitchSeconds,
	}
	correlation := ""
	if k != nil {
		data["task_id"], correlation = k.ID, k.CorrelationID
		if k.run != nil {
			data["run_id"] = k.run.ID
		}
	}
	var types []string
	switch d.Outcome {
	case taskcatalog.UpdateConfirmed:
		types = []string{broker.AgentUpdatedEvent}
		if k == nil && strings.HasPrefix(d.ID, taskcatalog.ByHand) || k != nil && k.wentBack() {
			types = []string{broker.AgentRolledBackEvent}
			data["from"], data["to"], data["outcome"] = d.To, d.From, "taken_back" // the version in from runs again
		}
	case taskcatalog.UpdateRolledBack:
		types = []string{broker.AgentUpdateFailedEvent, broker.AgentRolledBackEvent}
	case taskcatalog.UpdateRefused:
		types = []string{broker.AgentUpdateFailedEvent}
	}
	for _, typ := range types {
		if err := t.send(ctx, told{
			Message: chain.Message{Type: typ, Subject: "node/" + nodeID, Data: data}, Site: n.Site,
			CorrelationID: correlation,
		}); err != nil {
			return err
		}
	}
	if k == nil || k.run == nil {
		return nil
	}
	ended := "had succeeded"
	if k.givenUp() {
		ended = "was given up"
	}
	said := fmt.Sprintf("node %s reports on task %s, which %s: update from %s to %s: %s %s", nodeID, k.ID, ended, d.From, d.To, d.Outcome,
		d.Reason)
	return t.tellOf(ctx,
		chain.Change{Record: *k.run, Events: []chain.Event{{Direction: k.run.Direction, Status: chain.Skipped, Message: said}}})
}
