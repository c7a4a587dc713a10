package artifact_test

import (
	"encoding/base64"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hostler/hostler/broker/cmd/hostler/artifact"
	"github.com/hostler/hostler/taskcatalog/release"
	"github.com/hostler/hostler/taskcatalog/release/releasetest"
	"github.com/hostler/hostler/test/registry"
)

// A release that CI pushed and signed is read from the registry by its digest, with the reader's
// login.
func TestAReleaseIsReadFromARegistryByItsDigest(t *testing.T) {
	logins := t.TempDir()
	t.Setenv("DOCKER_CONFIG", logins)
	hub := registry.Start(t, registry.Config{User: "ci", Password: "s3cret"})
	login := filepath.Join(logins, "config.json")
	write := func() {
		t.Helper()
		if err := os.WriteFile(login, []byte(`{"auths":{"`+hub.Addr+`":{"auth":"`+base64.StdEncoding.EncodeToString([]byte("ci:s3cret"))+`"}}}`), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write()
	l, a := packed(t, "an agent", "1.0.0")
	mine := releasetest.Sign(t, a.Digest, key(t))
	if err := l.AddSignature(t.Context(), mine); err != nil {
		t.Fatal(err)
	}
	name := hub.Addr + "/hostler/agent"
	if _, err := repository(t, name).Push(t.Context(), l); err != nil {
		t.Fatal(err)
	}
	for _, at := range []string{"@" + a.Digest, ":1.0.0", ":1.0.0@" + a.Digest} {
		p, err := artifact.Pull(t.Context(), name+at, true)
		if err != nil || p.Repository != name || p.Digest != a.Digest || string(p.Manifest) != string(a.Manifest) || string(p.Statement) != string(a.Statement) || !same(p.Signatures, mine) {
			t.Errorf("%s: %+v (%v)", at, p, err)
		}
	}
	_, err := artifact.Pull(t.Context(), name+"@"+release.Digest([]byte("another")), true)
	refused(t, err, "release_not_found")
	_, err = artifact.Pull(t.Context(), name, true)
	refused(t, err, "registry_invalid")
	if err := os.Remove(login); err != nil {
		t.Fatal(err)
	}
	_, err = artifact.Pull(t.Context(), name+"@"+a.Digest, true)
	refused(t, err, "registry_failed")
}

// A registry with less content than its descriptors claim, or with other content, is not trusted.
func TestARegistryThatHasItNotIsNotBelieved(t *testing.T) {
	t.Setenv("DOCKER_CONFIG", t.TempDir())
	hub := registry.Start(t, registry.Config{})
	l, a := packed(t, "an agent", "1.0.0")
	if _, err := repository(t, hub.Addr+"/hostler/agent").Push(t.Context(), l); err != nil {
		t.Fatal(err)
	}
	m, err := release.ReadManifest(a.Manifest)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		instead func(w http.ResponseWriter, r *http.Request) bool
		code    string
	}{
		"no program": {func(w http.ResponseWriter, r *http.Request) bool {
			if strings.HasSuffix(r.URL.Path, m.Layer.Digest) {
				w.WriteHeader(http.StatusNotFound)
			}
			return strings.HasSuffix(r.URL.Path, m.Layer.Digest)
		}, "release_part_missing"},
		"another statement": {func(w http.ResponseWriter, r *http.Request) bool {
			if strings.HasSuffix(r.URL.Path, m.Statement.Digest) {
				_, _ = w.Write(make([]byte, m.Statement.Size))
			}
			return strings.HasSuffix(r.URL.Path, m.Statement.Digest)
		}, "registry_failed"},
		"nothing but errors": {func(w http.ResponseWriter, _ *http.Request) bool {
			w.WriteHeader(http.StatusForbidden)
			return true
		}, "registry_failed"},
	} {
		t.Run(name, func(t *testing.T) {
			through := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: hub.Addr})
			liar := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if !c.instead(w, r) {
					through.ServeHTTP(w, r)
				}
			}))
			defer liar.Close()
			_, err := artifact.Pull(t.Context(), strings.TrimPrefix(liar.URL, "http://")+"/hostler/agent@"+a.Digest, true)
			refused(t, err, c.code)
		})
	}
}
