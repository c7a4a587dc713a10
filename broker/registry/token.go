package registry

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/taskcatalog/lazyregexp"
)

const (
	// patience bounds the two requests for a token: a node waits half a minute.
	patience = 20 * time.Second
	// maxAnswer bounds an answer, and maxToken a token, in bytes.
	maxAnswer, maxToken = 64 << 10, 32 << 10
	// maxLife is the greatest life of a token for a node, because tokens cannot be revoked.
	maxLife = 2 * time.Hour
	// defaultLife is the protocol's life of a token without a stated expiry.
	defaultLife = time.Minute
)

var tokenForm = lazyregexp.New(`^[!-~]+$`)

// token is a token from a token service.
type token struct {
	text    string
	expires time.Time
}

// Client talks to registries and their token services.
type Client struct {
	http *http.Client
	away *http.Client // for the targets of redirects
	now  func() time.Time
}

// NewClient returns a Client. It opens no connection.
func NewClient(now func() time.Time) *Client {
	return &Client{now: now, away: away(), http: &http.Client{
		Timeout: patience / 2,
		Transport: &http.Transport{
			TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12}, ForceAttemptHTTP2: true,
			IdleConnTimeout: 30 * time.Second, MaxResponseHeaderBytes: 64 << 10,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// Try logs in with an account, discards the token, and returns the account bound to the token
// service that the registry names now. Codes: registry_unreachable, registry_no_tokens,
// registry_realm_refused, registry_login_refused, registry_token_tells, registry_answer_invalid.
func (c *Client) Try(ctx context.Context, r broker.RegistryCredential, a Account) (Account, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	at, err := c.service(ctx, r, a, "")
	if err != nil {
		return Account{}, err
	}
	if _, err := c.token(ctx, r, a, at); err != nil {
		return Account{}, err
	}
	tried := *a.login
	tried.Realm = originOf(at)
	return Account{&tried}, nil
}

// pull gets a token that may pull a repository. Codes: those of Try, registry_realm_changed,
// registry_pull_refused, registry_token_too_wide, registry_token_unreadable.
func (c *Client) pull(ctx context.Context, r broker.RegistryCredential, a Account, repository string) (token, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	at, err := c.service(ctx, r, a, repository)
	if err != nil {
		return token{}, err
	}
	if originOf(at) != a.login.Realm {
		return token{}, refused(r, "registry_realm_changed",
			"the registry names another token service than "+a.login.Realm+
				", where the account was checked; the broker does not send the account there (if the new token service is right, set the account again: hostler help registry-credential set)")
	}
	got, err := c.token(ctx, r, a, at)
	if err != nil {
		return token{}, err
	}
	says, readable := claimsIn(got.text)
	if !readable {
		return token{}, refused(r, "registry_token_unreadable",
			"its token service returns a JWT with unreadable claims, so its rights are unknown (check the token service)")
	}
	switch pulls, more := says.permits(repository); {
	case more:
		return token{}, refused(r, "registry_token_too_wide",
			"its token service grants more than the requested right, which is to pull "+repository+
				" (give the account only the right to pull, or use another token service)")
	case !pulls:
		return token{}, refused(r, "registry_pull_refused", "the account may not pull "+repository+" (give the account this right)")
	}
	// The token's own expiry counts, and so does the expiry stated beside it.
	end, none := says.end(got.expires, c.now().Add(maxLife))
	if none {
		return token{}, refused(r, "registry_token_too_wide",
			fmt.Sprintf("its token service issues tokens that last longer than %s (configure a shorter lifetime)", maxLife))
	}
	got.expires = end
	return got, nil
}

// service asks a registry for its token service.
func (c *Client) service(ctx context.Context, r broker.RegistryCredential, a Account, repository string) (*url.URL, error) {
	res, _, err := c.get(ctx, a.login.Registry+"/v2/", nil)
	if err != nil {
		return nil, unreachable(ctx, r, "the registry", err)
	}
	names, is := bearerIn(res.Header.Values("WWW-Authenticate"))
	switch {
	case res.StatusCode >= 500 || res.StatusCode == http.StatusTooManyRequests:
		return nil, busy(r, "the registry", res, c.now())
	case res.StatusCode == http.StatusUnauthorized && is:
	case res.StatusCode == http.StatusUnauthorized:
		return nil,
			refused(r, "registry_no_tokens",
				"the registry expects the account itself (Basic) and issues no tokens, and the broker never sends the account to a node (put a token service in front of the registry, use another registry, or publish the release to the broker: hostler agent-release publish without --registry)")
	case res.StatusCode == http.StatusOK:
		return nil,
			refused(r, "registry_no_tokens",
				"the registry answers without a login, and names no token service (a public registry needs no credential)")
	default:
		return nil,
			refused(r, "registry_answer_invalid",
				fmt.Sprintf("the server answers /v2/ with status %d, which no registry does (check its name)", res.StatusCode))
	}
	at, why := names.address(strings.HasPrefix(a.login.Registry, "http://"), repository)
	if why != "" {
		return nil, refused(r, "registry_realm_refused", why+"; the broker does not send the account there")
	}
	return at, nil
}

// token requests a token.
func (c *Client) token(ctx context.Context, r broker.RegistryCredential, a Account, at *url.URL) (token, error) {
	res, raw, err := c.get(ctx, at.String(), a.login)
	defer clear(raw)
	const service = "the registry's token service"
	switch {
	case err != nil:
		return token{}, unreachable(ctx, r, service, err)
	case res.StatusCode == http.StatusUnauthorized, res.StatusCode == http.StatusForbidden:
		return token{}, refused(r, "registry_login_refused",
			"its token service refuses the account (set the account again: hostler help registry-credential set)")
	case res.StatusCode >= 500 || res.StatusCode == http.StatusTooManyRequests:
		return token{}, busy(r, service, res, c.now())
	case res.StatusCode != http.StatusOK:
		return token{}, refused(r, "registry_answer_invalid", fmt.Sprintf("its token service answers with status %d", res.StatusCode))
	}
	var said struct {
		Token       string  `json:"token"`
		AccessToken string  `json:"access_token"`
		ExpiresIn   float64 `json:"expires_in"` // seconds
	}
	if json.Unmarshal(raw, &said) != nil { // the cause is left out: it may quote the token
		return token{}, refused(r, "registry_answer_invalid", "its token service's answer is not a token")
	}
	now := c.now().Round(0) // a registry counts by the wall clock
	got := token{text: said.Token, expires: now.Add(defaultLife)}
	if got.text == "" {
		got.text = said.AccessToken
	}
	if len(got.text) > maxToken || !tokenForm.MatchString(got.text) {
		return token{}, refused(r, "registry_answer_invalid", "its token service answers without a token")
	}
	if a.login.leaksIn(got.text) {
		return token{}, refused(r, "registry_token_tells",
			"its token service returns a token that contains the password, which the broker never sends to a node (use another token service, or publish the release to the broker: hostler agent-release publish without --registry)")
	}
	if said.ExpiresIn > 0 {
		got.expires = now.Add(time.Duration(min(said.ExpiresIn, 10*365*24*3600) * float64(time.Second)))
	}
	return got, nil
}

// get makes a request, with or without a login, and reads the whole answer.
func (c *Client) get(ctx context.Context, address string, with *login) (*http.Response, []byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, nil, err
	}
	req.Header.Set("User-Agent", "hostler-broker")
	if with != nil {
		req.SetBasicAuth(with.Username, with.Password)
	}
	res, err := c.http.Do(req)
	if err != nil {
		return nil, nil, err
	}
	defer func() { _ = res.Body.Close() }()
	raw, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer+1))
	if err == nil && len(raw) > maxAnswer {
		err = errTooLarge
	}
	return res, raw, err
}
