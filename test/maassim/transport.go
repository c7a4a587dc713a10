package maassim

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
)

// URL is where a client finds the region that it reaches by RoundTripper. The
// host is one that no resolver knows.
const URL = "http://maas.invalid:5240/MAAS"

// RoundTripper calls the region in process, with no network, goroutine or real
// time in between. A connection that is cut is an error, as over the wire.
func (r *Region) RoundTripper() http.RoundTripper { return inProcess{r} }

type inProcess struct{ region *Region }

// RoundTrip is http.RoundTripper's.
func (t inProcess) RoundTrip(req *http.Request) (res *http.Response, err error) {
	if err := req.Context().Err(); err != nil {
		return nil, err
	}
	defer func() {
		if p := recover(); p != nil {
			if e, is := p.(error); !is || !errors.Is(e, http.ErrAbortHandler) {
				panic(p)
			}
			if err = req.Context().Err(); err == nil {
				err = io.ErrUnexpectedEOF
			}
			res = nil
		}
	}()
	served := req.Clone(req.Context())
	served.RequestURI = req.URL.RequestURI()
	if served.Body == nil {
		served.Body = http.NoBody
	}
	w := httptest.NewRecorder()
	t.region.ServeHTTP(w, served)
	res = w.Result()
	res.Body = io.NopCloser(bytes.NewReader(w.Body.Bytes()))
	res.Request = req
	return res, nil
}
