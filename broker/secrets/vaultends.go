package secrets

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/hostler/hostler/broker"
)

// longestNotice bounds Login.Soon.
const longestNotice = 7 * 24 * time.Hour

// Login says how long a keeper will accept the broker's login.
type Login struct {
	Ends time.Time // zero: never, or the broker renews the login itself
	// Soon is the time before Ends at which somebody should have replaced the login: a fifth of its
	// life, so that an hourly renewed token causes no warning.
	Soon time.Duration
}

// Login asks Vault when the broker's login ends. For an AppRole, which gives the broker new tokens
// as needed, Login only checks that the broker can log in. The secret id of an AppRole has an end
// that Vault does not show to its user. Codes: secrets_login_failed, secrets_unavailable.
func (v *Vault) Login(ctx context.Context) (Login, error) {
	token, err := v.login.token(ctx)
	if err != nil {
		return Login{}, v.noLogin(ctx, err)
	}
	if _, file := v.login.(tokenFile); !file {
		return Login{}, nil
	}
	var got struct {
		Data struct {
			TTL      int64 `json:"ttl"`          // seconds; 0: no end
			Lifetime int64 `json:"creation_ttl"` // seconds
		} `json:"data"`
	}
	asked := v.now()
	switch err := v.wire.send(ctx, token, request{http.MethodGet, "auth/token/lookup-self", nil}, &got); {
	case isStatus(err, http.StatusForbidden):
		return Login{}, v.noLogin(ctx, &loginRefused{"Vault refuses the token in vault.token_file (put another token there)"})
	case err != nil:
		return Login{}, v.noLogin(ctx, err)
	case got.Data.TTL <= 0:
		return Login{}, nil
	}
	const most = 10 * 365 * 24 * 3600
	lifetime := time.Duration(min(max(got.Data.Lifetime, got.Data.TTL), most)) * time.Second
	return Login{
		Ends: asked.Add(time.Duration(min(got.Data.TTL, most)) * time.Second),
		Soon: min(lifetime/5, longestNotice),
	}, nil
}

// noLogin returns the reason, without anything that was sent or received.
func (v *Vault) noLogin(ctx context.Context, err error) error {
	if errors.Is(ctx.Err(), context.Canceled) {
		return ctx.Err()
	}
	code, why := "secrets_unavailable", plainCause(err)
	var refused *loginRefused
	var answer *status
	switch {
	case errors.As(err, &refused):
		code, why = "secrets_login_failed", refused.why
	case errors.As(err, &answer):
		why = answer.meaning()
	}
	return broker.Errorf(broker.Unavailable, code, "cannot determine when the login to Vault at %s expires: %s", v.wire.base.Host, why)
}
