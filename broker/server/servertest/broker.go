package servertest

import (
	"bytes"
	"context"
	"crypto/x509"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/clientfile"
	"github.com/hostler/hostler/broker/server"
	"github.com/hostler/hostler/pki"
)

// often is the longest time that a test waits for the broker to see a move of the clock.
const often = 100 * time.Millisecond

// Broker is a running broker.
type Broker struct {
	*server.Server // nil if the broker is a program of its own
	Dir            string
	Token          string // of the admin
	Roots          *x509.CertPool

	operators, agents, root string

	t      testing.TB
	now    func() time.Time
	client *http.Client
	ahead  *atomic.Int64 // ahead of the machine's clock, in nanoseconds
	stop   context.CancelFunc
	once   sync.Once
	ended  chan struct{}
	err    error
}

// Start runs a broker until the test ends. A change may set the data directory of an earlier
// broker, or the database.
func Start(t testing.TB, change ...func(*server.Config)) *Broker {
	t.Helper()
	return start(t, new(atomic.Int64), change)
}

// Again stops the broker and starts another over the same data, with the same clock.
func (b *Broker) Again(t testing.TB, change ...func(*server.Config)) *Broker {
	t.Helper()
	if err := b.Stop(); err != nil {
		t.Fatalf("the broker ended with: %v", err)
	}
	same := func(c *server.Config) { c.DataDir = b.Dir }
	return start(t, b.ahead, append([]func(*server.Config){same}, change...))
}

func start(t testing.TB, ahead *atomic.Int64, change []func(*server.Config)) *Broker {
	t.Helper()
	b := &Broker{t: t, ahead: ahead, ended: make(chan struct{})}
	b.now = func() time.Time { return time.Now().Add(time.Duration(b.ahead.Load())) }
	c := server.Config{
		DataDir: filepath.Join(t.TempDir(), "broker"), Listen: "127.0.0.1:0", AgentListen: "127.0.0.1:0", RelayListen: "127.0.0.1:0",
		Version: "test", Now: b.Now, Often: often,
	}
	for _, f := range change {
		f(&c)
	}
	var err error
	if b.Server, err = server.New(t.Context(), c); err != nil {
		t.Fatalf("cannot start a broker: %v", err)
	}
	ctx, stop := context.WithCancel(context.Background())
	b.Dir, b.stop = c.DataDir, stop
	b.operators, b.agents, b.root = b.Server.OperatorURL(), b.Server.AgentURL(), b.Server.RootSHA256()
	go func() {
		defer close(b.ended)
		b.err = b.Run(ctx)
	}()
	t.Cleanup(func() {
		if err := b.Stop(); err != nil {
			t.Errorf("the broker ended with: %v", err)
		}
	})
	b.open(t)
	return b
}

// Attach is a broker that runs as a program of its own on this machine. The caller starts and ends
// the program, and gives its data directory, its addresses and its clock.
func Attach(t testing.TB, dir, operators, agents string, now func() time.Time) *Broker {
	t.Helper()
	b := &Broker{t: t, Dir: dir, operators: operators, agents: agents, now: now}
	b.open(t)
	return b
}

// open reads the files that the broker left for its first operator.
func (b *Broker) open(t testing.TB) {
	t.Helper()
	token, err := os.ReadFile(filepath.Join(b.Dir, "admin.token"))
	if err != nil {
		t.Fatal(err)
	}
	b.Token = strings.TrimSpace(string(token))
	file, err := clientfile.Load(filepath.Join(b.Dir, "client.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if b.Roots, err = file.Roots(); err != nil {
		t.Fatal(err)
	}
	if b.root == "" {
		root, err := file.Root()
		if err != nil {
			t.Fatal(err)
		}
		b.root = pki.Fingerprint(root)
	}
	b.client = &http.Client{Transport: &http.Transport{TLSClientConfig: pki.ClientConfig(b.Roots, nil, b.Now), ForceAttemptHTTP2: true}}
	t.Cleanup(b.client.CloseIdleConnections)
}

// OperatorURL is the operators' URL of the broker.
func (b *Broker) OperatorURL() string { return b.operators }

// AgentURL is the nodes' URL of the broker.
func (b *Broker) AgentURL() string { return b.agents }

// RootSHA256 is the fingerprint that nodes pin.
func (b *Broker) RootSHA256() string { return b.root }

// Now is the broker's clock.
func (b *Broker) Now() time.Time { return b.now() }

// Clock is the machine's clock, for things made before the broker.
func Clock() time.Time { return time.Now() }

// Advance moves the broker's clock.
func (b *Broker) Advance(d time.Duration) { b.ahead.Add(int64(d)) }

// LetPass moves the broker's clock on until look reports success, and gives up after ninety seconds
// of real time. pass is the time to move on before the next look: zero while the broker works,
// because moving the clock does not speed up its work.
func (b *Broker) LetPass(look func() (there bool, pass time.Duration)) bool {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(90 * time.Second); time.Now().Before(deadline); <-tick.C {
		there, pass := look()
		if there {
			return true
		}
		for ; pass > 0 && b.resting(); pass -= passAtOnce {
			b.Advance(min(pass, passAtOnce))
		}
	}
	return false
}

// passAtOnce is shorter than half of a run's lease, so that a run claimed just before the clock
// moves keeps its lease.
const passAtOnce = 25 * time.Second

// resting reports whether no run is claimed. A stage under way while the clock moves would lose its
// lease and begin again, on a slow machine forever.
func (b *Broker) resting() bool {
	b.t.Helper()
	var s api.FreezeStatus
	a := b.Ask(b.t, b.Token, http.MethodGet, "/freeze", nil)
	return a.Status == http.StatusOK && json.Unmarshal(a.Body, &s) == nil && s.UnderWay.Stages == 0
}

// Rested waits until nodes are answered again: after a leap of the clock the broker's deny list is
// too old.
func (b *Broker) Rested(t testing.TB) {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: pki.PinnedConfig(b.RootSHA256(), "127.0.0.1", b.Now)}}
	defer client.CloseIdleConnections()
	Eventually(t, "nodes to be answered", func() bool {
		res, err := client.Post(b.AgentURL()+"/internal/v1/nodes/enroll", "application/json", strings.NewReader("{}"))
		if err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close()
		return res.StatusCode != http.StatusServiceUnavailable
	})
}

// Stop drains the broker and returns Run's result.
func (b *Broker) Stop() error {
	b.once.Do(b.stop)
	<-b.ended
	return b.err
}

// Answer is the answer to an operator's request.
type Answer struct {
	Status int
	Header http.Header
	Body   []byte
}

// Code is the code of a problem, "" of a success.
func (a Answer) Code() string {
	var p api.Problem
	if a.Status/100 == 2 || json.Unmarshal(a.Body, &p) != nil {
		return ""
	}
	return p.Code
}

// Ask makes a request as an operator. A reader or a text is sent unchanged as the body, any other
// value as JSON. path is a route's, see api.Path, unless it is a full URL.
func (b *Broker) Ask(t testing.TB, token, method, path string, body any) Answer {
	t.Helper()
	return b.AskOnce(t, "", token, method, path, body)
}

// AskOnce is Ask with an idempotency key, unless the key is empty.
func (b *Broker) AskOnce(t testing.TB, key, token, method, path string, body any) Answer {
	t.Helper()
	header := http.Header{}
	if key != "" {
		header.Set("Idempotency-Key", key)
	}
	return b.AskWith(t, header, token, method, path, body)
}

// AskWith is Ask with headers, which it may change.
func (b *Broker) AskWith(t testing.TB, header http.Header, token, method, path string, body any) Answer {
	t.Helper()
	var reader io.Reader
	contentType := "application/json"
	switch v := body.(type) {
	case nil:
	case string:
		reader = strings.NewReader(v)
	case io.Reader:
		reader, contentType = v, "application/octet-stream"
	default:
		raw, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		reader = bytes.NewReader(raw)
	}
	target := path
	if !strings.HasPrefix(path, "https://") {
		target = b.OperatorURL() + api.Path(path)
	}
	req, err := http.NewRequestWithContext(t.Context(), method, target, reader)
	if err != nil {
		t.Fatal(err)
	}
	req.Header = header
	if reader != nil {
		req.Header.Set("Content-Type", contentType)
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	res, err := b.client.Do(req)
	if err != nil {
		t.Fatalf("%s %s: %v", method, path, err)
	}
	defer func() { _ = res.Body.Close() }()
	raw, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatalf("%s %s: %v", method, path, err)
	}
	return Answer{Status: res.StatusCode, Header: res.Header, Body: raw}
}

// Must makes a request as the admin, which must succeed, and decodes the answer.
func Must[T any](t testing.TB, b *Broker, method, path string, body any) T {
	t.Helper()
	var out T
	a := b.Ask(t, b.Token, method, path, body)
	if a.Status/100 != 2 {
		t.Fatalf("%s %s: %d %s", method, path, a.Status, a.Body)
	}
	if err := json.Unmarshal(a.Body, &out); err != nil {
		t.Fatalf("%s %s: %v in %s", method, path, err, a.Body)
	}
	return out
}

// NewToken makes an operator token and returns its secret.
func (b *Broker) NewToken(t testing.TB, c api.TokenCreate) string {
	t.Helper()
	return Must[api.TokenCreated](t, b, http.MethodPost, "/tokens", c).Secret
}

// Eventually polls until ok, for up to ninety seconds.
func Eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(25 * time.Millisecond) // a token may ask 50 times a second
	defer tick.Stop()
	for deadline := time.Now().Add(90 * time.Second); time.Now().Before(deadline); <-tick.C {
		if ok() {
			return
		}
	}
	t.Fatalf("waited in vain for: %s", what)
}
