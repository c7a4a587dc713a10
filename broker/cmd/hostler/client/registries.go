package client

import (
	"context"
	"net/http"

	"github.com/hostler/hostler/broker/adminapi/resource"
)

// RegistryCredentials lists the accounts at OCI registries.
func (c *Client) RegistryCredentials(ctx context.Context) (*resource.RegistryCredentialList, error) {
	return fetch[resource.RegistryCredentialList](ctx, c, "/registry-credentials", nil)
}

// SetRegistryCredential keeps one, once its registry has taken it.
func (c *Client) SetRegistryCredential(ctx context.Context, registry string, p resource.RegistryCredentialPut) (*resource.RegistryCredential, error) {
	return submit[resource.RegistryCredential](ctx, c, http.MethodPut, at("registry-credentials", registry), p)
}

// RemoveRegistryCredential forgets one and its secret.
func (c *Client) RemoveRegistryCredential(ctx context.Context, registry, reason string) (*resource.RegistryCredential, error) {
	return remove[resource.RegistryCredential](ctx, c, at("registry-credentials", registry), reason)
}
