package pki

import (
	"crypto"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
)

// NewCSR returns a certificate request in PEM that proves possession of key and requests no name: a
// node does not choose its own name.
func NewCSR(key crypto.Signer) ([]byte, error) {
	if err := checkPublic(key.Public()); err != nil {
		return nil, err
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, key)
	if err != nil {
		return nil, refuse(CodeKeyUnreadable, "cannot sign certificate request: %v", err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}), nil
}

// ParseCSR reads a certificate request and checks that its sender holds the key. Other requests,
// such as names, are never granted: see CA.IssueNode.
func ParseCSR(raw []byte) (*x509.CertificateRequest, error) {
	der, err := onePEM(raw, "CERTIFICATE REQUEST")
	if err != nil {
		return nil, err
	}
	csr, err := x509.ParseCertificateRequest(der)
	if err != nil {
		return nil, refuse(CodeMalformed, "cannot read certificate request: it is not PKCS#10")
	}
	if err := checkCSR(csr); err != nil {
		return nil, err
	}
	return csr, nil
}

func checkCSR(csr *x509.CertificateRequest) error {
	if err := checkPublic(csr.PublicKey); err != nil {
		return err
	}
	if err := csr.CheckSignature(); err != nil {
		return refuse(CodeBadSignature, "cannot take certificate request: its signature is not by its own key")
	}
	return nil
}
