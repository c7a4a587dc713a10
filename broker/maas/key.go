package maas

import (
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/taskcatalog/lazyregexp"
)

// Key is an API key of MAAS. No print shows it, even as a part of another value: package fmt calls
// no method of a nested value, and shows a pointer's address.
type Key struct{ parts *keyParts }

type keyParts struct{ consumer, token, secret string }

var keyForm = lazyregexp.New(`^[A-Za-z0-9]{1,64}:[A-Za-z0-9]{1,64}:[A-Za-z0-9]{1,128}$`)

// ParseKey reads consumer_key:token_key:token_secret. The error repeats no part of the text. Code:
// maas_token_invalid.
func ParseKey(text string) (Key, error) {
	text = strings.TrimSpace(text)
	if !keyForm.MatchString(text) {
		return Key{}, broker.Errorf(broker.Invalid, "maas_token_invalid",
			"cannot use the MAAS token: its form is not consumer_key:token_key:token_secret (as MAAS shows it under API keys)")
	}
	part := strings.Split(text, ":")
	return Key{&keyParts{part[0], part[1], part[2]}}, nil
}

// text is the key as MAAS writes it, for the secrets alone.
func (k Key) text() string { return k.parts.consumer + ":" + k.parts.token + ":" + k.parts.secret }

func (k Key) equal(other Key) bool { return *k.parts == *other.parts }

const hidden = "[MAAS key]"

// Format keeps the key out of printed text.
func (k Key) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, hidden) }

// MarshalJSON keeps the key out of JSON.
func (k Key) MarshalJSON() ([]byte, error) { return json.Marshal(hidden) }

// MarshalText keeps the key out of every other encoding.
func (k Key) MarshalText() ([]byte, error) { return []byte(hidden), nil }

// sign is OAuth 1.0a PLAINTEXT as MAAS accepts it: the consumer's secret is empty. A nonce is used
// once.
func (k Key) sign(now time.Time, nonce string) string {
	pairs := []string{`OAuth realm="MAAS API"`}
	for _, p := range [][2]string{
		{"oauth_consumer_key", k.parts.consumer},
		{"oauth_token", k.parts.token},
		{"oauth_signature_method", "PLAINTEXT"},
		{"oauth_signature", "&" + k.parts.secret},
		{"oauth_timestamp", strconv.FormatInt(now.Unix(), 10)},
		{"oauth_nonce", nonce},
		{"oauth_version", "1.0"},
	} {
		pairs = append(pairs, p[0]+`="`+url.QueryEscape(p[1])+`"`)
	}
	return strings.Join(pairs, ", ")
}
