package pki

import (
	"bytes"
	"crypto/x509"
	"encoding/asn1"
	"encoding/base32"
	"fmt"
	"io"
	"net/url"
	"strconv"
	"strings"
)

// A node id is "n-" and 80 random bits in 16 characters. The alphabet is safe in host names, paths
// and shells, and when read aloud.
const (
	nodeIDPrefix   = "n-"
	nodeIDAlphabet = "abcdefghijklmnopqrstuvwxyz234567"
	nodeIDLength   = len(nodeIDPrefix) + 16
)

// NodeIdentity is the identity in a node certificate.
type NodeIdentity struct {
	NodeID string
	Epoch  int64 // counts the node's enrolments, from 1
}

// NewNodeID returns a fresh node id. It panics if rand fails, which
// crypto/rand.Reader never does.
func NewNodeID(rand io.Reader) string {
	b := make([]byte, 10)
	if _, err := io.ReadFull(rand, b); err != nil {
		panic(fmt.Sprintf("pki: no randomness for a node id: %v", err))
	}
	return nodeIDPrefix + base32.NewEncoding(nodeIDAlphabet).EncodeToString(b)
}

// ValidNodeID reports whether id has the form of NewNodeID.
func ValidNodeID(id string) bool {
	if len(id) != nodeIDLength || !strings.HasPrefix(id, nodeIDPrefix) {
		return false
	}
	return strings.Trim(id[len(nodeIDPrefix):], nodeIDAlphabet) == ""
}

// NodeURI returns the canonical name of a node at an epoch.
func NodeURI(id string, epoch int64) *url.URL {
	return &url.URL{
		Scheme:   "hostler",
		Host:     "node",
		Path:     "/" + id,
		RawQuery: "epoch=" + strconv.FormatInt(epoch, 10),
	}
}

// NodeIdentityOf returns the node that a certificate names. The subject alternative name must be
// exactly one URI in canonical form, byte for byte, and nothing else: a name that two readers could
// read differently is refused with CodeNodeIdentity. NodeIdentityOf does not check the issuer.
func NodeIdentityOf(cert *x509.Certificate) (NodeIdentity, error) {
	if len(cert.URIs) != 1 {
		return NodeIdentity{}, refuse(CodeNodeIdentity, "certificate %s is no node certificate: it names %d URIs, not one", Serial(cert),
			len(cert.URIs))
	}
	u := cert.URIs[0]
	id := strings.TrimPrefix(u.Path, "/")
	epoch, err := strconv.ParseInt(strings.TrimPrefix(u.RawQuery, "epoch="), 10, 64)
	if err != nil || epoch < 1 || !ValidNodeID(id) || !bytes.Equal(alternativeName(cert), uriName(NodeURI(id, epoch))) {
		return NodeIdentity{},
			refuse(CodeNodeIdentity, "certificate %s is no node certificate: its name %s is not hostler://node/ID?epoch=N alone",
				Serial(cert), quote(u.String()))
	}
	return NodeIdentity{NodeID: id, Epoch: epoch}, nil
}

var oidSubjectAltName = asn1.ObjectIdentifier{2, 5, 29, 17}

// alternativeName returns the DER of the subject alternative name. The parsed fields are not
// enough: x509 leaves out the kinds of names that x509 does not know.
func alternativeName(cert *x509.Certificate) []byte {
	for _, ext := range cert.Extensions {
		if ext.Id.Equal(oidSubjectAltName) {
			return ext.Value
		}
	}
	return nil
}

// uriName returns the DER of a subject alternative name that is this URI alone.
func uriName(u *url.URL) []byte {
	const tagURI = 6
	der, err := asn1.Marshal([]asn1.RawValue{{Class: asn1.ClassContextSpecific, Tag: tagURI, Bytes: []byte(u.String())}})
	if err != nil {
		panic(fmt.Sprintf("pki: cannot encode a node's name: %v", err)) // asn1 takes any bytes here
	}
	return der
}
