package maassim_test

import (
	"crypto/rand"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/hostler/hostler/test/maassim"
)

// send signs an API request by hand, for calls that no client makes, and returns the answer.
func send(t *testing.T, r *maassim.Region, key, method, path string, form url.Values) (*http.Response, []byte) {
	t.Helper()
	req := httptest.NewRequest(method, "/MAAS/api/2.0/"+path, nil)
	if method == http.MethodGet || method == http.MethodDelete {
		q := req.URL.Query()
		for name, values := range form {
			q[name] = values
		}
		req.URL.RawQuery = q.Encode()
	} else {
		req.Body = io.NopCloser(strings.NewReader(form.Encode()))
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	if key != "" {
		req.Header.Set("Authorization", signature(key, wallClock().Unix(), rand.Text()))
	}
	return do(t, r, req)
}

func do(t *testing.T, r *maassim.Region, req *http.Request) (*http.Response, []byte) {
	t.Helper()
	res, err := r.RoundTripper().RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res, body
}

// signature is the Authorization header for an API key, or for a token of the same form.
func signature(key string, stamp int64, nonce string) string {
	part := strings.Split(key, ":")
	return fmt.Sprintf(`OAuth realm="MAAS API", oauth_consumer_key="%s", oauth_token="%s", oauth_signature_method="PLAINTEXT", `+
		`oauth_signature="%s", oauth_timestamp="%d", oauth_nonce="%s", oauth_version="1.0"`,
		part[0], part[1], url.QueryEscape("&"+part[2]), stamp, nonce)
}
