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

// registry speaks as much of an OCI registry as is needed to pull.
type registry struct {
	parts map[string][]byte // by digest
	user  string            // and password; empty: anybody may pull

	mu     sync.Mutex
	cut    int      // how many answers more break off in their middle
	ranges []string // that were asked for
}

func newRegistry(t *testing.T, a *release.Artifact) (*registry, taskcatalog.ReleaseSource) {
	r := &registry{parts: map[string][]byte{a.Digest: a.Manifest, release.Digest(a.Statement): a.Statement, release.Digest(a.Layer): a.Layer}}
	s := httptest.NewServer(r)
	t.Cleanup(s.Close)
	return r, taskcatalog.ReleaseSource{Repository: strings.TrimPrefix(s.URL, "http://") + "/fleet/agent", PlainHTTP: true}
}

func (r *registry) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	user, password, _ := q.BasicAuth()
	if r.user != "" && user+":"+password != r.user {
		w.Header().Set("WWW-Authenticate", `Basic realm="registry"`)
		w.WriteHeader(http.StatusUnauthorized)
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

// long is a program that is some kilobytes when it is packed.
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
	reg.user = "pull:SECRET"
	for _, c := range []struct {
		name string
		with *taskcatalog.OCIPullCredential
		code taskcatalog.Code
	}{
		{"none", nil, CodeSourceRefused},
		{"a wrong one", &taskcatalog.OCIPullCredential{Username: "pull", Password: "SECRETS"}, CodeSourceRefused},
		{"its own", &taskcatalog.OCIPullCredential{Username: "pull", Password: "SECRET"}, ""},
	} {
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
