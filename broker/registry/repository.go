package registry

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/go-json-experiment/json"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/taskcatalog/lazyregexp"
)

const (
	maxHops       = 3 // from a registry to the place of a blob
	manifestTypes = ocispec.MediaTypeImageManifest + ", " + ocispec.MediaTypeImageIndex + ", application/vnd.docker.distribution.manifest.v2+json"
)

var repositoryForm = lazyregexp.New(`^[a-z0-9]+([._-]+[a-z0-9]+)*(/[a-z0-9]+([._-]+[a-z0-9]+)*)*$`)

// Repository is a repository that the broker itself reads: the signatures of artifacts.
type Repository struct {
	client      *Client
	record      broker.RegistryCredential // without an account: the registry's name alone
	name, token string
}

// Open opens a repository (REGISTRY/REPOSITORY) over TLS: with a token of the registry's account if one
// is set, and else as anybody may. Codes: registry_plain_http, registry_unreachable,
// registry_realm_refused, registry_answer_invalid, those of Client.pull and of the account.
func (p *Pulls) Open(ctx context.Context, reference string) (*Repository, error) {
	host, name := broker.RegistryOf(reference, false)
	r := &Repository{client: p.Client, name: name, record: broker.RegistryCredential{Registry: host}}
	if u, err := url.Parse(r.record.Base()); err != nil || u.Host == "" || u.User != nil || !repositoryForm.MatchString(name) {
		return nil, r.fault(broker.Invalid, "registry_answer_invalid", "the source is not REGISTRY/REPOSITORY")
	}
	record, err := p.Records.RegistryCredential(ctx, host)
	switch {
	case err != nil && broker.AsError(err).Kind == broker.NotFound:
		r.token, err = r.anybody(ctx)
		return r, err
	case err != nil:
		return nil, err
	case record.PlainHTTP:
		return nil, r.fault(broker.Refused, "registry_plain_http", "its credential is for plain HTTP, and signatures are read over TLS")
	}
	account, err := accountOf(ctx, p.Secrets, record)
	if err != nil {
		return nil, err
	}
	made, err := p.Client.pull(ctx, record, account, name)
	if err != nil {
		return nil, err
	}
	r.record, r.token = record, made.text
	return r, nil
}

func (r *Repository) fault(kind broker.Kind, code, why string) error {
	return broker.Errorf(kind, code, "cannot read signatures in registry %s: %s", r.record.Registry, why)
}

// anybody gets the token that a registry gives everybody; empty: it asks for none.
func (r *Repository) anybody(ctx context.Context) (string, error) {
	res, _, err := r.client.get(ctx, r.record.Base()+"/v2/", nil)
	if err != nil {
		return "", r.fault(broker.Unavailable, "registry_unreachable", "the registry "+cause(err))
	}
	names, asks := bearerIn(res.Header.Values("WWW-Authenticate"))
	if res.StatusCode == http.StatusOK {
		return "", nil
	}
	if res.StatusCode != http.StatusUnauthorized || !asks {
		return "", r.status(res.StatusCode)
	}
	at, why := names.address(false, r.name)
	if why != "" {
		return "", r.fault(broker.Refused, "registry_realm_refused", why)
	}
	res, raw, err := r.client.get(ctx, at.String(), nil)
	switch {
	case err != nil:
		return "", r.fault(broker.Unavailable, "registry_unreachable", "the registry's token service "+cause(err))
	case res.StatusCode != http.StatusOK:
		return "", r.status(res.StatusCode)
	}
	var said struct {
		Token       string `json:"token"`
		AccessToken string `json:"access_token"`
	}
	if json.Unmarshal(raw, &said) != nil {
		return "", r.fault(broker.Refused, "registry_answer_invalid", "its token service's answer is not a token")
	}
	if said.Token == "" {
		said.Token = said.AccessToken
	}
	if len(said.Token) > maxToken || !tokenForm.MatchString(said.Token) {
		return "", r.fault(broker.Refused, "registry_answer_invalid", "its token service answers without a token")
	}
	return said.Token, nil
}

// status is the error for an answer with another status than expected.
func (r *Repository) status(code int) error {
	switch {
	case code == http.StatusUnauthorized || code == http.StatusForbidden:
		return r.fault(broker.Refused, "registry_pull_refused",
			"it permits no pull of "+r.name+" (set an account that may pull: hostler help registry-credential set)")
	case code >= 500 || code == http.StatusTooManyRequests:
		return r.fault(broker.Unavailable, "registry_unreachable", fmt.Sprintf("it answers with status %d", code))
	}
	return r.fault(broker.Refused, "registry_answer_invalid", fmt.Sprintf("it answers with status %d", code))
}

// Get reads a part: kind is manifests, blobs or referrers. ok is false if there is none, if it has more
// bytes than most, or another digest than the reference. Codes: registry_unreachable,
// registry_pull_refused, registry_answer_invalid.
func (r *Repository) Get(ctx context.Context, kind, reference string, most int64) (raw []byte, ok bool, err error) {
	res, err := r.ask(ctx, kind, reference)
	if err != nil {
		return nil, false, r.fault(broker.Unavailable, "registry_unreachable", "it "+cause(err))
	}
	defer func() { _ = res.Body.Close() }()
	switch code := res.StatusCode; {
	case code == http.StatusNotFound:
		return nil, false, nil
	case kind == "referrers" && (code == http.StatusBadRequest || code == http.StatusMethodNotAllowed || code == http.StatusNotImplemented):
		return nil, false, nil // a registry without referrers
	case code != http.StatusOK:
		return nil, false, r.status(code)
	}
	if raw, err = io.ReadAll(io.LimitReader(res.Body, most+1)); err != nil {
		return nil, false, r.fault(broker.Unavailable, "registry_unreachable", "it "+cause(err))
	}
	sum := sha256.Sum256(raw)
	if int64(len(raw)) > most || kind != "referrers" && strings.HasPrefix(reference, "sha256:") && reference[7:] != hex.EncodeToString(sum[:]) {
		return nil, false, nil
	}
	return raw, true, nil
}

// ask sends a request. A redirect is followed without the token, and only to the place of a blob.
func (r *Repository) ask(ctx context.Context, kind, reference string) (*http.Response, error) {
	at, by := r.record.Base()+"/v2/"+r.name+"/"+kind+"/"+url.PathEscape(reference), r.client.http
	for hop := 0; ; hop++ {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, at, nil)
		if err != nil {
			return nil, err
		}
		req.Header.Set("User-Agent", "hostler-broker")
		if hop == 0 && r.token != "" {
			req.Header.Set("Authorization", "Bearer "+r.token)
		}
		if kind == "manifests" {
			req.Header.Set("Accept", manifestTypes)
		}
		res, err := by.Do(req)
		if err != nil || res.StatusCode < 300 || res.StatusCode >= 400 || kind != "blobs" || hop == maxHops {
			return res, err
		}
		next, err := res.Location()
		_ = res.Body.Close()
		if err != nil || next.Scheme != "https" || next.User != nil {
			return nil, errRedirect
		}
		at, by = next.String(), r.client.away
	}
}
