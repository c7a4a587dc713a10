package maassim

import (
	"crypto/subtle"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// user is an account that may call the API. A machine's token belongs to no user.
type user struct {
	name      string
	superuser bool
	inactive  bool
	token     token
	revoked   bool
}

// token is a caller's OAuth credentials.
type token struct{ consumer, key, secret string }

func (r *Region) newToken() token {
	const of = "abcdefghkmnpqrstuvwxyzABCDEFGHJKLMNPQRSTUVWXYZ23456789"
	return token{r.letters(of, 18), r.letters(of, 18), r.letters(of, 32)}
}

func (t token) apiKey() string { return t.consumer + ":" + t.key + ":" + t.secret }

func (r *Region) addUser(name string, superuser bool) *user {
	u := &user{name: name, superuser: superuser, token: r.newToken()}
	r.users = append(r.users, u)
	return u
}

// APIKey returns the key of the administrator, named admin, of every region.
func (r *Region) APIKey() string {
	defer r.enter()()
	return r.users[0].token.apiKey()
}

// AddUser adds a user and returns the user's API key.
func (r *Region) AddUser(name string, superuser bool) (apiKey string) {
	defer r.enter()()
	return r.addUser(name, superuser).token.apiKey()
}

// RevokeKeys invalidates a user's keys, as deleting them in the UI does.
func (r *Region) RevokeKeys(name string) {
	defer r.enter()()
	for _, u := range r.users {
		u.revoked = u.revoked || u.name == name
	}
}

// SetActive activates or deactivates a user; the keys stay unchanged.
func (r *Region) SetActive(name string, active bool) {
	defer r.enter()()
	for _, u := range r.users {
		if u.name == name {
			u.inactive = !active
		}
	}
}

// RenewKeys gives a user a new API key.
func (r *Region) RenewKeys(name string) (apiKey string) {
	defer r.enter()()
	for _, u := range r.users {
		if u.name == name {
			u.token, u.revoked = r.newToken(), false
			return u.token.apiKey()
		}
	}
	return ""
}

// skewAllowed is the maximum age of a request's timestamp. A timestamp in the future passes.
const skewAllowed = 300 * time.Second

// authenticate returns the user or the machine that signed a request. A request without a readable
// Authorization header yields neither a signer nor a refusal.
func (r *Region) authenticate(req *http.Request) (*user, *machine, *answer) {
	fields, ok := oauthFields(req.Header.Get("Authorization"))
	if !ok {
		return nil, nil, nil
	}
	key := fields["oauth_token"]
	i := slices.IndexFunc(r.users, func(u *user) bool { return u.token.key == key && !u.revoked })
	j := -1
	if i < 0 {
		j = slices.IndexFunc(r.machines, func(m *machine) bool { return m.token != nil && m.token.key == key })
	}
	var t token
	switch {
	case i >= 0:
		t = r.users[i].token
	case j >= 0:
		t = *r.machines[j].token
	}
	if t.key == "" || t.consumer != fields["oauth_consumer_key"] {
		return nil, nil, refusedKey("Invalid API key.")
	}
	signature := "&" + t.secret
	if fields["oauth_signature_method"] != "PLAINTEXT" ||
		subtle.ConstantTimeCompare([]byte(signature), []byte(fields["oauth_signature"])) != 1 {
		return nil, nil, refusedKey(fmt.Sprintf("'Invalid signature. Expected signature base string: %s'", signature))
	}
	now, stamp := r.OAuthNow(), fields["oauth_timestamp"]
	given, err := strconv.ParseInt(stamp, 10, 64)
	if err != nil {
		return nil, nil, refusedKey("'Invalid timestamp value.'")
	}
	if now.Sub(time.Unix(given, 0)) > skewAllowed {
		return nil, nil, expired(given, now)
	}
	nonce := t.consumer + " " + t.key + " " + fields["oauth_nonce"]
	if _, used := r.nonces[nonce]; used {
		return nil, nil, refusedKey(fmt.Sprintf("'Nonce already used: %s'", fields["oauth_nonce"]))
	}
	r.forgetNonces(now)
	r.nonces[nonce] = now
	if j >= 0 {
		return nil, r.machines[j], nil
	}
	return r.users[i], nil, nil
}

func expired(given int64, now time.Time) *answer {
	return refusedKey(fmt.Sprintf("'Expired timestamp: given %d and now %d has a greater difference than threshold %d'",
		given, now.Unix(), int(skewAllowed.Seconds())))
}

// forgetNonces drops nonces older than skewAllowed, whose timestamps would be refused anyway. It
// scans only when the number of nonces has doubled since the last scan.
func (r *Region) forgetNonces(now time.Time) {
	if len(r.nonces) < max(1<<14, 2*r.noncesLeft) {
		return
	}
	defer func() { r.noncesLeft = len(r.nonces) }()
	for n, at := range r.nonces {
		if now.Sub(at) > skewAllowed {
			delete(r.nonces, n)
		}
	}
}

// oauthFields parses an OAuth Authorization header.
func oauthFields(header string) (map[string]string, bool) {
	rest, ok := strings.CutPrefix(header, "OAuth ")
	if !ok {
		return nil, false
	}
	fields := map[string]string{}
	for part := range strings.SplitSeq(rest, ",") {
		name, value, ok := strings.Cut(strings.TrimSpace(part), "=")
		if !ok {
			return nil, false
		}
		value, err := url.QueryUnescape(strings.Trim(value, `"`))
		if err != nil {
			return nil, false
		}
		fields[name] = value
	}
	for _, name := range []string{
		"oauth_consumer_key", "oauth_token", "oauth_signature", "oauth_signature_method", "oauth_timestamp",
		"oauth_nonce",
	} {
		if fields[name] == "" {
			return nil, false
		}
	}
	return fields, true
}
