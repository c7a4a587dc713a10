package client

import (
	"context"
	"net/http"
	"net/url"

	"github.com/hostler/hostler/broker/api"
)

// OperationLevel names a level of the policy of operations: a project, an organisation, or with neither the
// global level.
type OperationLevel struct{ Organisation, Project string }

func (l OperationLevel) policies(operation ...string) string {
	segments := append([]string{"operation-policies"}, operation...)
	switch {
	case l.Project != "":
		segments = append([]string{"projects", l.Project}, segments...)
	case l.Organisation != "":
		segments = append([]string{"organisations", l.Organisation}, segments...)
	}
	return at(segments...)
}

// OperationPolicies lists the policies of a level.
func (c *Client) OperationPolicies(ctx context.Context, level OperationLevel) (all []api.OperationPolicy, err error) {
	all = []api.OperationPolicy{}
	err = eachPage(ctx, c, level.policies(), url.Values{}, func(l *api.OperationPolicyList) string {
		all = append(all, l.Items...)
		return l.Next
	})
	return all, err
}

// OperationPolicy returns the policy of a level for an operation, or for * for all operations.
func (c *Client) OperationPolicy(ctx context.Context, level OperationLevel, operation string) (*api.OperationPolicy, error) {
	return fetch[api.OperationPolicy](ctx, c, level.policies(operation), nil)
}

// SetOperationPolicy replaces the policy of a level for an operation.
func (c *Client) SetOperationPolicy(
	ctx context.Context, level OperationLevel, operation string, p api.OperationPolicyPut,
) (*api.OperationPolicy, error) {
	return submit[api.OperationPolicy](ctx, c, http.MethodPut, level.policies(operation), p)
}

// RemoveOperationPolicy removes the policy of a level for an operation.
func (c *Client) RemoveOperationPolicy(ctx context.Context, level OperationLevel, operation, reason string) (*api.OperationRule, error) {
	return remove[api.OperationRule](ctx, c, level.policies(operation), reason)
}

// EffectiveOperationPolicy returns what all levels together permit of an operation in a project.
func (c *Client) EffectiveOperationPolicy(ctx context.Context, project, operation string) (*api.EffectiveOperationPolicy, error) {
	return fetch[api.EffectiveOperationPolicy](ctx, c, at("projects", project, "operation-policies", operation, "effective"), nil)
}
