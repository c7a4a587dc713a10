package artifactsource

import (
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/hostler/hostler/broker"
)

// The signature is that of the example in Amazon's documentation of signed queries.
func TestAnAddressIsSignedAsS3ExpectsIt(t *testing.T) {
	c := broker.SourceCredential{Endpoint: "https://examplebucket.s3.amazonaws.com", Region: "us-east-1", KeyID: "AKIAIOSFODNN7EXAMPLE"}
	at := time.Date(2013, 5, 24, 0, 0, 0, 0, time.UTC)
	got, err := sign(t.Context(), c, "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", "test.txt", at, 24*time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	u, err := url.Parse(got)
	if err != nil {
		t.Fatal(err)
	}
	if sig := u.Query().Get("X-Amz-Signature"); sig != "aeeed9bbccd4d02ee5c0109b86d86835f995330da4c265957d157751f604d404" || u.Path != "/test.txt" {
		t.Errorf("%s", got)
	}
}

// An object's name is one path, whatever characters it has: none becomes a query or another host.
func TestAnObjectsNameStaysAPath(t *testing.T) {
	c := broker.SourceCredential{Endpoint: "https://s3.example", Region: "eu", KeyID: "AK"}
	for object, path := range map[string]string{
		"b/a+b=c@d&e": "/b/a%2Bb%3Dc%40d%26e", "b/ü": "/b/%C3%BC", "b/$(x);y": "/b/%24%28x%29%3By", "b//x": "/b//x", "@evil.example/x": "/%40evil.example/x",
	} {
		got, err := sign(t.Context(), c, "secret", object, time.Unix(1_800_000_000, 0), time.Minute)
		if err != nil || !strings.HasPrefix(got, "https://s3.example"+path+"?X-Amz-Algorithm=") || strings.Contains(got, "secret") {
			t.Errorf("%s: %s %v", object, got, err)
		}
	}
}
