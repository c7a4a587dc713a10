package opa

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/taskcatalog"
)

const (
	maxAnswer = 64 << 10         // bytes
	maxHeader = 16 << 10         // bytes
	maxConns  = 8                // at the same time
	holds     = 10 * time.Second // for which an answer permits the same facts
	maxKept   = 1000             // answers
	toldFor   = time.Hour        // after which trouble is old, if nobody asked since
)

// Engine is the policy engine of a site. It is safe for concurrent use.
type Engine struct {
	c      Config
	host   string
	client *http.Client
	now    func() time.Time

	mu      sync.Mutex
	allowed map[string]time.Time // when the facts with a digest were permitted
	trouble Trouble
}

// Trouble says why the engine could not be asked.
type Trouble struct {
	Why         string
	Since, Last time.Time // of the first failure since the last answer, and of the last failure
}

// New returns the engine of a configuration. Code: config_invalid.
func New(c Config, now func() time.Time) (*Engine, error) {
	if err := c.Check(); err != nil {
		return nil, err
	}
	at, err := url.Parse(c.URL)
	if err != nil {
		return nil, err
	}
	roots, err := c.roots()
	if err != nil {
		return nil, err
	}
	c.Timeout = cmp.Or(c.Timeout, DefaultTimeout)
	return &Engine{
		c: c, host: at.Host, now: now, allowed: map[string]time.Time{},
		client: &http.Client{
			Transport: &http.Transport{ // without Proxy: no proxy of the environment
				TLSClientConfig:   &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots, Time: now},
				ForceAttemptHTTP2: true, DisableCompression: true, MaxConnsPerHost: maxConns, IdleConnTimeout: time.Minute,
				TLSHandshakeTimeout: c.Timeout, MaxResponseHeaderBytes: maxHeader,
			},
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}, nil
}

// Close closes idle connections.
func (e *Engine) Close() error { e.client.CloseIdleConnections(); return nil }

// Permit asks whether an operation with these facts may run. It takes as long as the configuration says, and is
// not to be called within a transaction. Codes: policy_engine_denied, policy_engine_unreachable.
func (e *Engine) Permit(ctx context.Context, facts broker.OperationFacts) error {
	digest, err := facts.Digest()
	if err != nil || e.permitted(digest) {
		return err
	}
	raw, err := e.ask(ctx, facts)
	if ctx.Err() != nil { // the caller has gone; this says nothing about the engine
		return ctx.Err()
	}
	e.note(err)
	if err != nil {
		return broker.Errorf(broker.Refused, broker.PolicyEngineUnreachable, "cannot run %s: the policy engine of the platform gives no answer, "+
			"and without one nothing is permitted (try again later; operators see the cause in hostler status)", facts.Operation)
	}
	if why := denial(raw); why != "" {
		return broker.Errorf(broker.Refused, broker.PolicyEngineDenied,
			"cannot run %s: the policy engine of the platform %s (ask the platform's operators)", facts.Operation, why)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.allowed) >= maxKept {
		e.allowed = map[string]time.Time{}
	}
	e.allowed[digest] = e.now()
	return nil
}

// permitted reports whether the same facts were permitted a moment ago.
func (e *Engine) permitted(digest string) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	at, asked := e.allowed[digest]
	now := e.now()
	return asked && !now.Before(at) && now.Before(at.Add(holds))
}

// ask sends the facts and returns an answer in JSON. The error says why there is none.
func (e *Engine) ask(ctx context.Context, facts broker.OperationFacts) ([]byte, error) {
	token, err := e.c.token()
	if err != nil {
		return nil, err
	}
	body, err := taskcatalog.Encode(map[string]any{"input": facts})
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, e.c.Timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, e.c.URL, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	res, err := e.client.Do(req)
	if err != nil {
		return nil, e.cause(err)
	}
	defer func() { _ = res.Body.Close() }()
	if res.StatusCode != http.StatusOK { // the body is not repeated: it may quote the request
		return nil, fmt.Errorf("it answers with status %d", res.StatusCode)
	}
	raw, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer+1))
	switch {
	case err != nil:
		return nil, e.cause(err)
	case len(raw) > maxAnswer:
		return nil, fmt.Errorf("its answer has more than %d bytes", maxAnswer)
	case !json.Valid(raw):
		return nil, errors.New("its answer is no JSON")
	}
	return raw, nil
}

// cause is the part of an error that says something: its URL is known.
func (e *Engine) cause(err error) error {
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("it does not answer within %s", e.c.Timeout)
	}
	if in, ok := errors.AsType[*url.Error](err); ok {
		return in.Err
	}
	return err
}

// denial says why an answer does not permit; empty: it permits. An OPA that keeps a log of its decisions gives
// each answer an id.
func denial(raw []byte) string {
	var answer struct {
		DecisionID string `json:"decision_id"`

		Result *struct {
			Allow *bool `json:"allow"`
		} `json:"result"`
	}
	switch err := taskcatalog.DecodeStrict(raw, &answer); {
	case err != nil:
		return `gives another answer than {"result": {"allow": true}}`
	case answer.Result == nil || answer.Result.Allow == nil:
		return "says nothing of it, and what it does not allow is denied"
	case !*answer.Result.Allow:
		return "does not allow it"
	}
	return ""
}

// note keeps whether the engine could be asked.
func (e *Engine) note(err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if err == nil {
		e.trouble = Trouble{}
		return
	}
	now := e.now()
	if e.trouble.Why == "" {
		e.trouble.Since = now
	}
	e.trouble.Last, e.trouble.Why = now, taskcatalog.Clean("the policy engine at "+e.host+" gives no answer: "+err.Error(), 300)
}

// Trouble says why the engine could not be asked when this broker asked last. With ok false it answered, or nobody
// has asked within the last hour.
func (e *Engine) Trouble() (t Trouble, ok bool) {
	if e == nil {
		return t, false
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.trouble, e.trouble.Why != "" && e.now().Before(e.trouble.Last.Add(toldFor))
}
