package store

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/store/sqlkit"
)

// The kinds of moments.
const (
	MomentState       = "state"       // the node moved from one status to another
	MomentTask        = "task"        // until its end
	MomentRun         = "run"         // until its end
	MomentStage       = "stage"       // one attempt, until its end
	MomentDrift       = "drift"       // detected, resolved
	MomentCertificate = "certificate" // issued, or a person's statement for a part
	MomentOutage      = "outage"      // out of use because of a turnover, until in use again
	MomentAudit       = "audit"       // any other action on the node, or on its runs
)

// Moment is an event or the beginning of a period in a node's history.
type Moment struct {
	At, Until     time.Time // Until is zero for an event, and for a period that goes on
	Kind          string
	What          string // an action, a task's type, a run's kind, a stage
	Status        string // of a task, a run, an attempt
	Actor         string
	TaskID, RunID string
	Code, Detail  string
	Before, After json.RawMessage // from the audit row; After of a stage holds the stage's details

	rank int // order among moments of the same time
	id   string
}

// Window is a part of a timeline. Without Since: the newest moments. With Since: moments from Since
// on, the oldest first.
type Window struct {
	Since time.Time
	Skip  int // number of moments at exactly Since that earlier pages returned
	Limit int
}

// maxSkip bounds how many moments of one time a page may skip.
const maxSkip = 10000

// Cursor encodes a window as text, for the request of the next page.
func (w Window) Cursor() string { return fmt.Sprintf("%d.%d", w.Since.UnixMicro(), w.Skip) }

// WindowAt decodes a cursor. Code: cursor_invalid.
func WindowAt(cursor string) (w Window, err error) {
	since, skip, _ := strings.Cut(cursor, ".")
	micros, err := strconv.ParseInt(since, 10, 64)
	if err == nil {
		w.Since = time.UnixMicro(micros).UTC()
		w.Skip, err = strconv.Atoi(skip)
	}
	if err != nil || micros <= 0 || w.Skip < 0 || w.Skip > maxSkip {
		return Window{}, broker.Errorf(broker.Invalid, "cursor_invalid",
			"cannot read the timeline: the cursor is not valid (pass next unchanged)")
	}
	return w, nil
}

// timelineSources are the queries of a timeline: each selects rows of node $1 from time $2 on, in
// columns of the same meaning.
var timelineSources = []struct{ kind, from string }{
	{
		MomentAudit,
		`SELECT at, id, 0, action, '', actor, '', CASE WHEN subject = 'node/' || $1 THEN '' ELSE substr(subject, 5) END, code, reason, before, after FROM audit_logs
		WHERE subject IN (SELECT 'node/' || $1 UNION ALL SELECT 'run/' || run_id FROM node_runs WHERE node_id = $1) AND action <> 'run.start' AND at >= $2`,
	},
	{
		MomentRun,
		`SELECT requested_at, id, completed_at, kind, status, requested_by, '', id, failure_class, error_message, '', '' FROM chain_runs
		WHERE id IN (SELECT run_id FROM node_runs WHERE node_id = $1) AND requested_at >= $2`,
	},
	{
		MomentStage,
		`SELECT e.at, e.id, COALESCE(o.at, 0), e.stage, COALESCE(o.status, e.status), '', '', e.run_id, '', COALESCE(o.message, e.message), '', COALESCE(o.details, e.details) FROM chain_events e
		LEFT JOIN chain_events o ON o.run_id = e.run_id AND o.stage = e.stage AND o.direction = e.direction AND o.attempt = e.attempt AND o.status <> 'started' AND e.status = 'started'
		WHERE e.run_id IN (SELECT run_id FROM node_runs WHERE node_id = $1) AND e.at >= $2 AND (e.status = 'started' OR NOT EXISTS
			(SELECT 1 FROM chain_events s WHERE s.run_id = e.run_id AND s.stage = e.stage AND s.direction = e.direction AND s.attempt = e.attempt AND s.status = 'started'))`,
	},
	{
		MomentOutage,
		`SELECT began_at, id, ended_at, 'turnover', CASE WHEN ended_at = 0 THEN 'open' ELSE 'over' END, '', '', '', '', '', '', '{"gpus":' || gpus || '}' FROM turnover_outages
		WHERE node_id = $1 AND began_at >= $2`,
	},
	{
		MomentTask,
		`SELECT issued_at, id, ended_at, type, status, enqueued_by, id, '', code, message, '', '' FROM tasks WHERE node_id = $1 AND issued_at >= $2`,
	},
}

// Timeline merges all moments of a node, oldest first. next is the window of the next page; nil:
// the end is reached. earlier: older moments were left out.
func (db *DB) Timeline(ctx context.Context, nodeID string, w Window) (page []Moment, next *Window, earlier bool, err error) {
	order := " DESC"
	if !w.Since.IsZero() {
		order = " ASC"
	}
	for rank, source := range timelineSources {
		some, err := sqlkit.Collect(ctx, db.reader(), func(row sqlkit.Row) (m Moment, err error) {
			err = row.Scan(sqlkit.ScanMicros(&m.At), &m.id, sqlkit.ScanMicros(&m.Until), &m.What, &m.Status, &m.Actor, &m.TaskID, &m.RunID,
				&m.Code, &m.Detail, sqlkit.ScanRawJSON(&m.Before), sqlkit.ScanRawJSON(&m.After))
			m.Kind, m.rank = source.kind, rank
			return m.told(), err
		}, source.from+` ORDER BY 1`+order+`, 2`+order+` LIMIT $3`, nodeID, sqlkit.Micros(w.Since), w.Limit+w.Skip+1)
		if err != nil {
			return nil, nil, false, err
		}
		page = append(page, some...)
	}
	slices.SortFunc(page, func(a, b Moment) int {
		return cmp.Or(a.At.Compare(b.At), cmp.Compare(a.rank, b.rank), cmp.Compare(len(a.id), len(b.id)), strings.Compare(a.id, b.id))
	})
	if w.Since.IsZero() {
		left := max(len(page)-w.Limit, 0)
		return page[left:], nil, left > 0, nil
	}
	page = page[min(w.Skip, len(page)):]
	if len(page) > w.Limit {
		page = page[:w.Limit]
		next = w.after(page)
	}
	return page, next, false, nil
}

// after returns the window behind a page.
func (w Window) after(page []Moment) *Window {
	next := Window{Since: page[len(page)-1].At, Limit: w.Limit}
	for _, m := range page {
		if m.At.Equal(next.Since) {
			next.Skip++
		}
	}
	if next.Since.Equal(w.Since) {
		next.Skip += w.Skip
	}
	return &next
}

// told sets the kind of an audit row by its action.
func (m Moment) told() Moment {
	switch {
	case m.Kind != MomentAudit:
	case m.What == "node.transition":
		m.Kind = MomentState
	case strings.HasPrefix(m.What, "node.drift."):
		m.Kind = MomentDrift
	case strings.HasPrefix(m.What, "certificate."):
		m.Kind = MomentCertificate
	}
	return m
}
