package maassim

import (
	"encoding/json"
	"fmt"
	"net/http"
)

// answer is the response to a call.
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

// ok is a 200 answer with a JSON body.
func ok(body any) answer {
	raw, err := json.Marshal(body)
	if err != nil {
		panic(fmt.Sprintf("cannot encode %T: %v", body, err))
	}
	return answer{code: http.StatusOK, ctype: jsonType, body: raw}
}

// text is a plain-text answer.
func text(code int, format string, args ...any) answer {
	return answer{code: code, ctype: textPlain, body: fmt.Appendf(nil, format, args...)}
}

func conflict(format string, args ...any) answer {
	return text(http.StatusConflict, format, args...)
}

// invalid is the answer of a failed form validation; field __all__ means the whole form.
func invalid(field string, messages ...string) answer {
	a := ok(map[string][]string{field: messages})
	a.code, a.ctype = http.StatusBadRequest, "application/json"
	return a
}

// forbidden is a 403 with an empty body, as MAAS answers when permission is lacking.
func forbidden() answer { return text(http.StatusForbidden, "") }

// retryAfter is a text answer with the header Retry-After, in seconds.
func retryAfter(code, seconds int, message string) answer {
	a := text(code, "%s", message)
	a.header = http.Header{"Retry-After": {fmt.Sprint(seconds)}}
	return a
}

// refusedKey is the answer to a request with a bad signature.
func refusedKey(why string) *answer {
	return &answer{
		code: http.StatusUnauthorized, ctype: textHTML, body: []byte("Authorization Error: " + why),
		header: http.Header{"Www-Authenticate": {`OAuth realm="OAuth"`}},
	}
}

// write sends the answer. The Date header is read from the clock that checks request timestamps.
func (a *answer) write(w http.ResponseWriter, r *Region) {
	for name, values := range a.header {
		w.Header()[name] = values
	}
	w.Header().Set("Content-Type", a.ctype)
	w.Header().Set("Date", r.OAuthNow().UTC().Format(http.TimeFormat))
	w.Header().Set("Vary", "Authorization, Cookie")
	w.WriteHeader(a.code)
	_, _ = w.Write(a.body) // a client that hung up needs no body
}
