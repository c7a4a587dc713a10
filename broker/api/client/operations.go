package client

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/hostler/hostler/broker/api"
)

// OperationFilter narrows a list of operations; empty fields narrow nothing.
type OperationFilter struct {
	Status    string // one or more, separated by commas
	Operation string // a definition with its version, or a type: of any version

	Allocation string    // an id
	From, To   time.Time // of the request; To is exclusive
}

func (f OperationFilter) query() url.Values {
	return query("status", f.Status, "operation", f.Operation, "allocation", f.Allocation, "from", timestamp(f.From), "to", timestamp(f.To))
}

// RunOperation begins an operation of a project on one of its allocations, or on a group of them.
func (c *Client) RunOperation(ctx context.Context, project string, o api.OperationCreate) (*api.Operation, error) {
	return begin[api.Operation](ctx, c, at("projects", project, "operations"), o)
}

// PlanOperation returns the plan that an operation of a project would have.
func (c *Client) PlanOperation(ctx context.Context, project string, o api.OperationCreate) (*api.OperationPlan, error) {
	return submit[api.OperationPlan](ctx, c, http.MethodPost, at("projects", project, "operations", "plan"), o)
}

// ProjectOperations lists a project's operations, newest first.
func (c *Client) ProjectOperations(ctx context.Context, project string, f OperationFilter) (*api.OperationList, error) {
	all := &api.OperationList{Items: []api.Operation{}}
	return all, eachPage(ctx, c, at("projects", project, "operations"), f.query(), func(l *api.OperationList) string {
		all.Items = append(all.Items, l.Items...)
		return l.Next
	})
}

// ProjectOperation returns an operation of a project.
func (c *Client) ProjectOperation(ctx context.Context, project, id string) (*api.Operation, error) {
	return fetch[api.Operation](ctx, c, at("projects", project, "operations", id), nil)
}

// ProjectOperationLog returns the rows of an operation of a project, or those of one step.
func (c *Client) ProjectOperationLog(ctx context.Context, project, id, step string) (*api.OperationLog, error) {
	all := &api.OperationLog{Items: []api.OperationLine{}}
	path := at("projects", project, "operations", id, "logs")
	return all, eachPage(ctx, c, path, query("step_id", step), func(l *api.OperationLog) string {
		all.Items = append(all.Items, l.Items...)
		return l.Next
	})
}

// ProjectOperationStatement returns the tenant's version of the statement of an attempt of an operation of a
// project; 0: of the present attempt.
func (c *Client) ProjectOperationStatement(ctx context.Context, project, id string, attempt int) (*api.OperationStatement, error) {
	return fetch[api.OperationStatement](ctx, c, at("projects", project, "operations", id, "statement"), attemptQuery(attempt))
}

func attemptQuery(attempt int) url.Values {
	q := url.Values{}
	if attempt > 0 {
		q.Set("attempt", strconv.Itoa(attempt))
	}
	return q
}

// CancelProjectOperation asks for the end of an operation of a project.
func (c *Client) CancelProjectOperation(ctx context.Context, project, id, reason string) (*api.Operation, error) {
	return submit[api.Operation](ctx, c, http.MethodPost, at("projects", project, "operations", id, "cancel"), api.ReasonBody{Reason: reason})
}

// RetryProjectOperation begins the next attempt of an operation of a project.
func (c *Client) RetryProjectOperation(ctx context.Context, project, id, reason string) (*api.Operation, error) {
	return submit[api.Operation](ctx, c, http.MethodPost, at("projects", project, "operations", id, "retry"), api.ReasonBody{Reason: reason})
}

// RunNodeOperation begins an operation on a node, or on a group of nodes, that no allocation holds. It needs a token of the
// platform, as all methods below.
func (c *Client) RunNodeOperation(ctx context.Context, o api.PlatformOperationCreate) (*api.PlatformOperation, error) {
	return begin[api.PlatformOperation](ctx, c, at("operations"), o)
}

// PlanNodeOperation returns the plan that an operation on nodes would have. That of a group names the nodes, and those that
// are passed over.
func (c *Client) PlanNodeOperation(ctx context.Context, o api.PlatformOperationCreate) (*api.OperationPlan, error) {
	return submit[api.OperationPlan](ctx, c, http.MethodPost, at("operations", "plan"), o)
}

// Operations lists the operations of the platform and of all projects, or of one project, newest first.
func (c *Client) Operations(ctx context.Context, project string, f OperationFilter) (*api.PlatformOperationList, error) {
	q := f.query()
	if project != "" {
		q.Set("project", project)
	}
	all := &api.PlatformOperationList{Items: []api.PlatformOperation{}}
	return all, eachPage(ctx, c, at("operations"), q, func(l *api.PlatformOperationList) string {
		all.Standing, all.Items = l.Standing, append(all.Items, l.Items...)
		return l.Next
	})
}

// Operation returns an operation of any project, or of the platform.
func (c *Client) Operation(ctx context.Context, id string) (*api.PlatformOperation, error) {
	return fetch[api.PlatformOperation](ctx, c, at("operations", id), nil)
}

// OperationLog returns the rows of an operation, or those of one step, with what the nodes said.
func (c *Client) OperationLog(ctx context.Context, id, step string) (*api.PlatformOperationLog, error) {
	all := &api.PlatformOperationLog{Items: []api.PlatformOperationLine{}}
	return all, eachPage(ctx, c, at("operations", id, "logs"), query("step_id", step), func(l *api.PlatformOperationLog) string {
		all.Standing, all.Items = l.Standing, append(all.Items, l.Items...)
		return l.Next
	})
}

// CancelOperation asks for the end of an operation.
func (c *Client) CancelOperation(ctx context.Context, id, reason string) (*api.PlatformOperation, error) {
	return submit[api.PlatformOperation](ctx, c, http.MethodPost, at("operations", id, "cancel"), api.ReasonBody{Reason: reason})
}

// RetryOperation begins the next attempt of an operation.
func (c *Client) RetryOperation(ctx context.Context, id, reason string) (*api.PlatformOperation, error) {
	return submit[api.PlatformOperation](ctx, c, http.MethodPost, at("operations", id, "retry"), api.ReasonBody{Reason: reason})
}

// OperationStatement returns the signed statement of an attempt of an operation; 0: of the present attempt.
func (c *Client) OperationStatement(ctx context.Context, id string, attempt int) (*api.OperationStatement, error) {
	return fetch[api.OperationStatement](ctx, c, at("operations", id, "statement"), attemptQuery(attempt))
}
