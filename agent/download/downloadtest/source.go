package downloadtest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"sync"
	"testing"
	"time"
)

// Content is reproducible noise.
func Content(seed byte, n int) []byte {
	out := make([]byte, n)
	_, _ = rand.NewChaCha8([32]byte{seed}).Read(out)
	return out
}

// Digest is the digest of a content.
func Digest(raw []byte) string { return fmt.Sprintf("sha256:%x", sha256.Sum256(raw)) }

// Source is a server of one file in the process, over pipes: in a bubble of testing/synctest its time is the
// test's. Its fields may be read and changed between requests, after synctest.Wait.
type Source struct {
	t    testing.TB
	conn chan net.Conn
	mu   sync.Mutex

	Raw     []byte
	ETag    string
	Asked   []string // METHOD HOST PATH RANGE IF-RANGE
	Headers []http.Header
	Sent    int64 // bytes of bodies
	// Faults answer the requests in turn. Then Always answers; if it is nil, the file is served.
	Faults []http.HandlerFunc
	Always http.HandlerFunc
}

// New starts a source of the content. It ends with the test.
func New(t testing.TB, raw []byte) *Source {
	s := &Source{t: t, conn: make(chan net.Conn), Raw: raw, ETag: `"one"`}
	server := &http.Server{Handler: s}
	done := make(chan struct{})
	go func() { defer close(done); _ = server.Serve(s) }()
	t.Cleanup(func() { _ = server.Close(); <-done })
	return s
}

// Accept implements net.Listener.
func (s *Source) Accept() (net.Conn, error) {
	c, ok := <-s.conn
	if !ok {
		return nil, net.ErrClosed
	}
	return c, nil
}

// Close implements net.Listener.
func (s *Source) Close() error { close(s.conn); return nil }

// Addr implements net.Listener.
func (s *Source) Addr() net.Addr { return &net.TCPAddr{} }

// Transport leads every https address to the source, without TLS.
func (s *Source) Transport() *http.Transport {
	t := &http.Transport{DisableCompression: true, DisableKeepAlives: true}
	t.DialTLSContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
		near, far := net.Pipe()
		select {
		case s.conn <- far:
			return near, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	s.t.Cleanup(t.CloseIdleConnections)
	return t
}

// ServeHTTP implements http.Handler.
func (s *Source) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	s.Asked = append(s.Asked, fmt.Sprintf("%s %s%s %s %s", r.Method, r.Host, r.URL.Path, r.Header.Get("Range"), r.Header.Get("If-Range")))
	s.Headers = append(s.Headers, r.Header.Clone())
	fault := s.Always
	if len(s.Faults) > 0 {
		fault, s.Faults = s.Faults[0], s.Faults[1:]
	}
	s.mu.Unlock()
	cw := &counting{w, s}
	if fault != nil {
		fault(cw, r)
		return
	}
	s.Serve(cw, r)
}

// Serve answers as a good server does.
func (s *Source) Serve(w http.ResponseWriter, r *http.Request) {
	if s.ETag != "" {
		w.Header().Set("ETag", s.ETag)
	}
	w.Header().Set("Content-Type", "application/octet-stream")
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(s.Raw))
}

type counting struct {
	http.ResponseWriter
	s *Source
}

func (c *counting) Write(p []byte) (int, error) {
	n, err := c.ResponseWriter.Write(p)
	c.s.mu.Lock()
	c.s.Sent += int64(n)
	c.s.mu.Unlock()
	return n, err
}

func (c *counting) Unwrap() http.ResponseWriter { return c.ResponseWriter }

// CutAfter serves the file as asked, and breaks off after n bytes.
func (s *Source) CutAfter(n int) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		s.Serve(&cutting{ResponseWriter: w, left: n}, r)
		panic(http.ErrAbortHandler)
	}
}

type cutting struct {
	http.ResponseWriter
	left int
}

var errCut = errors.New("cut")

func (c *cutting) Write(p []byte) (int, error) {
	if c.left == 0 {
		return 0, errCut
	}
	p = p[:min(len(p), c.left)]
	c.left -= len(p)
	n, err := c.ResponseWriter.Write(p)
	_ = http.NewResponseController(c.ResponseWriter).Flush()
	return n, err
}

// Status answers with a status.
func Status(code int) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) }
}
