package pki

import (
	"bytes"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
)

// maxChain bounds a chain: leaf, issuing CA, root, and room for a rotation.
const maxChain = 8

// MarshalCerts returns certificates in PEM, in the order given.
func MarshalCerts(certs ...*x509.Certificate) []byte {
	var out bytes.Buffer
	for _, cert := range certs {
		out.Write(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert.Raw}))
	}
	return out.Bytes()
}

// ParseCerts reads the output of MarshalCerts: one to eight certificates and nothing else.
func ParseCerts(raw []byte) ([]*x509.Certificate, error) {
	if len(raw) > maxPEM {
		return nil, refuse(CodeTooLarge, "cannot read certificates: %d bytes, at most %d", len(raw), maxPEM)
	}
	var certs []*x509.Certificate
	for rest := bytes.TrimSpace(raw); len(rest) > 0; rest = bytes.TrimSpace(rest) {
		var block *pem.Block
		begins := bytes.HasPrefix(rest, pemBegin)
		block, rest = pem.Decode(rest)
		if !begins || block == nil || block.Type != "CERTIFICATE" || len(block.Headers) != 0 {
			return nil, refuse(CodeMalformed, "cannot read certificates: there is something else than certificates in PEM")
		}
		cert, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, refuse(CodeMalformed, "cannot read certificate %d: it is not X.509", len(certs)+1)
		}
		if certs = append(certs, cert); len(certs) > maxChain {
			return nil, refuse(CodeTooLarge, "cannot read certificates: more than %d", maxChain)
		}
	}
	if bytes.Count(raw, pemBegin) != len(certs) {
		return nil, refuse(CodeMalformed, "cannot read certificates: one of them is damaged")
	}
	if len(certs) == 0 {
		return nil, refuse(CodeCertificateRequired, "cannot read certificates: there is none")
	}
	return certs, nil
}

// Fingerprint returns the hex SHA-256 of a certificate's DER. --ca-sha256 takes the fingerprint of
// the root.
func Fingerprint(cert *x509.Certificate) string {
	sum := sha256.Sum256(cert.Raw)
	return hex.EncodeToString(sum[:])
}

// Serial returns a certificate's serial number in lower-case hex, as the deny
// list and the audit log spell it.
func Serial(cert *x509.Certificate) string {
	return hex.EncodeToString(cert.SerialNumber.Bytes())
}
