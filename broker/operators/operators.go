package operators

import (
	"context"
	"errors"
	"io"
	"maps"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/operators/oidc"
	"github.com/hostler/hostler/broker/store"
	"github.com/hostler/hostler/broker/strangers"
	"github.com/hostler/hostler/pki"
)

// Directory authenticates tokens. It is safe for concurrent use.
type Directory struct {
	db     *store.DB
	now    func() time.Time
	rand   io.Reader
	tokens *limits // by token name
	guess  *limits // by address, or IPv6 /64
	writes *limits // of tenants, by organisation
	people *People // nil: nobody signs in by OIDC

	mu   sync.Mutex
	live map[string]map[*running]struct{} // requests by token name
}

// running is a request that is being answered.
type running struct {
	cancel context.CancelCauseFunc
	at     broker.Place // of the caller
}

// New makes a directory of the store's tokens.
func New(db *store.DB, now func() time.Time, rand io.Reader) *Directory {
	return &Directory{
		db: db, now: now, rand: rand,
		tokens: newLimits(tokenRate, tokenBurst),
		guess:  newLimits(guessRate, guessBurst),
		writes: newLimits(tenantRate, tenantBurst),
		live:   map[string]map[*running]struct{}{},
	}
}

// ErrRevoked is the cause of the end of a request with a revoked token.
var ErrRevoked = broker.Errorf(broker.Unauthorized, "token_revoked", "cannot continue: the token was revoked (get a new token)")

// lookAgain is the interval of reading the tokens of running requests again, because a hint may be
// lost.
const lookAgain = 15 * time.Second

// Run ends the requests of tokens that are revoked, and of people who are denied, until ctx ends.
func (d *Directory) Run(ctx context.Context) {
	hints := d.db.Hints(ctx)
	look := time.NewTicker(lookAgain)
	defer look.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case h, ok := <-hints:
			if !ok {
				return
			}
			switch h.Kind {
			case store.HintToken:
				if isPerson(h.ID) {
					d.endDenied(ctx, h.ID)
				} else {
					d.end(h.ID)
				}
			case store.HintMissed:
				d.endRevoked(ctx)
			}
		case <-look.C:
			d.endRevoked(ctx)
		}
	}
}

// endRevoked ends the requests of tokens that were revoked, and of people who were denied, without a
// hint. While the store is down, requests continue.
func (d *Directory) endRevoked(ctx context.Context) {
	d.mu.Lock()
	names := slices.Collect(maps.Keys(d.live))
	d.mu.Unlock()
	if len(names) == 0 {
		return
	}
	for _, name := range names {
		if isPerson(name) {
			d.endDenied(ctx, name)
		}
	}
	tokens, err := d.db.OperatorTokens(ctx)
	if err != nil {
		return
	}
	for _, t := range tokens {
		if !t.RevokedAt.IsZero() {
			d.end(t.Name)
		}
	}
}

func (d *Directory) end(name string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for r := range d.live[name] {
		r.cancel(ErrRevoked)
	}
}

// Authenticate returns the token that a bearer shows from an address, or a person as a token. Codes:
// token_missing, token_unknown, token_expired, token_revoked, rate_limited, oidc_token_invalid,
// oidc_no_role, oidc_unavailable, person_denied.
func (d *Directory) Authenticate(ctx context.Context, bearer string, from netip.Addr) (broker.OperatorToken, error) {
	now := d.now()
	if bearer == "" {
		return broker.OperatorToken{}, broker.Errorf(broker.Unauthorized, "token_missing",
			"cannot authenticate: the request has no bearer token (use --token-file or HOSTLER_TOKEN)")
	}
	if d.people != nil && oidc.IsToken(bearer) {
		return d.person(ctx, bearer, from)
	}
	if !secretForm.MatchString(bearer) {
		return broker.OperatorToken{}, d.unknown(from, now)
	}
	token, err := d.db.OperatorByHash(ctx, pki.HashToken(bearer))
	if err != nil {
		if broker.AsError(err).Kind == broker.Unauthorized {
			return broker.OperatorToken{}, d.unknown(from, now)
		}
		return broker.OperatorToken{}, err
	}
	switch {
	case !token.RevokedAt.IsZero():
		return token, broker.Errorf(broker.Unauthorized, "token_revoked",
			"cannot use token %s: the token was revoked on %s (get a new token)", token.Name, token.RevokedAt.UTC().Format(time.RFC3339))
	case !token.ExpiresAt.IsZero() && !now.Before(token.ExpiresAt):
		return token, broker.Errorf(broker.Unauthorized, "token_expired", "cannot use token %s: the token expired on %s (get a new token)",
			token.Name, token.ExpiresAt.UTC().Format(time.RFC3339))
	}
	if wait := d.tokens.take(token.Name, now); wait > 0 {
		return token, tooMany("with token "+token.Name, wait)
	}
	return token, nil
}

// AllowWrite refuses a change by a tenant whose organisation makes too many: many tokens of one tenant
// leave the store to the others. Code: tenant_rate_limited.
func (d *Directory) AllowWrite(token broker.OperatorToken) error {
	if token.Place.OfPlatform() {
		return nil
	}
	if wait := d.writes.take(token.Place.OrganisationID, d.now()); wait > 0 {
		return broker.Errorf(broker.TooMany, "tenant_rate_limited",
			"cannot change anything now: organisation %s makes too many changes (try again in %v)", token.Place.OrganisationID,
			wait.Round(100*time.Millisecond))
	}
	return nil
}

// Bind returns a context that ends with the token: when it is revoked, with ErrRevoked, when the person
// is denied, with the code person_denied, or when it expires. The caller must call done.
func (d *Directory) Bind(ctx context.Context, token broker.OperatorToken) (bound context.Context, done func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	stop := func() {}
	if !token.ExpiresAt.IsZero() {
		stop = d.atExpiry(ctx, token.ExpiresAt, func() {
			cancel(broker.Errorf(broker.Unauthorized, "token_expired", "cannot continue: the token expired (get a new token)"))
		})
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.live[token.Name] == nil {
		d.live[token.Name] = map[*running]struct{}{}
	}
	r := &running{cancel, token.Place}
	d.live[token.Name][r] = struct{}{}
	return ctx, func() {
		stop()
		cancel(nil)
		d.mu.Lock()
		defer d.mu.Unlock()
		delete(d.live[token.Name], r)
		if len(d.live[token.Name]) == 0 {
			delete(d.live, token.Name)
		}
	}
}

// expiryLook is the interval of comparing a future date with the clock: a timer stands still while
// the machine is suspended, and does not notice a change of the clock.
const expiryLook = 15 * time.Second

// atExpiry calls f once the date has come, unless ctx has ended or stop was called.
func (d *Directory) atExpiry(ctx context.Context, at time.Time, f func()) (stop func()) {
	ctx, end := context.WithCancel(ctx)
	go func() {
		for {
			left := at.Sub(d.now().Round(0))
			if left <= 0 {
				f()
				return
			}
			timer := time.NewTimer(min(left, expiryLook))
			select {
			case <-timer.C:
			case <-ctx.Done():
				timer.Stop()
				return
			}
		}
	}()
	return end
}

// Create makes a token and returns its secret, once. Codes as of Register.
func (d *Directory) Create(ctx context.Context, actor broker.Actor, n NewToken) (broker.OperatorToken, Secret, error) {
	secret, err := NewSecret(d.rand)
	if err != nil {
		return broker.OperatorToken{}, "", err
	}
	token, err := d.Register(ctx, actor, n, secret)
	return token, secret, err
}

// Register creates a token from a secret of NewSecret, for callers that must store the secret
// before the token is valid. Codes: token_invalid, role_invalid and those of CreateOperatorToken.
func (d *Directory) Register(ctx context.Context, actor broker.Actor, n NewToken, secret Secret) (broker.OperatorToken, error) {
	if err := n.check(); err != nil {
		return broker.OperatorToken{}, err
	}
	if !secretForm.MatchString(secret.Reveal()) {
		return broker.OperatorToken{}, invalid("the token's secret is not valid")
	}
	now := d.now().UTC()
	token := broker.OperatorToken{
		Name: n.Name, Role: n.Role, Sites: n.Sites, Place: n.Place, MemberID: n.MemberID, CreatedAt: now, ExpiresAt: now.Add(n.TTL),
	}
	return token, d.db.CreateOperatorToken(ctx, actor, token, pki.HashToken(secret.Reveal()))
}

// Revoke ends a token and the requests made with it. Revoking a revoked token is no error. Code:
// token_not_found.
func (d *Directory) Revoke(ctx context.Context, actor broker.Actor, name, reason string) (broker.OperatorToken, error) {
	if err := d.db.RevokeOperatorToken(ctx, actor, name, reason); err != nil {
		return broker.OperatorToken{}, err
	}
	d.end(name) // here at once; elsewhere by the hint
	all, err := d.db.OperatorTokens(ctx)
	if err != nil {
		return broker.OperatorToken{}, err
	}
	for _, t := range all {
		if t.Name == name {
			return t, nil
		}
	}
	return broker.OperatorToken{}, errors.New("a revoked token is not listed")
}

// List returns all tokens, including revoked and expired tokens.
func (d *Directory) List(ctx context.Context) ([]broker.OperatorToken, error) {
	return d.db.OperatorTokens(ctx)
}

// unknown refuses an invalid token. A holder of a valid token at the same address as a guesser is
// not limited.
func (d *Directory) unknown(from netip.Addr, now time.Time) error {
	return d.stranger(from, now, broker.Errorf(broker.Unauthorized, "token_unknown",
		"cannot authenticate: this broker does not know the token (check whether it belongs to another broker)"))
}

// stranger returns the refusal of an invalid token, or that there were too many from an address.
func (d *Directory) stranger(from netip.Addr, now time.Time, refusal error) error {
	if wait := d.guess.take(strangers.SourceOf(from).String(), now); wait > 0 {
		return tooMany("with tokens that this broker does not know", wait)
	}
	return refusal
}

func tooMany(whose string, wait time.Duration) error {
	return broker.Errorf(broker.TooMany, "rate_limited", "cannot answer: too many requests %s (try again in %v)", whose,
		wait.Round(100*time.Millisecond))
}
