package secrets

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// maxAnswer bounds an answer, in bytes: a secret of maxValue with every byte escaped, and Vault's
// envelope around it.
const maxAnswer = 6*maxValue + 64<<10

var (
	errTooLarge = errors.New("the answer of Vault is too large")
	errNotVault = errors.New("the answer does not come from Vault")
)

// wire sends requests to one Vault. wire retries nothing, follows no redirect (which would receive
// the token), takes no settings from the environment, and bounds every answer and its time.
type wire struct {
	base      *url.URL
	namespace string
	client    *http.Client
	timeout   time.Duration
}

func newWire(base *url.URL, namespace string, tlsConfig *tls.Config) *wire {
	return &wire{
		base: base, namespace: namespace, timeout: callTime,
		client: &http.Client{
			Transport: &http.Transport{
				TLSClientConfig: tlsConfig, ForceAttemptHTTP2: true,
				MaxConnsPerHost: 16, MaxIdleConns: 16, MaxIdleConnsPerHost: 16, IdleConnTimeout: time.Minute,
				MaxResponseHeaderBytes: 64 << 10,
			},
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}
}

// request is a request to a path below /v1/. The path consists of checked names and needs no
// escaping.
type request struct {
	method, path string
	body         any // nil: none
}

// status is an error answer.
type status struct {
	code    int
	sealed  bool // Vault reports that it is sealed
	noMount bool // Vault reports that nothing is mounted at the path
}

func (s *status) Error() string { return fmt.Sprintf("Vault answers with status %d", s.code) }

// meaning says what an operator can do about the answer. Vault's text is not repeated: it may quote
// the request.
func (s *status) meaning() string {
	switch {
	case s.sealed:
		return "Vault is sealed (unseal it)"
	case s.code == http.StatusTooManyRequests:
		return "Vault gets too many requests (check its quotas)"
	case s.code >= 300 && s.code < 400:
		return "Vault redirects its clients (set vault.address to the active node)"
	}
	return fmt.Sprintf("Vault answers with status %d (check its health and its log)", s.code)
}

func isStatus(err error, code int) bool {
	var s *status
	return errors.As(err, &s) && s.code == code
}

// send makes one request and decodes its answer into into, unless into is nil.
func (w *wire) send(ctx context.Context, token string, r request, into any) error {
	var body io.Reader
	if r.body != nil {
		raw, err := json.Marshal(r.body)
		if err != nil {
			return err
		}
		body = bytes.NewReader(raw)
	}
	ctx, cancel := context.WithTimeout(ctx, w.timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, r.method, w.base.JoinPath("v1", r.path).String(), body)
	if err != nil {
		return err
	}
	req.Header.Set("X-Vault-Request", "true") // required by a Vault Agent in between
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if w.namespace != "" {
		req.Header.Set("X-Vault-Namespace", w.namespace)
	}
	if token != "" {
		req.Header.Set("X-Vault-Token", token)
	}
	resp, err := w.client.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	raw, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	switch {
	case err != nil:
		return err
	case len(raw) > maxAnswer:
		return errTooLarge
	case resp.StatusCode == http.StatusOK || resp.StatusCode == http.StatusNoContent:
		return decode(raw, into)
	}
	return refusal(resp.StatusCode, raw)
}

func decode(raw []byte, into any) error {
	if into == nil || len(raw) == 0 {
		return nil
	}
	// The cause is left out: it may quote the secret.
	if json.Unmarshal(raw, into) != nil {
		return errNotVault
	}
	return nil
}

// refusal interprets an error answer. Only an answer of Vault itself may mean that there is no such
// secret: a proxy's error page for an unknown path says nothing about the secret.
func refusal(code int, raw []byte) error {
	var said struct {
		Errors []string       `json:"errors"`
		Data   jsontext.Value `json:"data"`
	}
	bad := json.Unmarshal(raw, &said) != nil || said.Errors == nil && said.Data == nil
	if code == http.StatusNotFound && bad {
		return errNotVault
	}
	has := func(text string) bool {
		return slices.ContainsFunc(said.Errors, func(e string) bool { return strings.Contains(e, text) })
	}
	return &status{code: code, sealed: has("Vault is sealed"), noMount: has("no handler for route")}
}
