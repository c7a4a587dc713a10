package signin

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"time"

	"golang.org/x/oauth2"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/clientfile"
	"github.com/hostler/hostler/taskcatalog"
)

// askLimit is the limit of one request to the provider.
const askLimit = 15 * time.Second

// Attempt is a sign-in that waits for a person to enter a code.
type Attempt struct {
	URL      string // that the person opens
	Code     string // that the person enters there
	Complete string // the URL with the code in it; empty: the provider has none
	Until    time.Time

	at     api.SignIn
	config oauth2.Config
	device *oauth2.DeviceAuthResponse
	client *http.Client
}

// Begin asks the provider for a code. Codes: sign_in_refused, sign_in_unavailable.
func Begin(ctx context.Context, at api.SignIn) (*Attempt, error) {
	a := &Attempt{at: at, config: configOf(at.ClientID, at.TokenEndpoint, at.Scopes)}
	a.config.Endpoint.DeviceAuthURL = at.DeviceAuthorizationEndpoint
	for _, u := range []string{at.TokenEndpoint, at.DeviceAuthorizationEndpoint} {
		if !isHTTPS(u) {
			return nil, misbehaves("its address is no https://HOST")
		}
	}
	var err error
	if a.client, err = newHTTP(at.CA); err != nil {
		return nil, err
	}
	if a.device, err = a.config.DeviceAuth(context.WithValue(ctx, oauth2.HTTPClient, a.client)); err != nil {
		return nil, inWords(ctx, err)
	}
	a.URL, a.Code, a.Complete, a.Until = a.device.VerificationURI, a.device.UserCode, a.device.VerificationURIComplete, a.device.Expiry
	if !isHTTPS(a.Complete) {
		a.Complete = ""
	}
	if !isHTTPS(a.URL) || a.Code == "" || taskcatalog.Clean(a.URL+a.Code+a.Complete, 3000) != a.URL+a.Code+a.Complete {
		return nil, misbehaves("it gives no code, or an address that is no https://HOST")
	}
	return a, nil
}

// Wait waits until the person has entered the code. Codes: sign_in_refused, sign_in_unavailable.
func (a *Attempt) Wait(ctx context.Context) (*clientfile.SignIn, error) {
	token, err := a.config.DeviceAccessToken(context.WithValue(ctx, oauth2.HTTPClient, a.client), a.device)
	if err != nil {
		return nil, inWords(ctx, err)
	}
	s := &clientfile.SignIn{ClientID: a.at.ClientID, Scopes: a.at.Scopes, TokenEndpoint: a.at.TokenEndpoint, CA: a.at.CA}
	return s, take(s, token)
}

// take puts the tokens of an answer into a sign-in. The refresh token counts even if no ID token came: the
// provider may have forgotten the one before.
func take(s *clientfile.SignIn, token *oauth2.Token) error {
	s.RefreshToken = token.RefreshToken
	id, _ := token.Extra("id_token").(string)
	if expiryOf(id).IsZero() {
		return misbehaves("it gives no ID token (the client there must have the scope openid)")
	}
	s.IDToken = id
	return nil
}

func configOf(clientID, tokenURL string, scopes []string) oauth2.Config {
	at := oauth2.Endpoint{TokenURL: tokenURL, AuthStyle: oauth2.AuthStyleInParams}
	return oauth2.Config{ClientID: clientID, Scopes: scopes, Endpoint: at}
}

func newHTTP(ca string) (*http.Client, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if ca != "" {
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM([]byte(ca)) {
			return nil, misbehaves("the broker names roots of it that are no certificates")
		}
	}
	return &http.Client{
		Timeout:       askLimit,
		Transport:     &http.Transport{Proxy: http.ProxyFromEnvironment, TLSClientConfig: config, ForceAttemptHTTP2: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}, nil
}

func isHTTPS(address string) bool {
	u, err := url.Parse(address)
	return err == nil && u.Scheme == "https" && u.Host != "" && u.User == nil
}

// expiryOf reads the end of an ID token, which the broker verifies; zero: it is no ID token.
func expiryOf(id string) time.Time {
	parts := strings.Split(id, ".")
	if len(parts) != 3 {
		return time.Time{}
	}
	raw, err := base64.RawURLEncoding.DecodeString(parts[1])
	var claims struct {
		Exp float64 `json:"exp"`
	}
	if err != nil || json.Unmarshal(raw, &claims) != nil || claims.Exp <= 0 {
		return time.Time{}
	}
	return time.Unix(int64(claims.Exp), 0)
}

// inWords turns an error of the provider or of the way there into one for a person. What the provider
// writes beside its code may be anything, and is left out.
func inWords(ctx context.Context, err error) error {
	if errors.Is(ctx.Err(), context.Canceled) {
		return ctx.Err()
	}
	refused := func(what string) error {
		return broker.Errorf(broker.Unauthorized, "sign_in_refused", "cannot sign in: %s", what)
	}
	answer, answered := errors.AsType[*oauth2.RetrieveError](err)
	switch {
	case errors.Is(err, context.DeadlineExceeded) && !answered:
		return refused("nobody entered the code in time (try again)")
	case !answered:
		return unavailable(taskcatalog.Clean(err.Error(), 300))
	case answer.Response.StatusCode >= http.StatusInternalServerError || answer.Response.StatusCode == http.StatusTooManyRequests:
		return unavailable("HTTP " + answer.Response.Status)
	}
	switch answer.ErrorCode {
	case "access_denied":
		return refused("the sign-in was refused at the provider")
	case "expired_token":
		return refused("nobody entered the code in time (try again)")
	case "invalid_grant":
		return refused("the sign-in has ended at the provider (sign in again: hostler login --oidc)")
	case "invalid_client", "unauthorized_client", "unsupported_grant_type":
		return refused("the provider does not let this client sign in by a code: " + answer.ErrorCode +
			" (ask a platform admin: the client needs the device authorization grant, and no secret)")
	case "invalid_scope":
		return refused("the provider does not know a scope (ask a platform admin: oidc.scopes of the broker's config)")
	}
	return refused("the provider answers " + taskcatalog.Clean(answer.ErrorCode, 64) + ", HTTP " + answer.Response.Status)
}

func unavailable(why string) error {
	return broker.Errorf(broker.Unavailable, "sign_in_unavailable", "cannot sign in: the provider does not answer: %s (try again)", why)
}

func misbehaves(how string) error {
	return broker.Errorf(broker.Unavailable, "sign_in_unavailable", "cannot sign in: the provider is not as expected: %s", how)
}
