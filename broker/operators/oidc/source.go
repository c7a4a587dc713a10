package oidc

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"github.com/go-jose/go-jose/v4"
)

const (
	readWithin = 10 * time.Second // description and keys together
	maxAnswer  = 1 << 20          // bytes
	maxKeys    = 64
)

// description is what the provider publishes of itself.
type description struct {
	readAt    time.Time
	deviceURL string // empty: no sign-in by device code
	tokenURL  string
	keys      []jose.JSONWebKey
}

// fresh reports whether the description may be used. After a step of the clock back it may not.
func (d *description) fresh(now time.Time) bool {
	return d != nil && !now.Before(d.readAt) && now.Before(d.readAt.Add(maxAge))
}

// signer returns the public key that has signed a token; nil: none of these keys. A token without the id of
// a key may be of any key, and an id may be given to a new key: the signature alone decides.
func (d *description) signer(signed *jose.JSONWebSignature) crypto.PublicKey {
	id := signed.Signatures[0].Header.KeyID
	for _, k := range d.keys {
		if id != "" && k.KeyID != id {
			continue
		}
		if _, err := signed.Verify(k.Key); err == nil {
			return k.Key
		}
	}
	return nil
}

// newHTTP makes the client that reads the provider.
func newHTTP(ca []byte, now func() time.Time) *http.Client {
	config := &tls.Config{MinVersion: tls.VersionTLS12, Time: now}
	if len(ca) > 0 {
		config.RootCAs = x509.NewCertPool()
		config.RootCAs.AppendCertsFromPEM(ca)
	}
	return &http.Client{
		Timeout: readWithin,
		Transport: bounded{&http.Transport{
			Proxy: http.ProxyFromEnvironment, DialContext: (&net.Dialer{Timeout: readWithin / 2}).DialContext,
			TLSClientConfig: config, ForceAttemptHTTP2: true, TLSHandshakeTimeout: readWithin / 2,
			MaxConnsPerHost: 2, IdleConnTimeout: 30 * time.Second, MaxResponseHeaderBytes: 64 << 10,
		}},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// bounded sends requests over https alone, and ends an answer that is too long.
type bounded struct{ *http.Transport }

// RoundTrip implements http.RoundTripper.
func (b bounded) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Scheme != "https" {
		return nil, errors.New("the provider names an address without https")
	}
	res, err := b.Transport.RoundTrip(r)
	if err == nil {
		res.Body = http.MaxBytesReader(nil, res.Body, maxAnswer)
	}
	return res, err
}

// read reads the provider's description and keys.
func read(ctx context.Context, client *http.Client, issuer string) (*description, error) {
	found, err := oidc.NewProvider(oidc.ClientContext(ctx, client), issuer)
	if err != nil {
		return nil, err
	}
	var at struct {
		Keys string `json:"jwks_uri"`
	}
	if err := found.Claims(&at); err != nil {
		return nil, err
	}
	d := &description{deviceURL: found.Endpoint().DeviceAuthURL, tokenURL: found.Endpoint().TokenURL}
	d.keys, err = readKeys(ctx, client, at.Keys)
	return d, err
}

func readKeys(ctx context.Context, client *http.Client, from string) ([]jose.JSONWebKey, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, from, nil)
	if err != nil {
		return nil, err
	}
	res, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	defer func() { _ = res.Body.Close() }()
	if res.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("its keys: %s", res.Status)
	}
	raw, err := io.ReadAll(res.Body)
	if err != nil {
		return nil, err
	}
	return parseKeys(raw)
}

// parseKeys returns the public keys of a key set that can sign. A key of a kind that this program
// does not know is left out. A set of which no key is left is no answer: the keys from before serve.
func parseKeys(raw []byte) ([]jose.JSONWebKey, error) {
	var set struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if err := json.Unmarshal(raw, &set); err != nil {
		return nil, fmt.Errorf("its keys: %v", err)
	}
	if len(set.Keys) > maxKeys {
		return nil, fmt.Errorf("it has %d keys, at most %d", len(set.Keys), maxKeys)
	}
	var keys []jose.JSONWebKey
	for _, one := range set.Keys {
		var k jose.JSONWebKey
		if json.Unmarshal(one, &k) == nil && (k.Use == "" || k.Use == "sig") && verifies(k.Key) {
			keys = append(keys, k)
		}
	}
	if len(keys) == 0 {
		return nil, fmt.Errorf("none of its %d keys can be used", len(set.Keys))
	}
	return slices.Clip(keys), nil
}

func verifies(key any) bool {
	switch k := key.(type) {
	case *rsa.PublicKey:
		return k.N.BitLen() >= 2048
	case *ecdsa.PublicKey, ed25519.PublicKey:
		return true
	}
	return false
}
