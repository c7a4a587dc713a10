package oidc

import (
	"context"
	"crypto"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"github.com/go-jose/go-jose/v4"
	"golang.org/x/time/rate"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/taskcatalog"
	"github.com/hostler/hostler/taskcatalog/lazyregexp"
)

const (
	maxAge   = time.Hour      // of the provider's description and keys
	maxToken = 16 << 10       // bytes
	maxLife  = 24 * time.Hour // of an ID token, from its issue
	skew     = 5 * time.Minute

	readEvery = 10 * time.Second
	readBurst = 2
)

// algorithms are the signature algorithms of ID tokens. What a token's header names beside these is
// refused before a key is looked at.
var algorithms = []jose.SignatureAlgorithm{jose.RS256, jose.ES256, jose.PS256, jose.EdDSA}

var form = lazyregexp.New(`^[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]*$`)

// IsToken reports whether a bearer has the form of an ID token.
func IsToken(bearer string) bool { return len(bearer) <= maxToken && form.MatchString(bearer) }

// Provider is the provider whose ID tokens count. It is safe for concurrent use.
type Provider struct {
	config Config
	ca     []byte
	now    func() time.Time
	client *http.Client

	reads *rate.Limiter
	turn  chan struct{} // held by whoever reads the provider
	tried atomic.Uint64 // reads that have ended, well or not
	known atomic.Pointer[description]
}

// New makes a provider of a config, without reading it. Code: oidc_config_invalid.
func New(c Config, now func() time.Time) (*Provider, error) {
	ca, err := c.check()
	if err != nil {
		return nil, err
	}
	return &Provider{
		config: c, ca: ca, now: now, client: newHTTP(ca, now),
		reads: rate.NewLimiter(rate.Every(readEvery), readBurst), turn: make(chan struct{}, 1),
	}, nil
}

// Verify returns the person of an ID token. Codes: oidc_token_invalid, token_expired,
// oidc_unavailable.
func (p *Provider) Verify(ctx context.Context, raw string) (Person, error) {
	signed, err := jose.ParseSignedCompact(raw, algorithms)
	if err != nil || len(signed.Signatures) != 1 || !ofIDToken(signed.Signatures[0].Header) {
		return Person{}, p.invalid()
	}
	d, err := p.described(ctx, func(d *description) bool { return d.signer(signed) != nil })
	if err != nil {
		return Person{}, err
	}
	signer := d.signer(signed)
	if signer == nil {
		return Person{}, p.invalid()
	}
	verifier := oidc.NewVerifier(p.config.Issuer, &oidc.StaticKeySet{PublicKeys: []crypto.PublicKey{signer}}, &oidc.Config{
		ClientID: p.config.ClientID, SupportedSigningAlgs: names(algorithms), Now: p.now,
	})
	token, err := verifier.Verify(ctx, raw)
	if late, ok := errors.AsType[*oidc.TokenExpiredError](err); ok {
		return Person{}, expired(late.Expiry)
	}
	if err != nil {
		return Person{}, p.invalid()
	}
	return p.person(token)
}

// described returns the provider's description, which is read again if it is old or does not
// suffice. Reads are made one at a time and at a limited rate; what was read before serves as long
// as it is not old. Whoever waits for another's read takes what comes of it. Code: oidc_unavailable.
func (p *Provider) described(ctx context.Context, suffices func(*description) bool) (*description, error) {
	if d := p.known.Load(); d.fresh(p.now()) && suffices(d) {
		return d, nil
	}
	tried := p.tried.Load()
	wait, stop := context.WithTimeout(ctx, readWithin)
	defer stop()
	select {
	case p.turn <- struct{}{}:
		defer func() { <-p.turn }()
	case <-wait.Done():
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return p.readBefore(errors.New("it has been asked, and has not answered yet"))
	}
	d := p.known.Load()
	switch now := p.now(); {
	case d.fresh(now) && suffices(d):
		return d, nil
	case p.tried.Load() != tried, !p.reads.AllowN(now, 1):
		return p.readBefore(errors.New("it was asked a moment ago"))
	}
	defer p.tried.Add(1)
	// The read goes on if the caller leaves: the next caller needs it, too.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), readWithin)
	defer cancel()
	d, err := read(ctx, p.client, p.config.Issuer)
	if err != nil {
		return p.readBefore(err)
	}
	d.readAt = p.now()
	p.known.Store(d)
	return d, nil
}

// readBefore returns the description in use as long as it is not old, and otherwise why there is no
// newer one. Code: oidc_unavailable.
func (p *Provider) readBefore(why error) (*description, error) {
	if d := p.known.Load(); d.fresh(p.now()) {
		return d, nil
	}
	return nil, p.unavailable(why)
}

// SignIn is what a program needs to get an ID token for a person.
type SignIn struct {
	Issuer, ClientID    string
	Scopes              []string
	DeviceURL, TokenURL string
	CA                  string // PEM; empty: the roots of the program's machine
}

// SignIn returns where and how people sign in. Codes: oidc_unavailable, oidc_no_device_code.
func (p *Provider) SignIn(ctx context.Context) (SignIn, error) {
	d, err := p.described(ctx, func(*description) bool { return true })
	if err != nil {
		return SignIn{}, err
	}
	if d.deviceURL == "" {
		return SignIn{}, broker.Errorf(broker.Refused, "oidc_no_device_code",
			"cannot sign in: the provider %s has no sign-in by device code (enable the device authorization grant there)", p.config.Issuer)
	}
	return SignIn{
		Issuer: p.config.Issuer, ClientID: p.config.ClientID, Scopes: p.config.scopes(), DeviceURL: d.deviceURL, TokenURL: d.tokenURL,
		CA: string(p.ca),
	}, nil
}

// unavailable has the reason in its text, for the log, but not in its message: strangers get to see the
// message, and the reason may name addresses of the broker's network or have a part of an answer.
func (p *Provider) unavailable(why error) error {
	return fmt.Errorf("%w: %s", broker.Errorf(broker.Unavailable, "oidc_unavailable",
		"cannot verify a sign-in: the provider %s does not answer (the broker's log says why; try again in %v; operator tokens work meanwhile)",
		p.config.Issuer, readEvery), taskcatalog.Clean(why.Error(), 200))
}

// invalid refuses a token with one text, so that a stranger learns nothing of the reason.
func (p *Provider) invalid() error {
	return broker.Errorf(broker.Unauthorized, "oidc_token_invalid",
		"cannot authenticate: the token is no valid ID token of %s for client %s (sign in again: hostler login --oidc)", p.config.Issuer,
		p.config.ClientID)
}

func expired(at time.Time) error {
	return broker.Errorf(broker.Unauthorized, "token_expired", "cannot use the sign-in: it expired on %s (sign in again: hostler login --oidc)",
		at.UTC().Format(time.RFC3339))
}

func names(algorithms []jose.SignatureAlgorithm) []string {
	out := make([]string, len(algorithms))
	for i, a := range algorithms {
		out[i] = string(a)
	}
	return out
}
