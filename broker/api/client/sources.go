package client

import (
	"context"
	"net/http"

	"github.com/hostler/hostler/broker/api"
)

// SourceCredentials lists the accounts at sources of artifacts.
func (c *Client) SourceCredentials(ctx context.Context) (*api.SourceCredentialList, error) {
	return fetch[api.SourceCredentialList](ctx, c, "/source-credentials", nil)
}

// SetSourceCredential stores an account, replacing the former one of the name.
func (c *Client) SetSourceCredential(ctx context.Context, name string, p api.SourceCredentialPut) (*api.SourceCredential, error) {
	return submit[api.SourceCredential](ctx, c, http.MethodPut, at("source-credentials", name), p)
}

// RemoveSourceCredential deletes an account and its secret.
func (c *Client) RemoveSourceCredential(ctx context.Context, name, reason string) (*api.SourceCredential, error) {
	return remove[api.SourceCredential](ctx, c, at("source-credentials", name), reason)
}
