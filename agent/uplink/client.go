package uplink

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/hostler/hostler/pki"
	"github.com/hostler/hostler/taskcatalog"
	"github.com/hostler/hostler/taskcatalog/wire"
)

// The codes of errors between node and broker.
const (
	CodeUnreachable taskcatalog.Code = "broker_unreachable"
	CodeRejected    taskcatalog.Code = "certificate_rejected" // by the broker, in TLS
	CodeUntrusted   taskcatalog.Code = "broker_untrusted"
	CodeClockWrong  taskcatalog.Code = "clock_wrong"
	CodeUnavailable taskcatalog.Code = "broker_unavailable"
)

// Limits of a request. A wait itself takes up to wire.MaxWait.
const (
	requestTimeout = 30 * time.Second
	waitTimeout    = wire.MaxWait + 25*time.Second
	dialTimeout    = 15 * time.Second
)

// idleTime is how long an idle connection beside the poll's is kept: longer than the interval
// between two progress reports, but no longer, because it costs the broker as much as another node.
// Reopening is cheap (see ClientSessionCache).
const idleTime = wire.ProgressTick + 5*time.Second

// DialFunc opens a connection.
type DialFunc func(ctx context.Context, network, addr string) (net.Conn, error)

// Options are the parameters of a client. Trust is nil for the first contact, which is pinned to
// CASHA256 instead.
type Options struct {
	Broker   string // https://host[:port]
	CASHA256 string
	Cert     *tls.Certificate
	Trust    *pki.TrustBundle
	NodeID   string
	Version  string        // of the agent
	Report   func() string // digest of task types, capabilities and facts
	Instance string        // of the running agent, for its polls
	Now      func() time.Time
	Dial     DialFunc // nil: the network
}

// Client talks to a broker as a node.
type Client struct {
	Options
	base *url.URL
	http *http.Client
	skew atomic.Int64
}

// New returns a client. It opens no connection.
func New(o Options) (*Client, error) {
	base, err := url.Parse(o.Broker)
	if err != nil {
		return nil, fmt.Errorf("cannot use broker %s: %w", o.Broker, err)
	}
	if o.Dial == nil {
		o.Dial = (&net.Dialer{Timeout: dialTimeout, KeepAlive: 15 * time.Second}).DialContext
	}
	config := pki.PinnedConfig(o.CASHA256, base.Hostname(), o.Now)
	if o.Trust != nil {
		config = pki.ClientConfig(o.Trust.Roots(o.Now()), o.Cert, o.Now)
		// A TLS session belongs to the certificate with which it began, so the cache is this
		// client's alone: a client with another certificate or broker starts a new session.
		config.ClientSessionCache = tls.NewLRUClientSessionCache(1)
	}
	return &Client{Options: o, base: base, http: &http.Client{
		// HTTP/1.1: a waiting node costs the broker least this way.
		Transport: &http.Transport{
			DialContext: o.Dial, TLSClientConfig: config, TLSHandshakeTimeout: dialTimeout,
			Proxy: http.ProxyFromEnvironment, IdleConnTimeout: idleTime, MaxIdleConnsPerHost: 2,
			MaxResponseHeaderBytes: 64 << 10,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}, nil
}

// Close ends idle connections. A request in flight ends by itself.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Skew is how far the broker's clock was ahead of this node's at its last answer, to the second.
func (c *Client) Skew() time.Duration { return time.Duration(c.skew.Load()).Round(time.Second) }

// Enroll asks for the node's first certificate.
func (c *Client) Enroll(ctx context.Context, r wire.EnrollRequest) (*wire.EnrollReply, error) {
	reply := new(wire.EnrollReply)
	_, err := c.post(ctx, "/internal/v1/nodes/enroll", r, reply)
	return reply, err
}

// Renew asks for a new certificate for the node's key.
func (c *Client) Renew(ctx context.Context, r wire.RenewRequest) (*wire.RenewReply, error) {
	reply := new(wire.RenewReply)
	_, err := c.post(ctx, c.node("/renew"), r, reply)
	return reply, err
}

// Wait polls for tasks for the free lanes. It returns when there are tasks or cancels, or with an
// empty reply after wire.MaxWait, or at once if atOnce is set.
func (c *Client) Wait(ctx context.Context, lanes []taskcatalog.Lane, atOnce bool) (*wire.WaitReply, error) {
	ctx, cancel := context.WithTimeout(ctx, waitTimeout)
	defer cancel()
	path := c.node("/tasks/wait") + "?lanes="
	for i, lane := range lanes {
		if i > 0 {
			path += ","
		}
		path += string(lane)
	}
	reply := new(wire.WaitReply)
	header := []string{wire.HeaderInstance, c.Instance}
	if atOnce {
		header = append(header, wire.HeaderPrefer, wire.PreferNoWait)
	}
	_, err := c.do(ctx, http.MethodGet, path, nil, reply, header...)
	return reply, err
}

// PollOnce polls like Wait, but for no lane and at once: the broker answers as it would answer an
// agent, and hands nothing over. The caller polls in place of a running agent, with the agent's
// instance if known.
func (c *Client) PollOnce(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	header := []string{wire.HeaderPrefer, wire.PreferNoWait}
	if c.Instance != "" {
		header = append(header, wire.HeaderInstance, c.Instance)
	}
	_, err := c.do(ctx, http.MethodGet, c.node("/tasks/wait")+"?lanes=", nil, new(wire.WaitReply), header...)
	return err
}

// Progress renews a task's lease.
func (c *Client) Progress(ctx context.Context, taskID string, r wire.ProgressRequest) (*wire.ProgressReply, error) {
	reply := new(wire.ProgressReply)
	_, err := c.post(ctx, c.task(taskID, "progress"), r, reply)
	return reply, err
}

// Mint requests a secret for a task. request names the request: after a lost answer it is repeated
// under the same name.
func (c *Client) Mint(ctx context.Context, taskID, request string, r wire.MintRequest) (*wire.MintReply, error) {
	reply := new(wire.MintReply)
	_, err := c.post(ctx, c.task(taskID, "credentials/mint"), r, reply, wire.HeaderRequest, request)
	return reply, err
}

// Result reports how a task ended.
func (c *Client) Result(ctx context.Context, taskID string, r wire.ResultRequest) (*wire.ResultReply, error) {
	reply := new(wire.ResultReply)
	_, err := c.post(ctx, c.task(taskID, "result"), r, reply)
	return reply, err
}

// TerminalGone reports that a terminal session's process was killed and nothing of the session is
// left.
func (c *Client) TerminalGone(ctx context.Context, sessionID string, g wire.TerminalGone) error {
	_, err := c.post(ctx, c.node("/terminals/"+url.PathEscape(sessionID)+"/gone"), g, nil)
	return err
}

func (c *Client) node(rest string) string {
	return "/internal/v1/nodes/" + url.PathEscape(c.NodeID) + rest
}

func (c *Client) task(id, verb string) string {
	return c.node("/tasks/" + url.PathEscape(id) + "/" + verb)
}

func (c *Client) post(ctx context.Context, path string, body, into any, header ...string) (int, error) {
	raw, err := taskcatalog.Encode(body)
	if err != nil {
		return 0, fmt.Errorf("cannot encode request: %w", err)
	}
	if len(raw) > wire.MaxBody {
		return 0, taskcatalog.Errorf(taskcatalog.CodeTooLarge, "cannot send %d bytes to the broker: at most %d", len(raw), wire.MaxBody)
	}
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	return c.do(ctx, http.MethodPost, path, raw, into, header...)
}

// do makes a request. header are names and values to send beside the usual ones.
func (c *Client) do(ctx context.Context, method, path string, body []byte, into any, header ...string) (int, error) {
	req, err := http.NewRequestWithContext(ctx, method, c.base.String()+path, bytes.NewReader(body))
	if err != nil {
		return 0, fmt.Errorf("cannot make request: %w", err)
	}
	req.Header.Set("User-Agent", "hostler-agent/"+c.Version)
	req.Header.Set(wire.HeaderAgentVersion, c.Version)
	if c.Trust != nil {
		req.Header.Set(wire.HeaderTrustVersion, strconv.FormatInt(c.Trust.Version, 10))
		req.Header.Set(wire.HeaderReport, c.Report())
	}
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return 0, c.explain(ctx, err)
	}
	defer func() { _ = resp.Body.Close() }()
	if broker, err := http.ParseTime(resp.Header.Get("Date")); err == nil {
		c.skew.Store(int64(broker.Sub(c.Now())))
	}
	switch {
	case resp.StatusCode == http.StatusNoContent:
		return resp.StatusCode, nil
	case resp.StatusCode != http.StatusOK && resp.StatusCode != http.StatusCreated:
		return resp.StatusCode, c.refusal(resp)
	}
	// An answer carries envelopes, so it may be larger than a request.
	raw, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	if err != nil {
		return resp.StatusCode, c.explain(ctx, err)
	}
	if len(raw) > maxAnswer {
		return resp.StatusCode, taskcatalog.Errorf(taskcatalog.CodeTooLarge, "cannot read the broker's answer: more than %d bytes",
			maxAnswer)
	}
	if err := taskcatalog.DecodeStrict(raw, into); err != nil {
		return resp.StatusCode, taskcatalog.Errorf(taskcatalog.CodeMalformed, "cannot read the broker's answer: %v", err)
	}
	return resp.StatusCode, nil
}

// maxAnswer bounds an answer: several tasks, each with a baseline.
const maxAnswer = 16 << 20

// Refusal is an unsuccessful answer of the broker.
type Refusal struct {
	Status     int
	Code       taskcatalog.Code
	Detail     string
	RetryAfter time.Duration // zero: not given
}

func (r *Refusal) Error() string {
	if r.Detail == "" {
		return fmt.Sprintf("the broker answered %d %s", r.Status, http.StatusText(r.Status))
	}
	return r.Detail
}

// Permanent reports whether the same request would be refused again: the broker understood the
// request and rejected it.
func (r *Refusal) Permanent() bool {
	switch r.Status {
	case http.StatusRequestTimeout, http.StatusTooEarly, http.StatusTooManyRequests:
		return false
	}
	return r.Status >= 400 && r.Status < 500
}

func (c *Client) refusal(resp *http.Response) *Refusal {
	r := &Refusal{Status: resp.StatusCode, Code: CodeUnavailable, RetryAfter: retryAfter(resp.Header.Get("Retry-After"), c.Now())}
	var p wire.Problem
	if err := wire.Decode(resp.Body, &p); err == nil && p.Code != "" {
		r.Code, r.Detail = taskcatalog.Code(taskcatalog.Clean(string(p.Code), 64)), taskcatalog.Clean(p.Detail, taskcatalog.MaxText)
	}
	return r
}

// maxRetryAfter limits a Retry-After: a forged or wrong answer must not silence a node.
const maxRetryAfter = 5 * time.Minute

func retryAfter(header string, now time.Time) time.Duration {
	var d time.Duration
	if seconds, err := strconv.ParseInt(header, 10, 32); err == nil {
		d = time.Duration(seconds) * time.Second
	} else if at, err := http.ParseTime(header); err == nil {
		d = at.Sub(now)
	}
	return min(max(d, 0), maxRetryAfter)
}

// RefusalOf returns the broker's refusal in err, if any.
func RefusalOf(err error) (*Refusal, bool) {
	r, ok := errors.AsType[*Refusal](err)
	return r, ok
}
