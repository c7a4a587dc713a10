package broker_test

import (
	"strings"
	"testing"

	"github.com/hostler/hostler/broker"
)

func TestAnInvalidSourceCredentialIsRefused(t *testing.T) {
	good := broker.SourceCredential{Name: "models", Source: "s3:models/public", Endpoint: "https://s3.example:9000", Region: "eu-1", KeyID: "AK"}
	if err := good.Check("secret"); err != nil {
		t.Fatal(err)
	}
	if err := (broker.SourceCredential{Name: "hub", Source: "huggingface:owner"}).Defaults().Check("hf_token"); err != nil {
		t.Error(err)
	}
	if err := (broker.SourceCredential{Name: "g", Source: "gcs:models", KeyID: "GOOG1"}).Defaults().Check("secret"); err != nil {
		t.Error(err)
	}
	for name, change := range map[string]func(*broker.SourceCredential, *string){
		"no name":               func(c *broker.SourceCredential, _ *string) { c.Name = "" },
		"a path as name":        func(c *broker.SourceCredential, _ *string) { c.Name = "../identity" },
		"another kind":          func(c *broker.SourceCredential, _ *string) { c.Source = "oci:models" },
		"no prefix":             func(c *broker.SourceCredential, _ *string) { c.Source = "s3:" },
		"a prefix that climbs":  func(c *broker.SourceCredential, _ *string) { c.Source = "s3:models/../x" },
		"a prefix with a query": func(c *broker.SourceCredential, _ *string) { c.Source = "s3:models?x" },
		"no TLS":                func(c *broker.SourceCredential, _ *string) { c.Endpoint = "http://s3.example" },
		"an endpoint with path": func(c *broker.SourceCredential, _ *string) { c.Endpoint = "https://s3.example/x" },
		"an endpoint with user": func(c *broker.SourceCredential, _ *string) { c.Endpoint = "https://u:p@s3.example" },
		"no region":             func(c *broker.SourceCredential, _ *string) { c.Region = "" },
		"no key id":             func(c *broker.SourceCredential, _ *string) { c.KeyID = "" },
		"no secret":             func(_ *broker.SourceCredential, s *string) { *s = "" },
		"a secret of two lines": func(_ *broker.SourceCredential, s *string) { *s = "a\nX-Injected: b" },
		"a secret that is long": func(_ *broker.SourceCredential, s *string) { *s = strings.Repeat("a", 5000) },
		"a token with a key id": func(c *broker.SourceCredential, _ *string) { c.Source = "huggingface:owner" },
	} {
		c, secret := good, "secret"
		change(&c, &secret)
		if err := c.Check(secret); err == nil || broker.AsError(err).Code != "source_credential_invalid" || strings.Contains(err.Error(), "Injected") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
