package maassim

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
)

// URL is the address of a region that a client reaches by RoundTripper. No resolver knows the host.
const URL = "http://maas.invalid:5240/MAAS"

// RoundTripper calls the region in process, without network, goroutine or real time. A cut
// connection is an error, as over the wire.
func (r *Region) RoundTripper() http.RoundTripper { return inProcess{r} }

type inProcess struct{ region *Region }

// RoundTrip implements http.RoundTripper.
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
