package pki_test

import (
	"crypto"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"net"
	"net/url"
	"testing"
	"time"

	"github.com/hostler/hostler/pki"
	"github.com/hostler/hostler/pki/pkitest"
)

func TestNodeIDHasOneForm(t *testing.T) {
	if got := pki.NewNodeID(zeroes{}); got != "n-aaaaaaaaaaaaaaaa" {
		t.Errorf("NewNodeID of zeroes = %q", got)
	}
	first, second := pki.NewNodeID(rand.Reader), pki.NewNodeID(rand.Reader)
	if !pki.ValidNodeID(first) || first == second {
		t.Errorf("NewNodeID gave %q and %q", first, second)
	}
	for _, id := range []string{
		"", "n-", "n-aaaaaaaaaaaaaaa", "n-aaaaaaaaaaaaaaaaa", "N-aaaaaaaaaaaaaaaa", "n-AAAAAAAAAAAAAAAA",
		"n-aaaaaaaaaaaaaaa1", "n-aaaaaaaa/aaaaaaa", "n-../../../../../..", "n-aaaaaaaaaaaaaaa\n", "x-aaaaaaaaaaaaaaaa",
	} {
		if pki.ValidNodeID(id) {
			t.Errorf("ValidNodeID(%q) = true", id)
		}
	}
}

func TestNodeIdentityComesBackFromTheCertificate(t *testing.T) {
	a := pkitest.New(t)
	node := a.Enroll(t, pki.NodeIdentity{NodeID: "n-abcdefghijklmnop", Epoch: 7}, time.Hour)
	got, err := pki.NodeIdentityOf(node.Cert.Leaf)
	wantCode(t, err, "")
	if got != node.NodeIdentity {
		t.Errorf("NodeIdentityOf = %+v, want %+v", got, node.NodeIdentity)
	}
	if uri := node.Cert.Leaf.URIs[0].String(); uri != "hostler://node/n-abcdefghijklmnop?epoch=7" {
		t.Errorf("the certificate names %s", uri)
	}
}

// A name that differs from the canonical name in any byte is refused, whoever signed it.
func TestNodeNameInAnotherFormIsRefused(t *testing.T) {
	const good = "hostler://node/n-abcdefghijklmnop?epoch=7"
	parse := func(s string) *url.URL { return must[*url.URL](t)(url.Parse(s)) }
	// raw writes names unchanged; a url.URL would already have normalised them.
	raw := func(names ...asn1.RawValue) x509.Certificate {
		san := pkix.Extension{Id: asn1.ObjectIdentifier{2, 5, 29, 17}, Value: must[[]byte](t)(asn1.Marshal(names))}
		return x509.Certificate{ExtraExtensions: []pkix.Extension{san}}
	}
	uri := func(s string) asn1.RawValue {
		return asn1.RawValue{Class: asn1.ClassContextSpecific, Tag: 6, Bytes: []byte(s)}
	}
	registeredID := asn1.RawValue{Class: asn1.ClassContextSpecific, Tag: 8, Bytes: []byte{0x2a, 0x03, 0x04}} // x509 leaves it out
	attacks := map[string]x509.Certificate{
		"no name":                {},
		"two URIs":               {URIs: []*url.URL{parse(good), parse(good)}},
		"a DNS name beside it":   {URIs: []*url.URL{parse(good)}, DNSNames: []string{"localhost"}},
		"an address beside it":   {URIs: []*url.URL{parse(good)}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}},
		"a mail address":         {URIs: []*url.URL{parse(good)}, EmailAddresses: []string{"a@b"}},
		"a name of another kind": raw(uri(good), registeredID),
	}
	for name, text := range map[string]string{
		"another scheme":     "https://node/n-abcdefghijklmnop?epoch=7",
		"upper-case scheme":  "HOSTLER://node/n-abcdefghijklmnop?epoch=7",
		"another host":       "hostler://broker/n-abcdefghijklmnop?epoch=7",
		"user information":   "hostler://root@node/n-abcdefghijklmnop?epoch=7",
		"a port":             "hostler://node:1/n-abcdefghijklmnop?epoch=7",
		"an escape":          "hostler://node/%6e-abcdefghijklmnop?epoch=7",
		"two slashes":        "hostler://node//n-abcdefghijklmnop?epoch=7",
		"a longer path":      "hostler://node/n-abcdefghijklmnop/x?epoch=7",
		"another id":         "hostler://node/n-1?epoch=7",
		"no epoch":           "hostler://node/n-abcdefghijklmnop",
		"epoch zero":         "hostler://node/n-abcdefghijklmnop?epoch=0",
		"a negative epoch":   "hostler://node/n-abcdefghijklmnop?epoch=-7",
		"a signed epoch":     "hostler://node/n-abcdefghijklmnop?epoch=+7",
		"a leading zero":     "hostler://node/n-abcdefghijklmnop?epoch=07",
		"two epochs":         "hostler://node/n-abcdefghijklmnop?epoch=7&epoch=8",
		"an epoch too large": "hostler://node/n-abcdefghijklmnop?epoch=9223372036854775808",
		"a bare number":      "hostler://node/n-abcdefghijklmnop?7",
		"an empty fragment":  "hostler://node/n-abcdefghijklmnop?epoch=7#",
		"a fragment":         "hostler://node/n-abcdefghijklmnop?epoch=7#x",
	} {
		attacks[name] = raw(uri(text))
	}
	a := pkitest.New(t)
	_, err := pki.NodeIdentityOf(forge(t, a, raw(uri(good))))
	wantCode(t, err, "") // each name below differs from a good name in one detail
	for name, template := range attacks {
		t.Run(name, func(t *testing.T) {
			_, err := pki.NodeIdentityOf(forge(t, a, template))
			wantCode(t, err, pki.CodeNodeIdentity)
		})
	}
}

// forge has the issuing CA sign certificates that IssueNode and IssueServer never issue.
func forge(t testing.TB, a *pkitest.Authority, template x509.Certificate) *x509.Certificate {
	t.Helper()
	return forgeFor(t, a, keyOf(t, pki.Ed25519).Public(), template)
}

func forgeFor(t testing.TB, a *pkitest.Authority, pub crypto.PublicKey, template x509.Certificate) *x509.Certificate {
	t.Helper()
	template.NotBefore, template.NotAfter = a.Now.Add(-time.Minute), a.Now.Add(time.Hour)
	der := must[[]byte](t)(x509.CreateCertificate(rand.Reader, &template, a.Issuing.Cert, pub, a.Issuing.Signer))
	return must[*x509.Certificate](t)(x509.ParseCertificate(der))
}
