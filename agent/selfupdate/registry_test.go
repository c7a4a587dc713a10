package selfupdate

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hostler/hostler/taskcatalog"
	"github.com/hostler/hostler/taskcatalog/release"
)

// registry implements as much of an OCI registry as a pull needs.
type fakeRegistry struct {
	parts map[string][]byte // by digest
	token string            // empty: anybody may pull
	realm string            // where tokens are made
	away  string            // where layers are; empty: here

	mu     sync.Mutex
	cut    int      // how many more answers are cut in their middle
	ranges []string // requested ranges
}

func newRegistry(t *testing.T, a *release.Artifact) (*fakeRegistry, taskcatalog.ReleaseSource) {
	r := &fakeRegistry{parts: map[string][]byte{a.Digest: a.Manifest, release.Digest(a.Statement): a.Statement, release.Digest(a.Layer): a.Layer}}
	s := httptest.NewServer(r)
	t.Cleanup(s.Close)
	return r, taskcatalog.ReleaseSource{Repository: strings.TrimPrefix(s.URL, "http://") + "/fleet/agent", PlainHTTP: true}
}

func (r *fakeRegistry) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	if r.token != "" && q.Header.Get("Authorization") != "Bearer "+r.token {
		w.Header().Set("WWW-Authenticate", `Bearer realm="`+r.realm+`",service="registry"`)
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	if r.away != "" && strings.Contains(q.URL.Path, "/blobs/") {
		http.Redirect(w, q, r.away+q.URL.Path, http.StatusTemporaryRedirect)
		return
	}
	kind, digest, ok := strings.Cut(strings.TrimPrefix(q.URL.Path, "/v2/fleet/agent/"), "/")
	raw, known := r.parts[digest]
	if !ok || !known {
		w.WriteHeader(http.StatusNotFound)
		return
	}
	w.Header().Set("Docker-Content-Digest", digest)
	w.Header().Set("Content-Type", "application/octet-stream")
	if kind == "manifests" {
		w.Header().Set("Content-Type", release.MediaManifest)
	}
	r.mu.Lock()
	r.ranges = append(r.ranges, q.Header.Get("Range"))
	breaks := r.cut > 0 && kind == "blobs" && len(raw) > 4096 && q.Method == http.MethodGet
	if breaks {
		r.cut--
	}
	r.mu.Unlock()
	if breaks {
		_, _ = w.Write(raw[:len(raw)/3])
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	}
	http.ServeContent(w, q, "", time.Time{}, bytes.NewReader(raw))
}

// long is a program that has some kilobytes when packed.
func (w *world) long(version string) published {
	var b strings.Builder
	for i := range 4000 {
		b.WriteByte(byte('a' + (i*i*31+i*7)%23))
		b.WriteString(release.Digest([]byte{byte(i), byte(i >> 8)})[7:15])
	}
	return w.publish(version, b.String())
}

func TestAReleaseComesFromARegistry(t *testing.T) {
	w := newWorld(t)
	w.store.now = time.Now
	p := w.long("1.1.0")
	reg, source := newRegistry(t, p.Artifact)
	reg.cut = 1
	var err error
	if p.want.Source, err = NewRegistry(source, nil); err != nil {
		t.Fatal(err)
	}
	staged, err := w.stager().Stage(t.Context(), p.want)
	if err != nil || staged.Slot != "1.1.0" || staged.Retries != 1 {
		t.Fatalf("%+v %v", staged, err)
	}
	resumed := false
	for _, r := range reg.ranges {
		resumed = resumed || strings.HasPrefix(r, "bytes=") && r != "bytes=0-"
	}
	if !resumed {
		t.Errorf("asked for %q only", reg.ranges)
	}
	again, err := w.stager().Stage(t.Context(), p.want)
	if err != nil || !again.Already || again.Fetched >= staged.Fetched {
		t.Errorf("once more: %+v %v", again, err)
	}
}

func TestAPrivateRegistryWantsItsCredential(t *testing.T) {
	w := newWorld(t)
	p := w.publish("1.1.0", "fine")
	reg, source := newRegistry(t, p.Artifact)
	reg.token = "SECRET"
	for _, c := range []struct {
		name string
		with *taskcatalog.OCIPullCredential
		at   string // where tokens are made
		code taskcatalog.Code
	}{
		{"none", nil, "http://" + source.Repository, CodeSourceRefused},
		{"a wrong one", &taskcatalog.OCIPullCredential{Token: "SECRETS"}, "https://10.0.0.1", CodeSourceRefused},
		{"its own", &taskcatalog.OCIPullCredential{Token: "SECRET"}, "https://10.0.0.1", ""}, // a network on which oras requests nothing
	} {
		reg.realm = c.at + "/token"
		var err error
		if p.want.Source, err = NewRegistry(source, c.with); err != nil {
			t.Fatal(err)
		}
		_, err = w.stager().Stage(t.Context(), p.want)
		if taskcatalog.CodeOf(err, "") != c.code {
			t.Errorf("%s: %v, want %s", c.name, err, c.code)
		}
		if err != nil && strings.Contains(err.Error(), "SECRET") {
			t.Errorf("%s: the error holds the credential: %v", c.name, err)
		}
	}
}

// Registries keep layers elsewhere and redirect there. The token gives access to the registry, and
// is not sent to the store behind the redirect.
func TestATokenDoesNotGoWhereTheRegistryRedirects(t *testing.T) {
	w := newWorld(t)
	p := w.publish("1.1.0", "fine")
	reg, source := newRegistry(t, p.Artifact)
	var shown []string
	elsewhere := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, q *http.Request) {
		shown = append(shown, q.Header.Get("Authorization"))
		(&fakeRegistry{parts: reg.parts}).ServeHTTP(rw, q)
	}))
	t.Cleanup(elsewhere.Close)
	reg.token, reg.away = "SECRET", elsewhere.URL
	var err error
	if p.want.Source, err = NewRegistry(source, &taskcatalog.OCIPullCredential{Token: "SECRET"}); err != nil {
		t.Fatal(err)
	}
	if _, err := w.stager().Stage(t.Context(), p.want); err != nil {
		t.Fatal(err)
	}
	for _, header := range shown {
		if header != "" {
			t.Errorf("it was shown %q", header)
		}
	}
	if len(shown) == 0 {
		t.Error("nothing came from there")
	}
}

func TestAPartThatIsCutShortAtTheRegistryIsNotWaitedFor(t *testing.T) {
	w := newWorld(t)
	p := w.publish("1.1.0", "fine")
	reg, source := newRegistry(t, p.Artifact)
	reg.parts[release.Digest(p.Layer)] = p.Layer[:len(p.Layer)/2]
	r, err := NewRegistry(source, nil)
	if err != nil {
		t.Fatal(err)
	}
	p.want.Source = r
	if _, err := w.stager().Stage(t.Context(), p.want); taskcatalog.CodeOf(err, "") != CodeSourceRefused || !strings.Contains(err.Error(), "push the release again") {
		t.Errorf("%v", err)
	}
}

func TestAPartThatTheRegistryDoesNotHaveIsNotWaitedFor(t *testing.T) {
	w := newWorld(t)
	p := w.publish("1.1.0", "fine")
	reg, source := newRegistry(t, p.Artifact)
	delete(reg.parts, release.Digest(p.Layer))
	r, err := NewRegistry(source, nil)
	if err != nil {
		t.Fatal(err)
	}
	p.want.Source = r
	if _, err := w.stager().Stage(t.Context(), p.want); taskcatalog.CodeOf(err, "") != CodeSourceRefused {
		t.Errorf("%v", err)
	}
	body, err := r.Open(t.Context(), release.Part{MediaType: release.MediaStatement, Digest: release.Digest(p.Statement), Size: int64(len(p.Statement))}, 10)
	if err != nil {
		t.Fatal(err)
	}
	if raw, err := io.ReadAll(body); err != nil || !bytes.Equal(raw, p.Statement[10:]) {
		t.Errorf("%q %v", raw, err)
	}
}
