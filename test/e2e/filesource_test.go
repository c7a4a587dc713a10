//go:build e2e

package e2e

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

	"github.com/hostler/hostler/test/qemu"
)

// Where the guest finds the source of files. The agent takes no file from the broker's address, which
// is this machine's: the guest's own firewall leads sourceAddress to it.
const (
	sourceName    = "files.example"
	sourceAddress = "10.77.0.1"
)

// fileSource is a server of one file over TLS.
type fileSource struct {
	content []byte

	mu sync.Mutex
	// asked are the requests so far, with where each begins in the file.
	asked []fileRequest
	sent  int64
	// stopAt is how many bytes are sent in total before the answers wait; 0: they do not wait.
	stopAt int64
	moved  chan struct{} // closed and replaced whenever a field changes
}

type fileRequest struct {
	path, authorization, signature string
	begin                          string // the header Range
}

func (f *fileSource) digest() string { return fmt.Sprintf("sha256:%x", sha256.Sum256(f.content)) }

// change changes fields, and wakes who waits for a change.
func (f *fileSource) change(do func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	do()
	close(f.moved)
	f.moved = make(chan struct{})
}

// look returns whether a condition holds, and a channel that tells the next change.
func (f *fileSource) look(holds func() bool) (ok bool, next <-chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return holds(), f.moved
}

// ServeHTTP implements http.Handler.
func (f *fileSource) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.change(func() {
		f.asked = append(f.asked, fileRequest{
			r.URL.Path, r.Header.Get("Authorization"), r.URL.Query().Get("X-Amz-Signature"), r.Header.Get("Range"),
		})
	})
	w.Header().Set("ETag", `"the-one"`)
	w.Header().Set("Content-Type", "application/octet-stream")
	http.ServeContent(&gauge{w, r, f}, r, "", time.Time{}, bytes.NewReader(f.content))
}

// gauge counts what it sends, and waits where the source stops.
type gauge struct {
	http.ResponseWriter
	request *http.Request
	source  *fileSource
}

func (m *gauge) Write(p []byte) (int, error) {
	f := m.source
	for {
		goes, next := f.look(func() bool { return f.stopAt == 0 || f.sent < f.stopAt })
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
	f.change(func() { f.sent += int64(n) })
	return n, err
}

// fileSource starts a source of a file, and makes it known to the guest: its name, its way and its
// authority. The agent must not have made a connection over TLS to a source before.
func (s *site) fileSource(content []byte) *fileSource {
	s.t.Helper()
	f := &fileSource{content: content, moved: make(chan struct{})}
	certificate, authority, err := sourceCertificate()
	if err != nil {
		s.t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		s.t.Fatal(err)
	}
	server := &http.Server{Handler: f, ReadHeaderTimeout: time.Minute, TLSConfig: &tls.Config{Certificates: []tls.Certificate{certificate}}}
	go func() { _ = server.ServeTLS(listener, "", "") }()
	s.t.Cleanup(func() { _ = server.Close() })
	_, port, _ := net.SplitHostPort(listener.Addr().String())

	rules := fmt.Sprintf("table ip source {\n chain output {\n  type nat hook output priority -100\n  ip daddr %s tcp dport 443 dnat to %s:%s\n }\n}\n",
		sourceAddress, qemu.HostAddress, port)
	s.put("/etc/nftables.conf", []byte("#!/usr/sbin/nft -f\n"+rules), 0o755)
	s.root("systemctl", "enable", "--now", "nftables.service")
	s.put("/root/source.pem", authority, 0o600)
	s.root("sh", "-c", "cat /root/source.pem >> /etc/ssl/certs/ca-certificates.crt; echo '"+sourceAddress+" "+sourceName+"' >> /etc/hosts")
	return f
}

// awaits waits until a condition about the source holds.
func (s *site) awaits(f *fileSource, what string, holds func() bool) {
	s.t.Helper()
	for {
		ok, next := f.look(holds)
		if ok {
			return
		}
		select {
		case <-next:
		case <-s.ctx.Done():
			s.t.Fatalf("waited in vain for %s: %+v", what, f.asked)
		}
	}
}

// sourceCertificate makes a certificate for sourceName, and the authority that it is its own.
func sourceCertificate() (tls.Certificate, []byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, nil, err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: sourceName}, DNSNames: []string{sourceName},
		NotBefore: time.Now().Add(-24 * time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, BasicConstraintsValid: true, IsCA: true,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), err
}
