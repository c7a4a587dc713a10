package registry

import (
	"encoding/base64"
	"net/url"
	"regexp"
	"strings"
)

// layers is how many encodings, one in another, a token is looked through.
const layers = 3

var base64Run = regexp.MustCompile(`[A-Za-z0-9+/_-]{2,}`)

// in reports whether a token has the password in it: there are services that answer with
// what they were shown, as it is or encoded once more.
func (l *login) in(token string) bool {
	return holds(token, []string{l.Password, url.QueryEscape(l.Password), url.PathEscape(l.Password)}, layers)
}

func holds(text string, words []string, layers int) bool {
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
		for at := range min(4, len(run)) { // whatever is before it, such as v1_
			rest := run[at:]
			if len(rest)%4 == 1 {
				rest = rest[:len(rest)-1]
			}
			if raw, err := base64.RawStdEncoding.DecodeString(rest); err == nil && holds(string(raw), words, layers-1) {
				return true
			}
		}
	}
	return false
}
