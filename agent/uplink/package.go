package uplink

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/hostler/hostler/taskcatalog"
)

// Package reads the broker's package with a digest (sha256:…), from an offset on. The content is
// not verified; the caller bounds it in bytes and in time.
func (c *Client) Package(ctx context.Context, digest string, offset int64) (io.ReadCloser, error) {
	path := "/internal/v1/packages/sha256/" + url.PathEscape(strings.TrimPrefix(digest, "sha256:"))
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.base.String()+path, nil)
	if err != nil {
		return nil, fmt.Errorf("cannot make request: %w", err)
	}
	req.Header.Set("User-Agent", "hostler-agent/"+c.Version)
	if offset > 0 {
		req.Header.Set("Range", fmt.Sprintf("bytes=%d-", offset))
		req.Header.Set("If-Range", `"`+digest+`"`)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, c.explain(ctx, err)
	}
	switch {
	case resp.StatusCode == http.StatusPartialContent &&
		strings.HasPrefix(resp.Header.Get("Content-Range"), fmt.Sprintf("bytes %d-", offset)):
		return resp.Body, nil
	case resp.StatusCode == http.StatusOK: // the whole package, despite the range
		if _, err := io.CopyN(io.Discard, resp.Body, offset); err != nil {
			_ = resp.Body.Close()
			return nil, taskcatalog.Errorf(CodeUnreachable, "cannot read a package from the broker: %v", err)
		}
		return resp.Body, nil
	}
	defer func() { _ = resp.Body.Close() }()
	return nil, c.refusal(resp)
}
