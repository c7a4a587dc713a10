package selfupdate

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/hostler/hostler/taskcatalog"
	"github.com/hostler/hostler/taskcatalog/release"
)

// A registry's answers, and the targets of its redirects, may contain secrets. Errors go to the
// broker and into logs, so none of this text is in an error.
func TestNothingThatARegistrySaysIsRepeated(t *testing.T) {
	fails := func(status int, body string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(status)
			_, _ = fmt.Fprint(w, body)
		}
	}
	sends := func(to string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, to, http.StatusTemporaryRedirect)
		}
	}
	for name, c := range map[string]struct {
		answer http.HandlerFunc
		code   taskcatalog.Code
		says   string
	}{
		"free text":            {fails(403, `{"errors":[{"code":"DENIED","message":"token PLANTED may not","detail":"PLANTED"}]}`), CodeSourceRefused, "status 403 (DENIED)"},
		"a code of its own":    {fails(403, `{"errors":[{"code":"PLANTED","message":"x"}]}`), CodeSourceRefused, "status 403"},
		"a code among others":  {fails(401, `{"errors":[{"code":"PLANTED"},{"code":"UNAUTHORIZED"}]}`), CodeSourceRefused, "status 401 (UNAUTHORIZED)"},
		"a page":               {fails(502, `<html>PLANTED</html>`), "", "status 502"},
		"too much to do":       {fails(429, `{"errors":[{"code":"TOOMANYREQUESTS","message":"PLANTED"}]}`), "", "status 429 (TOOMANYREQUESTS)"},
		"a signed address":     {sends("http://127.0.0.1:1/layer?X-Amz-Signature=PLANTED"), "", "cannot be reached: connection refused"},
		"an unreadable one":    {sends("http://PLANTED:x/"), "", "can be read"},
		"a name that is none":  {sends("http://PLANTED.invalid/?sig=PLANTED"), "", "looked up"},
		"an address of a kind": {sends("planted://PLANTED"), "", "can be read"},
		"another digest": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Docker-Content-Digest", "sha256:PLANTED")
		}, "", "can be read"},
		"a challenge": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("WWW-Authenticate", `Bearer realm="http://127.0.0.1:1/token?k=PLANTED",service="PLANTED"`)
			w.WriteHeader(http.StatusUnauthorized)
		}, "", "cannot be"},
		"it breaks off": {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, "", "breaks off"},
	} {
		t.Run(name, func(t *testing.T) {
			s := httptest.NewServer(c.answer)
			t.Cleanup(s.Close)
			r, err := NewRegistry(taskcatalog.ReleaseSource{Repository: strings.TrimPrefix(s.URL, "http://") + "/fleet/agent", PlainHTTP: true}, nil)
			if err != nil {
				t.Fatal(err)
			}
			for _, mediaType := range []string{release.MediaLayer, release.MediaManifest} {
				_, err = r.Open(t.Context(), release.Part{MediaType: mediaType, Digest: release.Digest(nil), Size: 7}, 0)
				if err == nil || strings.Contains(strings.ToUpper(err.Error()), "PLANTED") || strings.Contains(err.Error(), "?") || taskcatalog.CodeOf(err, "") != c.code || !strings.Contains(err.Error(), c.says) {
					t.Errorf("%s: code %q of %q, want %q: %v", mediaType, taskcatalog.CodeOf(err, ""), c.code, c.says, err)
				}
			}
		})
	}
}

// After a break a part is resumed at the redirect's target; errors from there are safe as well.
func TestNothingIsRepeatedWhileAPartIsRead(t *testing.T) {
	var calls int
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if calls++; calls == 1 {
			w.Header().Set("Accept-Ranges", "bytes")
			w.Header().Set("Content-Length", "7")
			_, _ = fmt.Fprint(w, "abcdefg")
			return
		}
		http.Redirect(w, r, "http://127.0.0.1:1/layer?sig=PLANTED", http.StatusTemporaryRedirect)
	}))
	t.Cleanup(s.Close)
	r, err := NewRegistry(taskcatalog.ReleaseSource{Repository: strings.TrimPrefix(s.URL, "http://") + "/fleet/agent", PlainHTTP: true}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Open(t.Context(), release.Part{MediaType: release.MediaLayer, Digest: release.Digest([]byte("abcdefg")), Size: 7}, 3); err == nil || strings.Contains(err.Error(), "PLANTED") || !strings.Contains(err.Error(), "cannot be reached") {
		t.Errorf("%v", err)
	}
}

// A proxy answers every request with a page: the page's length is not the part's size.
func TestAPageOfAProxyIsNotAPartThatWasCutShort(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		_, _ = fmt.Fprint(w, "<html>log in to this network</html>")
	}))
	t.Cleanup(s.Close)
	r, err := NewRegistry(taskcatalog.ReleaseSource{Repository: strings.TrimPrefix(s.URL, "http://") + "/fleet/agent", PlainHTTP: true}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, mediaType := range []string{release.MediaLayer, release.MediaManifest} {
		if _, err := r.Open(t.Context(), release.Part{MediaType: mediaType, Digest: release.Digest(nil), Size: 7}, 0); err == nil || taskcatalog.CodeOf(err, "") != "" {
			t.Errorf("it stays: %v", err)
		}
	}
}
