package download

import (
	"bytes"
	"context"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hostler/hostler/agent/download/downloadtest"
)

var (
	content  = downloadtest.Content
	digestOf = downloadtest.Digest
	status   = downloadtest.Status
)

// memory is a checkpoint that survives its pull. after, if set, is called before and after each save:
// what it returns is the save's error.
type memory struct {
	raw    []byte
	saves  int
	before func(save int) error
	after  func(save int) error
	check  func(raw []byte)
}

func (m *memory) Load() ([]byte, error) { return m.raw, nil }

func (m *memory) Save(raw []byte) error {
	m.saves++
	if m.check != nil {
		m.check(raw)
	}
	if m.before != nil {
		if err := m.before(m.saves); err != nil {
			return err
		}
	}
	m.raw = bytes.Clone(raw)
	if m.after != nil {
		return m.after(m.saves)
	}
	return nil
}

// disk is a file that knows how much of it would survive a loss of power.
type disk struct {
	*os.File
	mu              sync.Mutex
	written, synced int64
}

func (d *disk) WriteAt(b []byte, off int64) (int, error) {
	n, err := d.File.WriteAt(b, off)
	d.mu.Lock()
	d.written = off + int64(n)
	d.mu.Unlock()
	return n, err
}

func (d *disk) Sync() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.synced = d.written
	return d.File.Sync()
}

// puller is a pull from a source to a file.
type puller struct {
	*downloadtest.Source
	t      *testing.T
	file   string
	keeps  *memory
	digest string
	most   int64
	fresh  int // times that a fresh credential was asked for
	token  string
	size   int64
	room   int64
	disk   *disk
}

func newPuller(t *testing.T, raw []byte) *puller {
	return &puller{
		Source: downloadtest.New(t, raw), t: t, file: filepath.Join(t.TempDir(), "file"), keeps: &memory{}, digest: digestOf(raw), most: 1 << 40, room: 1 << 40,
	}
}

// run runs the pull, and waits until the source rests.
func (p *puller) run(ctx context.Context) (int64, error) {
	p.t.Helper()
	defer synctest.Wait()
	f, err := os.OpenFile(p.file, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		p.t.Fatal(err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		p.t.Fatal(err)
	}
	p.disk = &disk{File: f, written: info.Size(), synced: info.Size()}
	client := Over(p.Transport())
	return (&Pull{
		Request: func(ctx context.Context, fresh bool) (*http.Request, error) {
			if fresh {
				p.fresh++
				p.token += "+"
			}
			req, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://hub.example/file?signature=SECRET", nil)
			if err == nil && p.token != "" {
				req.Header.Set("Authorization", "Bearer "+p.token)
			}
			return req, err
		},
		Do: client.HTTP().Do, Digest: p.digest, Size: p.size, Most: p.most, Room: func() (int64, error) { return p.room, nil }, File: p.disk, Checkpoint: p.keeps,
		Progress: func(int64, int64) {}, Now: time.Now,
	}).Run(ctx)
}

// interrupt leaves a pull with a checkpoint at 1 MiB.
func (p *puller) interrupt() {
	p.t.Helper()
	ctx, cancel := context.WithCancel(p.t.Context())
	p.Faults = []http.HandlerFunc{p.CutAfter(1 << 20), func(_ http.ResponseWriter, r *http.Request) { cancel(); <-r.Context().Done() }}
	if _, err := p.run(ctx); err == nil {
		p.t.Fatal("it ended well")
	}
}

// whole runs the pull, and checks the file.
func (p *puller) whole() {
	p.t.Helper()
	n, err := p.run(p.t.Context())
	if err != nil || n != int64(len(p.Raw)) {
		p.t.Fatalf("%d bytes of %d: %v\n%q", n, len(p.Raw), err, p.Asked)
	}
	if got, err := os.ReadFile(p.file); err != nil || !bytes.Equal(got, p.Raw) {
		p.t.Fatalf("the file has %d bytes that are not the content: %v", len(got), err)
	}
}
