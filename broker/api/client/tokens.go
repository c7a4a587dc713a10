package client

import (
	"context"
	"net/http"

	"github.com/hostler/hostler/broker/api"
)

// SignIn says where and how people sign in to the broker. It needs no token. Codes:
// oidc_not_configured, oidc_unavailable, oidc_no_device_code.
func (c *Client) SignIn(ctx context.Context) (*api.SignIn, error) {
	return fetch[api.SignIn](ctx, c, "/sign-in", nil)
}

// Tokens lists the operators' tokens without their secrets, revoked and expired tokens included.
func (c *Client) Tokens(ctx context.Context) (*api.TokenList, error) {
	return fetch[api.TokenList](ctx, c, "/tokens", nil)
}

// CreateToken makes an operator's token. Only this answer shows the secret.
func (c *Client) CreateToken(ctx context.Context, t api.TokenCreate) (*api.TokenCreated, error) {
	return submit[api.TokenCreated](ctx, c, http.MethodPost, "/tokens", t)
}

// RevokeToken makes the broker refuse a token from now on.
func (c *Client) RevokeToken(ctx context.Context, name, reason string) (*api.Token, error) {
	return submit[api.Token](ctx, c, http.MethodPost, at("tokens", name, "revoke"), api.ReasonBody{Reason: reason})
}
