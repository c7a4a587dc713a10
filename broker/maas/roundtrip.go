package maas

import (
	"bytes"
	"context"
	"errors"
	"html"
	"io"
	"net/http"
	"net/url"
	"path"
	"strconv"
	"strings"
	"time"
)

// bound is one operation on its way through libraries without a context: it carries the deadline
// in, and the answer out.
type bound struct {
	region *Region
	ctx    context.Context //nolint:containedctx // that is what it is for
	kind   kind
	last   answer
	secret []string // of the request, to be kept out of errors
}

// answer is the result of a request.
type answer struct {
	method      string
	changes     bool // not a GET
	sent        bool // the request may have reached MAAS
	status      int
	contentType string
	body        []byte
	date        time.Time // by MAAS's clock
	retryAfter  time.Duration
	skew        string
	err         error
}

var (
	errTooLarge = errors.New("the answer is too large")
	errOutside  = errors.New("the request leads out of the API")
)

const (
	maxRefusal    = 8 << 10
	maxRetryAfter = 10 * time.Minute
)

// RoundTrip sends one request of the operation.
func (b *bound) RoundTrip(given *http.Request) (*http.Response, error) {
	a := &b.last
	*a = answer{method: given.Method, changes: given.Method != http.MethodGet}
	if given.Body != nil {
		defer func() { _ = given.Body.Close() }()
	}
	if !b.region.inRegion(given.URL) {
		a.err = errOutside
		return nil, a.err
	}
	if a.err = b.ctx.Err(); a.err != nil {
		return nil, a.err
	}
	nonce, err := b.region.nonce()
	if err != nil {
		a.err = err
		return nil, err
	}
	req := given.Clone(b.ctx)
	// An idle connection may be dead: a change gets a connection of its own.
	req.Close = a.changes
	req.Header.Set("Authorization", b.region.key.sign(b.region.Now(), nonce))
	if err := b.remember(req); err != nil {
		a.err = err
		return nil, err
	}
	a.sent = true
	transport := b.region.transport
	if b.kind.waits {
		transport = b.region.patient
	}
	res, err := transport.RoundTrip(req)
	if err != nil {
		a.err, a.sent = err, !neverSent(err)
		return nil, err
	}
	defer func() { _ = res.Body.Close() }()
	a.status, a.contentType = res.StatusCode, res.Header.Get("Content-Type")
	a.date, _ = http.ParseTime(res.Header.Get("Date"))
	if s, err := strconv.Atoi(res.Header.Get("Retry-After")); err == nil && s > 0 {
		a.retryAfter = min(time.Duration(s)*time.Second, maxRetryAfter)
	}
	most := b.kind.bytes
	if a.status/100 != 2 {
		most = maxRefusal
	}
	a.body, err = io.ReadAll(io.LimitReader(res.Body, most+1))
	switch {
	case err != nil:
		a.err = err
		return nil, err
	case int64(len(a.body)) > most && a.status/100 == 2:
		a.body, a.err = nil, errTooLarge
		return nil, a.err
	}
	if a.status == http.StatusUnauthorized {
		a.skew, a.body = skewOf(a.body), nil
	}
	// Neither Retry-After nor Location gets through: only this package's callers retry, and no
	// redirect is followed.
	out := &http.Response{
		Status: res.Status, StatusCode: res.StatusCode, Proto: res.Proto, ProtoMajor: res.ProtoMajor, ProtoMinor: res.ProtoMinor,
		Header: http.Header{"Content-Type": {a.contentType}}, Body: io.NopCloser(bytes.NewReader(a.body)),
		ContentLength: int64(len(a.body)), Request: given,
	}
	return out, nil
}

// remember keeps the values of a form that must not come back in an error.
func (b *bound) remember(req *http.Request) error {
	if req.Body == nil || !strings.HasPrefix(req.Header.Get("Content-Type"), "application/x-www-form-urlencoded") {
		return nil
	}
	raw, err := io.ReadAll(req.Body)
	if err != nil {
		return err
	}
	req.Body, req.ContentLength = io.NopCloser(bytes.NewReader(raw)), int64(len(raw))
	form, err := url.ParseQuery(string(raw))
	if err != nil {
		return err
	}
	for name, values := range form {
		if strings.Contains(name, "pass") || strings.HasSuffix(name, "_k_g") || name == "user_data" {
			b.secret = append(b.secret, values...)
		}
	}
	return nil
}

const (
	omitted   = "[…]"
	beginning = 32 // bytes of a long secret by which it is recognised
)

// hide removes secrets from MAAS's words: each part of the key, and the form's secret values, in
// plain, escaped and quoted spelling. An answer may hold a part of a long secret: the secret's
// beginning then removes the rest of the text.
func (b *bound) hide(text string) string {
	key := b.region.key.parts
	for _, s := range append([]string{key.secret, key.token, key.consumer}, b.secret...) {
		if len(s) < 3 {
			continue
		}
		quoted := strconv.Quote(s)
		for _, spelled := range []string{s, url.QueryEscape(s), html.EscapeString(s), quoted[1 : len(quoted)-1]} {
			text = strings.ReplaceAll(text, spelled, omitted)
			if len(spelled) > 2*beginning {
				if before, _, found := strings.Cut(text, spelled[:beginning]); found {
					text = before + omitted
				}
			}
		}
	}
	return text
}

// inRegion reports whether a URL belongs to this region's API.
func (r *Region) inRegion(u *url.URL) bool {
	return u.Scheme == r.api.Scheme && u.Host == r.api.Host && u.User == nil &&
		strings.HasPrefix(u.Path, r.api.Path) && path.Clean(u.Path)+"/" == u.Path && u.RawPath == ""
}
