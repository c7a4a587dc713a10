package download

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// BenchmarkPull compares a pull over TLS with a copy of the same body to a file that is synced at its end, in turns. A
// pull hashes and keeps checkpoints beside. The metric of-copy is the pull's rate as a part of the copy's.
func BenchmarkPull(b *testing.B) {
	raw := content(1, 256<<20)
	digest := digestOf(raw)
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(raw))
	}))
	defer server.Close()
	transport := server.Client().Transport.(*http.Transport)
	transport.DialContext = func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, server.Listener.Addr().String())
	}
	client := Over(transport).HTTP()
	request := func(ctx context.Context, _ bool) (*http.Request, error) {
		return http.NewRequestWithContext(ctx, http.MethodGet, "https://example.com/file", nil)
	}
	file := func() *os.File {
		f, err := os.Create(filepath.Join(b.TempDir(), "file"))
		if err != nil {
			b.Fatal(err)
		}
		return f
	}
	var pulls, copies time.Duration
	b.SetBytes(int64(len(raw)))
	for b.Loop() {
		f, began := file(), time.Now()
		p := &Pull{
			Request: request, Do: client.Do, Digest: digest, Most: 1 << 40, Room: func() (int64, error) { return 1 << 40, nil }, File: f, Checkpoint: &memory{},
			Progress: func(int64, int64) {}, Now: time.Now,
		}
		if _, err := p.Run(b.Context()); err != nil {
			b.Fatal(err)
		}
		pulls += time.Since(began)
		_ = f.Close()
		b.StopTimer()
		f, began = file(), time.Now()
		req, _ := request(b.Context(), false)
		res, err := client.Do(req)
		if err != nil {
			b.Fatal(err)
		}
		if _, err := io.Copy(f, res.Body); err != nil {
			b.Fatal(err)
		}
		if err := f.Sync(); err != nil {
			b.Fatal(err)
		}
		copies += time.Since(began)
		_, _ = res.Body.Close(), f.Close()
		b.StartTimer()
	}
	b.ReportMetric(float64(copies)/float64(pulls), "of-copy")
}
