package client

import (
	"context"
	"net/http"

	"github.com/hostler/hostler/broker/api"
)

// ArtifactSigners lists the signers whose signatures of artifacts are believed.
func (c *Client) ArtifactSigners(ctx context.Context) (*api.ArtifactSignerList, error) {
	return fetch[api.ArtifactSignerList](ctx, c, "/artifact-signers", nil)
}

// SetArtifactSigner sets a signer, replacing the former one of the name.
func (c *Client) SetArtifactSigner(ctx context.Context, name string, p api.ArtifactSignerPut) (*api.ArtifactSigner, error) {
	return submit[api.ArtifactSigner](ctx, c, http.MethodPut, at("artifact-signers", name), p)
}

// RemoveArtifactSigner deletes a signer. allowUnsigned: also if operations could then bring artifacts of its source without
// a signature.
func (c *Client) RemoveArtifactSigner(ctx context.Context, name, reason string, allowUnsigned bool) (*api.ArtifactSigner, error) {
	out, q := new(api.ArtifactSigner), query("reason", reason)
	if allowUnsigned {
		q = query("reason", reason, "allow_unsigned", "true")
	}
	return out, c.do(ctx, call{method: http.MethodDelete, path: at("artifact-signers", name), query: q}, out)
}
