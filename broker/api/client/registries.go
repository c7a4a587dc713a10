package client

import (
	"context"
	"net/http"

	"github.com/hostler/hostler/broker/api"
)

// RegistryCredentials lists the accounts at OCI registries.
func (c *Client) RegistryCredentials(ctx context.Context) (*api.RegistryCredentialList, error) {
	return fetch[api.RegistryCredentialList](ctx, c, "/registry-credentials", nil)
}

// SetRegistryCredential stores an account after the registry has accepted it.
func (c *Client) SetRegistryCredential(ctx context.Context, registry string, p api.RegistryCredentialPut) (*api.RegistryCredential, error) {
	return submit[api.RegistryCredential](ctx, c, http.MethodPut, at("registry-credentials", registry), p)
}

// RemoveRegistryCredential deletes an account and its secret.
func (c *Client) RemoveRegistryCredential(ctx context.Context, registry, reason string) (*api.RegistryCredential, error) {
	return remove[api.RegistryCredential](ctx, c, at("registry-credentials", registry), reason)
}
