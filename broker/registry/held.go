package registry

import (
	"encoding/base64"
	"net/url"
	"strings"

	"github.com/hostler/hostler/taskcatalog/lazyregexp"
)

// layers is the number of nested encodings in which a token is searched.
const layers = 3

var base64Run = lazyregexp.New(`[A-Za-z0-9+/_-]{2,}`)

// leaksIn reports whether a token contains the password: some services return the login, unchanged
// or encoded.
func (l *login) leaksIn(token string) bool {
	return contains(token, []string{l.Password, url.QueryEscape(l.Password), url.PathEscape(l.Password)}, layers)
}

func contains(text string, words []string, layers int) bool {
	for _, word := range words {
		if strings.Contains(text, word) {
			return true
		}
	}
	if layers == 1 {
		return false
	}
	for _, run := range base64Run.FindAllString(text, -1) {
		run = strings.NewReplacer("-", "+", "_", "/").Replace(run)
		for at := range min(4, len(run)) { // whatever prefix precedes it, such as v1_
			rest := run[at:]
			if len(rest)%4 == 1 {
				rest = rest[:len(rest)-1]
			}
			if raw, err := base64.RawStdEncoding.DecodeString(rest); err == nil && contains(string(raw), words, layers-1) {
				return true
			}
		}
	}
	return false
}
