package download

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/hostler/hostler/taskcatalog"
)

// The ways to go on after an answer that brings no bytes.
var (
	errAnew    = fault("the content at the source has changed")       // begin anew at 0
	errRange   = fault("the source answers with another range")       // ask for the whole content
	errRefused = fault("the source refuses the request")              // ask for a fresh credential
	errWhole   = fault("nothing is missing")                          // the content is whole
	errSlow    = fault("the source sends less than 64 KiB in 30 s")   // try again
	errShort   = fault("the source ends before the content is whole") // try again
)

type fault string

func (f fault) Error() string { return string(f) }

// busy is an answer that asks to come again later.
type busy struct {
	status int
	after  time.Duration
}

func (b *busy) Error() string { return fmt.Sprintf("the source answers with status %d", b.status) }

// maxRetryAfter bounds how long a source may ask to wait.
const maxRetryAfter = 5 * time.Minute

// piece is what the body of an answer brings.
type piece struct {
	from  int64
	most  int64 // bytes of the body; -1: not known
	total int64 // of the whole content; -1: not known
}

// judge decides what to do with an answer to a request that asked for the content from the offset on.
func judge(resp *http.Response, st state, now time.Time) (piece, error) {
	switch code := resp.StatusCode; {
	case code == http.StatusOK:
		return piece{0, resp.ContentLength, resp.ContentLength}, nil
	case code == http.StatusPartialContent:
		return partial(resp, st)
	case code == http.StatusRequestedRangeNotSatisfiable:
		_, total, ok := strings.Cut(resp.Header.Get("Content-Range"), "bytes */")
		length, err := strconv.ParseInt(total, 10, 64)
		if known := ok && err == nil; known && length == st.Offset || !known && st.Offset == st.Total {
			return piece{}, errWhole
		}
		return piece{}, errAnew
	case code == http.StatusPreconditionFailed:
		return piece{}, errAnew
	case code == http.StatusUnauthorized, code == http.StatusForbidden, code == http.StatusBadRequest:
		// Amazon and Google answer 400 to some signed URLs that have expired.
		return piece{}, errRefused
	case code == http.StatusRequestTimeout, code == http.StatusTooEarly, code == http.StatusTooManyRequests, code >= 500:
		b := &busy{status: code}
		if s, err := strconv.ParseInt(resp.Header.Get("Retry-After"), 10, 32); err == nil {
			b.after = time.Duration(s) * time.Second
		} else if at, err := http.ParseTime(resp.Header.Get("Retry-After")); err == nil {
			b.after = at.Sub(now)
		}
		b.after = min(max(b.after, 0), maxRetryAfter)
		return piece{}, b
	}
	return piece{}, taskcatalog.Errorf(taskcatalog.CodeSourceRefused, "the source answers with status %d", resp.StatusCode)
}

// partial judges an answer 206.
func partial(resp *http.Response, st state) (piece, error) {
	from, to, total, ok := contentRange(resp.Header.Get("Content-Range"))
	if !ok || from != st.Offset || st.Offset == 0 {
		return piece{}, errRange
	}
	if st.Total >= 0 && total >= 0 && total != st.Total {
		return piece{}, errAnew
	}
	if now := validatorOf(resp.Header); now != "" && st.Validator != "" && now != st.Validator {
		return piece{}, errAnew
	}
	if total < 0 {
		total = st.Total
	}
	return piece{from, to - from + 1, total}, nil
}

// contentRange parses "bytes 100-199/200". A total of '*' is -1.
func contentRange(header string) (from, to, total int64, ok bool) {
	rest, bytes := strings.CutPrefix(header, "bytes ")
	span, of, slash := strings.Cut(rest, "/")
	first, last, dash := strings.Cut(span, "-")
	if !bytes || !slash || !dash {
		return 0, 0, 0, false
	}
	from, err1 := strconv.ParseInt(first, 10, 64)
	to, err2 := strconv.ParseInt(last, 10, 64)
	total = -1
	var err3 error
	if of != "*" {
		total, err3 = strconv.ParseInt(of, 10, 64)
	}
	ok = err1 == nil && err2 == nil && err3 == nil && from >= 0 && to >= from && (of == "*" || total > to)
	return from, to, total, ok
}
