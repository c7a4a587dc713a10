package lab

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"sync"
	"time"
)

// SourceName is the host name of a FileSource.
const SourceName = "files.example"

// FileSource is a server of one file over TLS, as an object store has it. Its fields change by Change, and
// are read by Look or after the last request.
type FileSource struct {
	Content []byte

	mu sync.Mutex
	// Asked are the requests so far.
	Asked []FileRequest
	Sent  int64
	// StopAt is how many bytes are sent in total before the answers wait; 0: they do not wait.
	StopAt int64
	// CutAt is how many bytes are sent in total before the connection is cut, once; 0: it is not. From then on
	// the signature of the cut request has expired, and is refused as S3 does.
	CutAt   int64
	expired string
	moved   chan struct{} // closed and replaced whenever a field changes; nil: nobody waits yet
}

// FileRequest is a request to a FileSource. Begin is the header Range.
type FileRequest struct {
	Path, Authorization, Signature, Begin string
	Refused                               bool
}

// Digest is the digest of the content.
func (f *FileSource) Digest() string { return fmt.Sprintf("sha256:%x", sha256.Sum256(f.Content)) }

// Serve serves the file until the caller closes the server. PEM is the authority of its certificate.
func Serve(f *FileSource, listener net.Listener) (server *http.Server, authority []byte, err error) {
	return ServeTLS(f, listener, SourceName)
}

// ServeTLS serves host names over TLS until the caller closes the server. PEM is the authority of their
// certificate.
func ServeTLS(handler http.Handler, listener net.Listener, names ...string) (server *http.Server, authority []byte, err error) {
	certificate, authority, err := certificateOf(names)
	if err != nil {
		return nil, nil, err
	}
	config := &tls.Config{Certificates: []tls.Certificate{certificate}}
	server = &http.Server{Handler: handler, ReadHeaderTimeout: time.Minute, TLSConfig: config}
	go func() { _ = server.ServeTLS(listener, "", "") }()
	return server, authority, nil
}

// Change changes fields, and wakes who waits for a change.
func (f *FileSource) Change(do func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	do()
	if f.moved != nil {
		close(f.moved)
	}
	f.moved = make(chan struct{})
}

// Look returns whether a condition holds, and a channel that tells the next change.
func (f *FileSource) Look(holds func() bool) (ok bool, next <-chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.moved == nil {
		f.moved = make(chan struct{})
	}
	return holds(), f.moved
}

// expiry is S3's answer to an address whose time is over.
const expiry = `<?xml version="1.0" encoding="UTF-8"?><Error><Code>AccessDenied</Code><Message>Request has expired</Message></Error>`

// ServeHTTP implements http.Handler.
func (f *FileSource) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	asks := FileRequest{
		Path: r.URL.Path, Authorization: r.Header.Get("Authorization"), Signature: r.URL.Query().Get("X-Amz-Signature"),
		Begin: r.Header.Get("Range"),
	}
	f.Change(func() {
		asks.Refused = f.expired != "" && asks.Signature == f.expired
		f.Asked = append(f.Asked, asks)
	})
	if asks.Refused {
		w.Header().Set("Content-Type", "application/xml")
		w.WriteHeader(http.StatusForbidden)
		_, _ = io.WriteString(w, expiry)
		return
	}
	w.Header().Set("ETag", `"the-one"`)
	w.Header().Set("Content-Type", "application/octet-stream")
	http.ServeContent(&gauge{w, r, f}, r, "", time.Time{}, bytes.NewReader(f.Content))
}

// gauge counts what it sends, and waits where the source stops.
type gauge struct {
	http.ResponseWriter
	request *http.Request
	source  *FileSource
}

func (m *gauge) Write(p []byte) (int, error) {
	f := m.source
	for {
		goes, next := f.Look(func() bool { return f.StopAt == 0 || f.Sent < f.StopAt })
		if goes {
			break
		}
		_ = http.NewResponseController(m.ResponseWriter).Flush()
		select {
		case <-next:
		case <-m.request.Context().Done():
			return 0, io.ErrClosedPipe
		}
	}
	n, err := m.ResponseWriter.Write(p)
	cut := false
	f.Change(func() {
		f.Sent += int64(n)
		if cut = f.CutAt != 0 && f.expired == "" && f.Sent >= f.CutAt; cut {
			f.expired = m.request.URL.Query().Get("X-Amz-Signature")
		}
	})
	if cut {
		_ = http.NewResponseController(m.ResponseWriter).Flush() // what is counted is sent
		panic(http.ErrAbortHandler)
	}
	return n, err
}

// certificateOf makes a certificate for host names, and the authority that it is its own.
func certificateOf(names []string) (tls.Certificate, []byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, nil, err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: names[0]}, DNSNames: names,
		NotBefore: time.Now().Add(-24 * time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, BasicConstraintsValid: true, IsCA: true,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), err
}
