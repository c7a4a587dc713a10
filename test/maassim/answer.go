package maassim

import (
	"encoding/json"
	"fmt"
	"net/http"
)

// answer is what a call ends with.
type answer struct {
	code   int
	ctype  string
	header http.Header
	body   []byte
}

const (
	textPlain = "text/plain"
	textHTML  = "text/html; charset=utf-8"
	jsonType  = "application/json; charset=utf-8"
)

// ok is 200 with a JSON body.
func ok(body any) answer {
	raw, err := json.Marshal(body)
	if err != nil {
		panic(fmt.Sprintf("cannot encode %T: %v", body, err))
	}
	return answer{code: http.StatusOK, ctype: jsonType, body: raw}
}

// text is an answer in plain words.
func text(code int, format string, args ...any) answer {
	return answer{code: code, ctype: textPlain, body: fmt.Appendf(nil, format, args...)}
}

func conflict(format string, args ...any) answer {
	return text(http.StatusConflict, format, args...)
}

// invalid is what a form's validation answers; field __all__ is the whole form's.
func invalid(field string, messages ...string) answer {
	a := ok(map[string][]string{field: messages})
	a.code, a.ctype = http.StatusBadRequest, "application/json"
	return a
}

// forbidden has an empty body, as MAAS answers where permission is lacking.
func forbidden() answer { return text(http.StatusForbidden, "") }

// retryAfter is a text with that header.
func retryAfter(code, seconds int, message string) answer {
	a := text(code, "%s", message)
	a.header = http.Header{"Retry-After": {fmt.Sprint(seconds)}}
	return a
}

// refusedKey is the answer to a request that is signed badly.
func refusedKey(why string) *answer {
	return &answer{
		code: http.StatusUnauthorized, ctype: textHTML, body: []byte("Authorization Error: " + why),
		header: http.Header{"Www-Authenticate": {`OAuth realm="OAuth"`}},
	}
}

// write sends the answer, dated by the clock that timestamps are held against.
func (a *answer) write(w http.ResponseWriter, r *Region) {
	for name, values := range a.header {
		w.Header()[name] = values
	}
	w.Header().Set("Content-Type", a.ctype)
	w.Header().Set("Date", r.OAuthNow().UTC().Format(http.TimeFormat))
	w.Header().Set("Vary", "Authorization, Cookie")
	w.WriteHeader(a.code)
	_, _ = w.Write(a.body) // whoever hung up has no use for it
}
