package plan

import (
	"bytes"
	"slices"
	"testing"

	"github.com/hostler/hostler/agent/steps"
)

func TestThePartsOfASecretThatAreSecrets(t *testing.T) {
	const signature = "6f1d0c2b8a7e4f5d6f1d0c2b8a7e4f5d"
	for _, c := range []struct {
		secret  string
		yes, no []string
	}{
		{"plain-token-0123", []string{"plain-token-0123"}, []string{"plain-token", "0123"}},
		{`{"token":"abcdefgh1234"}`, []string{`{"token":"abcdefgh1234"}`, "abcdefgh1234"}, []string{"token"}},
		{
			`{"urls":{"models/x/w.bin":"https://models.s3.example/models/x/w.bin?X-Amz-Signature=` + signature + `&n=1"},"authorization":"Bearer secret-of-hf"}`,
			[]string{signature, "Bearer secret-of-hf", "secret-of-hf", "https://models.s3.example/models/x/w.bin?X-Amz-Signature=" + signature + "&n=1"},
			[]string{"models/x/w.bin", "/var/lib/models/x/w.bin", "https://models.s3.example/models/x/w.bin", "authorization", "Bearer", "urls"},
		},
		{`{"deep":[{"a":"quoted \"part\" here"}]}`, []string{`quoted "part" here`}, []string{"deep", "here"}},
		{`{"broken":"abcdefgh`, []string{`{"broken":"abcdefgh`}, []string{"abcdefgh"}},
		{`"just a text"`, []string{"just a text"}, nil},
	} {
		parts := partsOf([]byte(c.secret))
		for _, want := range c.yes {
			if !slices.ContainsFunc(parts, func(p []byte) bool { return string(p) == want }) {
				t.Errorf("%s: %q is no part", c.secret, want)
			}
		}
		o := &Operation{secrets: map[string]*steps.Secret{"key": steps.NewSecret([]byte(c.secret), nil)}}
		for _, text := range c.no {
			if o.leaks([]byte(text)) {
				t.Errorf("%s: %q is a secret", c.secret, text)
			}
		}
		for _, text := range c.yes {
			if !o.leaks([]byte("before " + text + " after")) {
				t.Errorf("%s: %q is no secret", c.secret, text)
			}
		}
		if len(bytes.Join(parts, nil)) == 0 {
			t.Errorf("%s has no part", c.secret)
		}
	}
}
