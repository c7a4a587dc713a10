package bodies

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"unicode/utf8"

	"github.com/hostler/hostler/taskcatalog"
	"github.com/hostler/hostler/taskcatalog/wire"
)

// CodeNotText is the code of a request whose path, query or headers are not text.
const CodeNotText taskcatalog.Code = "request_not_text"

// OnlyText refuses, with 400, a request with a NUL or invalid UTF-8 in its path, query or headers,
// and a request with a query that cannot be parsed. PostgreSQL cannot store such text, but SQLite
// can. net/http ignores a query parameter that it cannot parse, so an intended filter would have no
// effect. Bodies are checked where they are decoded.
func OnlyText(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		what := notText(r)
		if what == "" {
			next.ServeHTTP(w, r)
			return
		}
		refuse(w, http.StatusBadRequest, CodeNotText, "cannot answer the request: "+what+
			" is not text (send UTF-8 without a zero byte, and percent-encode what the URL reserves)")
	})
}

// refuse answers with a problem.
func refuse(w http.ResponseWriter, status int, code taskcatalog.Code, detail string) {
	h := w.Header()
	h.Set("Content-Type", "application/problem+json")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	// An error means that the client has left.
	_ = json.NewEncoder(w).Encode(wire.Problem{Title: http.StatusText(status), Status: status, Code: code, Detail: detail})
}

// notText names the part of a request that is not text; empty: the whole request is text.
func notText(r *http.Request) string {
	if !isText(r.URL.Path) {
		return "its path"
	}
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil || !areText(query) {
		return "its query"
	}
	if !areText(r.Header) {
		return "one of its headers"
	}
	return ""
}

func areText(named map[string][]string) bool {
	for name, values := range named {
		if !isText(name) {
			return false
		}
		for _, v := range values {
			if !isText(v) {
				return false
			}
		}
	}
	return true
}

func isText(s string) bool { return utf8.ValidString(s) && strings.IndexByte(s, 0) < 0 }
