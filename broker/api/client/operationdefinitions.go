package client

import (
	"context"
	"net/http"

	"github.com/hostler/hostler/broker/api"
)

// PushOperationDefinition stores the file of a definition as a draft. It needs a platform_admin's token.
func (c *Client) PushOperationDefinition(ctx context.Context, p api.OperationDefinitionPush) (*api.OperationDefinition, error) {
	return submit[api.OperationDefinition](ctx, c, http.MethodPost, "/operation-definitions", p)
}

// OperationDefinitions lists the definitions of an operation (empty: of all) in a status (empty: in any).
func (c *Client) OperationDefinitions(ctx context.Context, operation, status string) (*api.OperationDefinitionList, error) {
	all := &api.OperationDefinitionList{Items: []api.OperationDefinition{}}
	return all, eachPage(ctx, c, "/operation-definitions", query("operation", operation, "status", status),
		func(l *api.OperationDefinitionList) string {
			all.Standing = l.Standing
			all.Items = append(all.Items, l.Items...)
			return l.Next
		})
}

// OperationDefinition returns a definition, with its content.
func (c *Client) OperationDefinition(ctx context.Context, id string) (*api.OperationDefinition, error) {
	return fetch[api.OperationDefinition](ctx, c, at("operation-definitions", id), nil)
}

// ActivateOperationDefinition makes a draft with this content active. It needs a platform_admin's token.
func (c *Client) ActivateOperationDefinition(ctx context.Context, id, digest, reason string) (*api.OperationDefinition, error) {
	return submit[api.OperationDefinition](ctx, c, http.MethodPatch, at("operation-definitions", id),
		api.OperationDefinitionActivate{Status: "active", Digest: digest, Reason: reason})
}

// DeprecateOperationDefinition lets an active definition run with a warning. It needs a platform_admin's
// token.
func (c *Client) DeprecateOperationDefinition(ctx context.Context, id, reason string) (*api.OperationDefinition, error) {
	return submit[api.OperationDefinition](ctx, c, http.MethodPost, at("operation-definitions", id, "deprecate"), api.ReasonBody{Reason: reason})
}

// RetireOperationDefinition lets no execution of a deprecated definition begin, and discards a draft. It
// needs a platform_admin's token.
func (c *Client) RetireOperationDefinition(ctx context.Context, id, reason string) (*api.OperationDefinition, error) {
	return submit[api.OperationDefinition](ctx, c, http.MethodPost, at("operation-definitions", id, "retire"), api.ReasonBody{Reason: reason})
}
