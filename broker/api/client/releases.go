package client

import (
	"context"
	"io"
	"net/http"
	"strings"

	"github.com/hostler/hostler/broker/api"
)

// AgentReleases lists packages and signed releases of the agent, newest first.
func (c *Client) AgentReleases(ctx context.Context) (*api.AgentReleaseList, error) {
	return fetch[api.AgentReleaseList](ctx, c, "/agent-releases", nil)
}

// PublishAgent uploads a package of size bytes with the hex SHA-256 digest. The broker checks the
// digest, so a repeated upload is the same release.
func (c *Client) PublishAgent(ctx context.Context, digest string, r api.AgentRelease, body io.Reader) (*api.AgentRelease, error) {
	q := query("version", r.Version, "arch", r.Arch, "filename", r.Filename)
	res, err := c.send(ctx, call{method: http.MethodPut, path: at("agent-releases", digest), query: q, size: r.Size}, body)
	if err != nil {
		return nil, err
	}
	defer func() { _ = res.Body.Close() }()
	out := new(api.AgentRelease)
	return out, c.decode(res, out)
}

// UploadReleasePart uploads the layer of a release. The digest has the form sha256:….
func (c *Client) UploadReleasePart(ctx context.Context, digest string, size int64, body io.Reader) (*api.ReleasePart, error) {
	res, err := c.send(ctx, call{
		method: http.MethodPut, path: at("agent-releases", "parts", strings.TrimPrefix(digest, "sha256:")),
		size: size,
	}, body)
	if err != nil {
		return nil, err
	}
	defer func() { _ = res.Body.Close() }()
	out := new(api.ReleasePart)
	return out, c.decode(res, out)
}

// PublishRelease submits a signed release; the broker verifies and keeps the release.
func (c *Client) PublishRelease(ctx context.Context, p api.AgentReleasePublish) (*api.AgentRelease, error) {
	return submit[api.AgentRelease](ctx, c, http.MethodPost, "/agent-releases", p)
}

// RevokeRelease revokes a signed release: no node is given the release any more.
func (c *Client) RevokeRelease(ctx context.Context, version, reason string) (*api.AgentRelease, error) {
	return submit[api.AgentRelease](ctx, c, http.MethodPost, at("agent-releases", version, "revoke"), api.ReasonBody{Reason: reason})
}

// SetReleaseFloor sets the lowest version that a node is given.
func (c *Client) SetReleaseFloor(ctx context.Context, f api.AgentReleaseFloorPut) (*api.AgentReleaseFloor, error) {
	return submit[api.AgentReleaseFloor](ctx, c, http.MethodPut, "/agent-releases/floor", f)
}
