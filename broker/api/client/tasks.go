package client

import (
	"context"
	"net/http"
	"strconv"
	"time"

	"github.com/hostler/hostler/broker/api"
)

// TaskFilter narrows a list of tasks; empty fields narrow nothing.
type TaskFilter struct {
	Node, Status, Type string
	Limit              int // newest first; 0: all
}

// Tasks lists tasks, newest first.
func (c *Client) Tasks(ctx context.Context, f TaskFilter) (*api.TaskList, error) {
	q := query("node", f.Node, "status", f.Status, "type", f.Type)
	all := &api.TaskList{Items: []api.Task{}}
	for {
		q.Set("limit", strconv.Itoa(nextPage(f.Limit, len(all.Items))))
		page, err := fetch[api.TaskList](ctx, c, "/tasks", q)
		if err != nil {
			return nil, err
		}
		all.Standing, all.Items, all.Next = page.Standing, append(all.Items, page.Items...), page.Next
		if page.Next == "" || f.Limit > 0 && len(all.Items) >= f.Limit {
			return all, nil
		}
		q.Set("cursor", page.Next)
	}
}

// nextPage returns the number of rows to ask for when the caller already has the given number.
func nextPage(limit, have int) int {
	if limit == 0 {
		return pageSize
	}
	return min(limit-have, pageSize)
}

// Task returns a task in its present state.
func (c *Client) Task(ctx context.Context, id string) (*api.Task, error) {
	return fetch[api.Task](ctx, c, at("tasks", id), nil)
}

// Follow waits until the task has ended, its progress differs from seen, or hold is over, and
// returns the task in its present state. The call outlives a restart of the broker.
func (c *Client) Follow(ctx context.Context, id string, seen *api.Progress, hold time.Duration) (*api.Task, error) {
	hold = min(hold, api.MaxWait*time.Second)
	mark := "none"
	if seen != nil {
		mark = timestamp(seen.At)
	}
	q := query("wait", seconds(hold), "progress", mark)
	out := new(api.Task)
	err := c.do(ctx, call{
		method: http.MethodGet, path: at("tasks", id), query: q,
		limit: hold + 15*time.Second, patience: waitPatience,
	}, out)
	if err != nil {
		return nil, err
	}
	return out, nil
}

// Enqueue asks a node to run a task. The request is repeated only if the task carries an
// idempotency key.
func (c *Client) Enqueue(ctx context.Context, node string, t api.TaskCreate) (*api.Task, error) {
	out := new(api.Task)
	err := c.do(ctx, call{method: http.MethodPost, path: at("nodes", node, "tasks"), body: t, repeat: t.IdempotencyKey != ""}, out)
	if err != nil {
		return nil, err
	}
	return out, nil
}

// Cancel asks for a task to stop.
func (c *Client) Cancel(ctx context.Context, id, reason string) (*api.Task, error) {
	return submit[api.Task](ctx, c, http.MethodPost, at("tasks", id, "cancel"), api.ReasonBody{Reason: reason})
}

// ProbeTask asks the node what became of a task, and returns the task that asks.
func (c *Client) ProbeTask(ctx context.Context, id, reason string) (*api.Task, error) {
	return submit[api.Task](ctx, c, http.MethodPost, at("tasks", id, "probe"), api.ReasonBody{Reason: reason})
}

// RecoverTask runs a task again whose end nobody knows.
func (c *Client) RecoverTask(ctx context.Context, id, reason string) (*api.Task, error) {
	return submit[api.Task](ctx, c, http.MethodPost, at("tasks", id, "recover"), api.ReasonBody{Reason: reason})
}

// Evidence returns the node's signed report about a task.
func (c *Client) Evidence(ctx context.Context, id string) (*api.Evidence, error) {
	return fetch[api.Evidence](ctx, c, at("tasks", id, "evidence"), nil)
}

// Archive returns the archive that a task collected.
func (c *Client) Archive(ctx context.Context, id string) (*api.Archive, error) {
	return fetch[api.Archive](ctx, c, at("tasks", id, "archive"), nil)
}

// Archives lists the archives kept of a node, newest first, without their contents.
func (c *Client) Archives(ctx context.Context, node string) (*api.ArchiveList, error) {
	return fetch[api.ArchiveList](ctx, c, at("nodes", node, "archives"), nil)
}

// TaskTypes returns the catalog.
func (c *Client) TaskTypes(ctx context.Context) (*api.TaskTypeList, error) {
	return fetch[api.TaskTypeList](ctx, c, "/task-types", nil)
}

// TaskType returns one row of the catalog, by name or name@version.
func (c *Client) TaskType(ctx context.Context, name string) (*api.TaskType, error) {
	return fetch[api.TaskType](ctx, c, at("task-types", name), nil)
}
