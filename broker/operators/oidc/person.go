package oidc

import (
	"crypto/sha256"
	"encoding/base64"
	"slices"
	"strings"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"github.com/go-jose/go-jose/v4"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/taskcatalog"
	"github.com/hostler/hostler/taskcatalog/lazyregexp"
)

// Person is the subject of a valid ID token.
type Person struct {
	Name    string // see nameOf
	Email   string // verified by the provider; empty: none
	Issued  time.Time
	Expires time.Time

	claims map[string]any
}

const (
	maxSubject = 255 // of the standard
	hashed     = "sha256."
)

// plainSubject is a subject that can be part of a name as it is.
var plainSubject = lazyregexp.New(`^[A-Za-z0-9._@|=+-]{1,59}$`)

// nameOf returns the name of a subject, as the audit log and the members have it. Two subjects never
// have one name: a subject that is long or has other characters is named by its SHA-256.
func nameOf(subject string) string {
	if plainSubject.MatchString(subject) && !strings.HasPrefix(subject, hashed) {
		return broker.SignedInPrefix + subject
	}
	sum := sha256.Sum256([]byte(subject))
	return broker.SignedInPrefix + hashed + base64.RawURLEncoding.EncodeToString(sum[:])
}

// person checks what the library leaves to its caller. A token for several clients counts only if it
// was given to this one.
func (p *Provider) person(t *oidc.IDToken) (Person, error) {
	out := Person{Name: nameOf(t.Subject), Issued: t.IssuedAt, Expires: t.Expiry}
	if t.Claims(&out.claims) != nil || twofold(out.claims) || !ofSignIn(out.claims) {
		return Person{}, p.invalid()
	}
	party, now := out.claims["azp"], p.now()
	switch {
	case t.Subject == "", len(t.Subject) > maxSubject,
		party == nil && len(t.Audience) > 1, party != nil && party != p.config.ClientID,
		t.IssuedAt.IsZero(), t.IssuedAt.Unix() <= 0, t.IssuedAt.After(now.Add(skew)):
		return Person{}, p.invalid()
	}
	if most := t.IssuedAt.Add(maxLife); most.Before(out.Expires) {
		out.Expires = most
	}
	if !now.Before(out.Expires) {
		return Person{}, expired(out.Expires)
	}
	if emailVerified(out.claims) {
		email, _ := out.claims["email"].(string)
		out.Email = taskcatalog.Clean(email, 254)
	}
	return out, nil
}

// judged are the claims that decide whether a token counts, and for whom.
var judged = []string{"iss", "sub", "aud", "azp", "exp", "iat", "nbf", "email"}

// twofold reports whether a claim is written like one of the judged but for its case. The library
// reads claims without regard to case: such a claim takes the place of the true one there.
func twofold(claims map[string]any) bool {
	for name := range claims {
		if slices.ContainsFunc(judged, func(j string) bool { return name != j && strings.EqualFold(name, j) }) {
			return true
		}
	}
	return false
}

// ofIDToken reports whether a header may be of an ID token. Access tokens and logout tokens are signed
// with the same keys, and name their own kind.
func ofIDToken(h jose.Header) bool {
	kind, there := h.ExtraHeaders[jose.HeaderType]
	name, _ := kind.(string)
	return !there || strings.EqualFold(name, "JWT")
}

// ofSignIn reports whether claims may be of an ID token: a logout token has events, and some providers
// write a token's kind among the claims.
func ofSignIn(claims map[string]any) bool {
	_, event := claims["events"]
	kind, named := claims["typ"].(string)
	return !event && (!named || slices.Contains([]string{"", "ID", "JWT"}, kind))
}

// emailVerified reads the claim of this name, which some providers write as text.
func emailVerified(claims map[string]any) bool {
	return claims["email_verified"] == true || claims["email_verified"] == "true"
}

// Has reports whether a claim has a value: the claim is the text, is a list with the text, or is an
// object with a member of that name that is neither false nor null. A claim within objects is written with dots, such as
// realm_access.roles. An email address counts only if the provider has verified it.
func (p Person) Has(claim, value string) bool {
	if claim == "email" && !emailVerified(p.claims) {
		return false
	}
	return contains(find(p.claims, claim), value)
}

// find looks a claim up: first under its whole name, because names may have dots.
func find(in map[string]any, claim string) any {
	if v, there := in[claim]; there {
		return v
	}
	for i, r := range claim {
		if r != '.' {
			continue
		}
		if inner, ok := in[claim[:i]].(map[string]any); ok {
			if v := find(inner, claim[i+1:]); v != nil {
				return v
			}
		}
	}
	return nil
}

func contains(claim any, value string) bool {
	switch v := claim.(type) {
	case string:
		return v == value
	case bool:
		return v && value == "true"
	case []any:
		for _, one := range v {
			if one == value {
				return true
			}
		}
	case map[string]any:
		is, there := v[value]
		return there && is != nil && is != false
	}
	return false
}
