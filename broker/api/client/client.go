package client

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/cenkalti/backoff/v5"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/pki"
	"github.com/hostler/hostler/taskcatalog"
)

const (
	maxReply     = 64 << 20         // bytes of a reply held in memory
	callLimit    = 60 * time.Second // of a call that does not wait
	longestPause = 5 * time.Second  // between two tries
	waitPatience = time.Minute      // how long a waiting call outlives an absent broker
)

// Options name the broker and the caller.
type Options struct {
	Broker string         // https://host:port
	Roots  *x509.CertPool // the broker's chain must lead to one of these
	Token  string         // bearer token
	// Fresh returns the bearer token of each request, such as an ID token that is renewed. Nil: Token.
	Fresh   func(ctx context.Context) (string, error)
	Version string // of the program, for the broker's log
	Now     func() time.Time
	// Backoff is the first wait before a repeat, doubled each time. Zero means 200 ms.
	Backoff time.Duration
}

// Client is a connection to one broker. It is safe for concurrent use.
type Client struct {
	opts  Options
	http  *http.Client
	roots atomic.Value // string, see RootsInForce

	sockets *http.Transport

	frozen atomic.Value // string, see Frozen
}

// RootsInForce returns the SHA-256 of each root certificate that the broker named in its last
// answer as in force, or nil before the first answer. The broker has proved itself by a pinned
// root.
func (c *Client) RootsInForce() []string {
	said, _ := c.roots.Load().(string)
	if said == "" {
		return nil
	}
	return strings.Split(said, ",")
}

// New returns a client. New does not connect.
func New(o Options) *Client {
	if o.Backoff == 0 {
		o.Backoff = 200 * time.Millisecond
	}
	o.Broker = strings.TrimRight(o.Broker, "/")
	transport := &http.Transport{
		Proxy:               http.ProxyFromEnvironment,
		DialContext:         (&net.Dialer{Timeout: 10 * time.Second}).DialContext,
		TLSClientConfig:     pki.ClientConfig(o.Roots, nil, o.Now),
		TLSHandshakeTimeout: 10 * time.Second,
		ForceAttemptHTTP2:   true,
	}
	return &Client{opts: o, sockets: sockets(transport), http: &http.Client{
		Transport:     transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// Broker is the address of the broker.
func (c *Client) Broker() string { return c.opts.Broker }

// call is one request of the API.
type call struct {
	method string
	path   string // of a route, see api.Path; segments escaped
	query  url.Values
	body   any           // JSON, unless nil
	size   int64         // of a body that is sent as is
	key    string        // Idempotency-Key, unless empty
	repeat bool          // the request may be repeated; always true for a GET
	limit  time.Duration // of the whole call; 0 means callLimit
	// patience is how long a repeatable call is retried while the broker is absent. Zero means two
	// seconds.
	patience time.Duration
}

// do makes the call and decodes the reply into out, unless out is nil.
func (c *Client) do(ctx context.Context, r call, out any) error {
	var body []byte
	if r.body != nil {
		var err error
		if body, err = taskcatalog.Encode(r.body); err != nil {
			return broker.Errorf(broker.Invalid, "bad_request", "cannot write the request as JSON: %v", err)
		}
	}
	once := func(caller context.Context) error {
		ctx, cancel := context.WithTimeout(caller, orElse(r.limit, callLimit))
		defer cancel()
		res, err := c.send(ctx, r, bytes.NewReader(body))
		if err != nil {
			return err
		}
		defer func() { _ = res.Body.Close() }()
		err = c.decode(res, out)
		if err != nil && caller.Err() != nil { // while TLS is being closed, an empty answer still gets through
			return caller.Err()
		}
		return err
	}
	if r.method != http.MethodGet && !r.repeat {
		return once(ctx)
	}
	return c.retry(ctx, orElse(r.patience, 2*time.Second), 0.2, func() (again bool, err error) {
		err = once(ctx)
		return absent(err), err
	})
}

// absent reports whether the broker may answer a later try.
func absent(err error) bool {
	kind := broker.AsError(err).Kind
	return err != nil && (kind == broker.Unavailable || kind == broker.TooMany)
}

// retry calls try until try no longer asks for another attempt. The wait doubles each time, up to
// longestPause. If the next wait would end after patience, retry returns the last error.
func (c *Client) retry(ctx context.Context, patience time.Duration, jitter float64, try func() (again bool, err error)) error {
	pause := &backoff.ExponentialBackOff{
		InitialInterval: c.opts.Backoff, Multiplier: 2, RandomizationFactor: jitter,
		MaxInterval: longestPause,
	}
	_, err := backoff.Retry(ctx, func() (struct{}, error) {
		again, err := try()
		if err != nil && !again {
			err = backoff.Permanent(err)
		}
		return struct{}{}, err
	}, backoff.WithBackOff(pause), backoff.WithMaxElapsedTime(patience))
	return err
}

// send makes one request and returns the reply of a success.
func (c *Client) send(ctx context.Context, r call, body io.Reader) (*http.Response, error) {
	target := c.opts.Broker + api.Path(r.path)
	if len(r.query) > 0 {
		target += "?" + r.query.Encode()
	}
	req, err := http.NewRequestWithContext(ctx, r.method, target, body)
	if err != nil {
		return nil, broker.Errorf(broker.Invalid, "bad_request", "cannot make a request of %q", taskcatalog.Clean(r.path, 200))
	}
	if r.body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if r.size > 0 {
		req.Header.Set("Content-Type", "application/octet-stream")
		req.ContentLength = r.size
	}
	if r.key != "" {
		req.Header.Set("Idempotency-Key", r.key)
	}
	if err := c.authorize(ctx, req.Header); err != nil {
		return nil, err
	}
	req.Header.Set("User-Agent", "hostler/"+c.opts.Version)
	res, err := c.http.Do(req)
	if err != nil {
		return nil, c.unreached(ctx, err)
	}
	c.roots.Store(res.Header.Get(api.HeaderRoots))
	if r.method == http.MethodGet {
		c.frozen.Store(res.Header.Get(api.HeaderFrozen))
	}
	if res.StatusCode/100 != 2 {
		defer func() { _ = res.Body.Close() }()
		return nil, problemOf(res)
	}
	return res, nil
}

// authorize sets the bearer token of a request. Without one the request is a stranger's.
func (c *Client) authorize(ctx context.Context, h http.Header) error {
	token := c.opts.Token
	if c.opts.Fresh != nil {
		var err error
		if token, err = c.opts.Fresh(ctx); err != nil {
			return err
		}
	}
	if token != "" {
		h.Set("Authorization", "Bearer "+token)
	}
	return nil
}

func (c *Client) decode(res *http.Response, out any) error {
	raw, err := io.ReadAll(io.LimitReader(res.Body, maxReply+1))
	switch {
	case err != nil:
		return broker.Errorf(broker.Unavailable, "broker_unreachable", "cannot read the answer of %s: the connection broke (try again)",
			c.opts.Broker)
	case len(raw) > maxReply:
		return broker.Errorf(broker.Internal, "answer_too_large",
			"cannot read the answer of %s: the answer is larger than %d bytes (narrow the request)", c.opts.Broker, maxReply)
	case out == nil || res.StatusCode == http.StatusNoContent:
		return nil
	case bytes.Contains(raw, []byte(`"next_cursor":`)): // a page that nobody follows would pass for the whole list
		return broker.Errorf(broker.Internal, "broker_older",
			"cannot read the list of %s: the broker is of an earlier release, and only its first page would be read (update the broker, or use its own hostler)",
			c.opts.Broker)
	}
	if err := json.Unmarshal(raw, out); err != nil {
		return broker.Errorf(broker.Internal, "answer_malformed",
			"cannot read the answer of %s: the answer is not what this version of hostler expects (compare hostler version with hostler status)", c.opts.Broker)
	}
	return nil
}

// fetch makes a GET and decodes the reply as a T.
func fetch[T any](ctx context.Context, c *Client, path string, query url.Values) (*T, error) {
	out := new(T)
	if err := c.do(ctx, call{method: http.MethodGet, path: path, query: query}, out); err != nil {
		return nil, err
	}
	return out, nil
}

// submit makes one POST or PUT, without a retry, and decodes the reply as a T.
func submit[T any](ctx context.Context, c *Client, method, path string, body any) (*T, error) {
	out := new(T)
	if err := c.do(ctx, call{method: method, path: path, body: body}, out); err != nil {
		return nil, err
	}
	return out, nil
}

type idempotencyKey struct{}

// WithIdempotencyKey returns a context for one call that begins a run. For a day the broker answers
// the same key with the run that the first call began, so a program that kept the key before a
// crash repeats the call. A call without a key of its own has a fresh key.
func WithIdempotencyKey(ctx context.Context, key string) context.Context {
	return context.WithValue(ctx, idempotencyKey{}, key)
}

// begin makes a POST with an idempotency key, so that the request can be repeated after a lost
// answer and still begins only one thing.
func begin[T any](ctx context.Context, c *Client, path string, body any) (*T, error) {
	key, given := ctx.Value(idempotencyKey{}).(string)
	if !given {
		key = "cli-" + strings.ToLower(rand.Text())
	}
	out := new(T)
	if err := c.do(ctx, call{method: http.MethodPost, path: path, body: body, key: key, repeat: true}, out); err != nil {
		return nil, err
	}
	return out, nil
}

// remove makes one DELETE, without a retry, and decodes the reply as a T.
func remove[T any](ctx context.Context, c *Client, path, reason string) (*T, error) {
	out := new(T)
	if err := c.do(ctx, call{method: http.MethodDelete, path: path, query: query("reason", reason)}, out); err != nil {
		return nil, err
	}
	return out, nil
}

// at joins path segments, each escaped. A segment that a server would resolve as a walk up the tree
// is made harmless.
func at(segments ...string) string {
	var b strings.Builder
	for _, s := range segments {
		b.WriteByte('/')
		switch s {
		case "", ".", "..":
			b.WriteString("%20" + s) // names nothing; the broker answers not found
		default:
			b.WriteString(url.PathEscape(s))
		}
	}
	return b.String()
}

// query makes URL parameters of name, value pairs; empty values are left out.
func query(pairs ...string) url.Values {
	q := url.Values{}
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			q.Add(pairs[i], pairs[i+1])
		}
	}
	return q
}

func timestamp(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339Nano)
}

func orElse(d, fallback time.Duration) time.Duration {
	if d == 0 {
		return fallback
	}
	return d
}

func seconds(d time.Duration) string { return fmt.Sprintf("%d", int64(d/time.Second)) }
