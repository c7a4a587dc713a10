package nodeapi

import (
	"io"
	"net/http"
	"strings"

	"github.com/hostler/hostler/broker"
)

// packages serves an agent release by its digest, or a range of it. The route needs no certificate:
// a machine fetches the package before it has a certificate, and checks the digest.
func (a *API) packages(c *call) (any, error) {
	digest := c.r.PathValue("digest")
	if len(digest) != 64 || strings.Trim(digest, "0123456789abcdef") != "" {
		return nil, broker.Errorf(broker.NotFound, "package_not_found",
			"cannot send a package: name the package by the 64 lower-case hex digits of its SHA-256")
	}
	p, content, err := a.c.DB.OpenPackage(c.r.Context(), "sha256:"+digest)
	if err != nil {
		return nil, err
	}
	if closer, ok := content.(io.Closer); ok {
		defer func() { _ = closer.Close() }()
	}
	h := c.w.Header()
	h.Set("Content-Type", "application/octet-stream")
	h.Set("ETag", `"sha256:`+digest+`"`)
	h.Set("Cache-Control", "public, max-age=31536000, immutable")
	http.ServeContent(c.w, c.r, "", p.PublishedAt, content)
	return streamed, nil
}
