package steps

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/hostler/hostler/agent/download"
	"github.com/hostler/hostler/agent/download/downloadtest"
	"github.com/hostler/hostler/agent/host/hosttest"
	"github.com/hostler/hostler/taskcatalog"
)

const ociDir = "/var/lib/models/llama"

// oci is a step artifact.pull_oci with a registry of one artifact.
type oci struct {
	*blob
	parts map[string][]byte // by digest
	// token, if set, is what the registry wants to see. Else it sends everybody for an anonymous one.
	token string
}

func layer(raw []byte, title string) ocispec.Descriptor {
	d := ocispec.Descriptor{MediaType: "application/octet-stream", Digest: digest.FromBytes(raw), Size: int64(len(raw))}
	if title != "" {
		d.Annotations = map[string]string{ocispec.AnnotationTitle: title}
	}
	return d
}

var (
	ociConfig  = downloadtest.Content(4, 700)
	ociWeights = downloadtest.Content(5, blobSize)
)

func newOCI(t *testing.T, layers ...ocispec.Descriptor) *oci {
	t.Helper()
	if layers == nil {
		layers = []ocispec.Descriptor{layer(ociConfig, "config.json"), layer(ociWeights, "parts/weights.bin"), layer(nil, "empty"), layer([]byte("x"), "")}
	}
	raw, err := json.Marshal(ocispec.Manifest{
		Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageManifest, Config: ocispec.DescriptorEmptyJSON, Layers: layers,
	})
	if err != nil {
		t.Fatal(err)
	}
	o := &oci{blob: &blob{Source: downloadtest.New(t, raw), t: t, keeps: &kept{}, most: 1 << 30}, parts: map[string][]byte{}}
	for _, part := range [][]byte{raw, ociConfig, ociWeights, {}} {
		o.parts[downloadtest.Digest(part)] = part
	}
	o.host, o.dir = hosttest.Box(t)
	o.host.Now = time.Now
	o.host.Downloads = download.Over(o.Transport())
	o.args = Args{"source": "registry.example/team/llama", "digest": downloadtest.Digest(raw), "root": "/var/lib/models", "name": "llama"}
	o.Always = o.registry
	return o
}

// registry answers as a registry does, with tokens.
func (o *oci) registry(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/token" {
		_, _ = w.Write([]byte(`{"token":"anyone"}`))
		return
	}
	want := o.token
	if want == "" {
		want = "anyone"
	}
	if r.Header.Get("Authorization") != "Bearer "+want {
		w.Header().Set("WWW-Authenticate", `Bearer realm="https://registry.example/token",service="registry.example"`)
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	raw, ok := o.parts[r.URL.Path[strings.LastIndex(r.URL.Path, "/")+1:]]
	if !ok || !strings.HasPrefix(r.URL.Path, "/v2/team/llama/") {
		w.WriteHeader(http.StatusNotFound)
		return
	}
	o.Raw = raw
	o.Serve(w, r)
}

func (o *oci) pull() (Proof, error) {
	defer synctest.Wait()
	kind, _ := Lookup("artifact.pull_oci")
	return kind.Do(o.t.Context(), o.step())
}

// proven runs the looks of the pull and of a verification.
func (o *oci) proven(want bool) {
	o.t.Helper()
	kind, _ := Lookup("artifact.pull_oci")
	if _, done, err := kind.Look(o.t.Context(), o.step()); err != nil || done != want {
		o.t.Errorf("a look says %v, %v", done, err)
	}
	kind, _ = Lookup("artifact.verify")
	s := o.step()
	s.Args = Args{"path": ociDir, "digest": o.args["digest"]}
	if _, err := kind.Do(o.t.Context(), s); (err == nil) != want {
		o.t.Errorf("a verification says %v", err)
	}
}

func (o *oci) has(name string, want []byte) {
	o.t.Helper()
	if got, err := os.ReadFile(o.path(ociDir + "/" + name)); err != nil || !bytes.Equal(got, want) {
		o.t.Errorf("%s has %d bytes: %v", name, len(got), err)
	}
}

func TestAnArtifactIsPulledAsItsFiles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOCI(t)
		o.proven(false)
		p, err := o.pull()
		if err != nil || p.Output != ociDir || p.Digest != o.args["digest"] || p.Bytes != int64(len(ociConfig)+len(ociWeights)) {
			t.Fatalf("%+v %v\n%q", p, err, o.Asked)
		}
		o.has("config.json", ociConfig)
		o.has("parts/weights.bin", ociWeights)
		o.has("empty", nil)
		o.proven(true)
		for _, name := range []string{"config.json", "parts/weights.bin", manifestName} {
			if err := os.WriteFile(o.path(ociDir+"/"+name), []byte("changed"), 0o644); err != nil {
				t.Fatal(err)
			}
			o.proven(false)
			if _, err := o.pull(); err != nil {
				t.Fatal(err)
			}
			o.proven(true)
		}
	})
}

// A file that is whole is not asked for again, and a file that is not goes on.
func TestAnArtifactGoesOnWhereItBrokeOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOCI(t)
		cut := 1
		o.Always = func(w http.ResponseWriter, r *http.Request) {
			if strings.HasSuffix(r.URL.Path, downloadtest.Digest(ociWeights)) && r.Header.Get("Authorization") != "" && cut > 0 {
				cut--
				o.Raw = ociWeights
				o.CutAfter(1<<20)(w, r)
				return
			}
			o.registry(w, r)
		}
		if _, err := o.pull(); err != nil {
			t.Fatal(err)
		}
		if o.Sent > blobSize+10<<10 {
			t.Errorf("%d bytes", o.Sent)
		}
		o.proven(true)
		sent := o.Sent
		if _, err := o.pull(); err != nil || o.Sent != sent {
			t.Errorf("%d bytes came again: %v", o.Sent-sent, err)
		}
	})
}

// next makes the registry have another artifact, and the step name it.
func (o *oci) next(layers ...ocispec.Descriptor) {
	o.t.Helper()
	raw, err := json.Marshal(ocispec.Manifest{
		Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageManifest, Config: ocispec.DescriptorEmptyJSON, Layers: layers,
	})
	if err != nil {
		o.t.Fatal(err)
	}
	o.parts[downloadtest.Digest(raw)] = raw
	o.args["digest"] = downloadtest.Digest(raw)
}

// lists the files below the directory of the artifact.
func (o *oci) lists() (all []string) {
	o.t.Helper()
	dir := o.path(ociDir)
	err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if name != dir && err == nil {
			all = append(all, strings.TrimPrefix(name, dir+"/"))
		}
		return err
	})
	if err != nil {
		o.t.Error(err)
	}
	return all
}

// A place has the files of one artifact: those of the former one go, also what it had pulled in part, and what both have
// does not come again. What no artifact brought stays.
func TestTheFilesOfAFormerArtifactGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOCI(t)
		if _, err := o.pull(); err != nil {
			t.Fatal(err)
		}
		for name, raw := range map[string]string{"notes": "own", target{name: "parts/weights.bin"}.work(): "half"} {
			if err := os.WriteFile(o.path(ociDir+"/"+name), []byte(raw), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		o.next(layer(ociConfig, "config.json"), layer(ociConfig, "empty/second.json"))
		sent, attempts := o.Sent, 0
		for o.keeps.kill = errors.New("killed"); attempts < 30; attempts++ { // each attempt lives one save longer
			o.keeps.alive = attempts
			if _, err := o.pull(); err == nil {
				break
			}
			o.proven(false)
		}
		if attempts < 3 || o.Sent-sent > 64<<10 {
			t.Errorf("%d bytes came in %d attempts", o.Sent-sent, attempts)
		}
		want := []string{manifestName, "config.json", "empty", "empty/second.json", "notes"}
		if got := o.lists(); !slices.Equal(got, want) {
			t.Errorf("the place has %q, want %q", got, want)
		}
		o.proven(true)
	})
}

func TestAPrivateArtifactWantsItsToken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOCI(t)
		o.token = "SECRET-2"
		_, err := o.pull()
		if taskcatalog.CodeOf(err, "") != taskcatalog.CodeSourceRefused {
			t.Errorf("without a credential: %v", err)
		}
		minted := 0
		mint := func() []byte { minted++; return []byte(`{"token":"SECRET-` + string(rune('0'+minted)) + `"}`) }
		o.args["credential"] = tokenOf(mint)
		if _, err := o.pull(); err != nil || minted != 2 {
			t.Errorf("%d tokens: %v", minted, err)
		}
		o.token = "another"
		o.parts[downloadtest.Digest(ociConfig)] = nil
		if err := os.RemoveAll(o.path(ociDir)); err != nil {
			t.Fatal(err)
		}
		if _, err := o.pull(); taskcatalog.CodeOf(err, "") != taskcatalog.CodeSourceRefused || strings.Contains(err.Error(), "SECRET") {
			t.Errorf("%v", err)
		}
	})
}

// The registry's store is elsewhere: the token does not go there.
func TestATokenStaysWithItsRegistry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOCI(t)
		o.token = "SECRET"
		o.args["credential"] = tokenOf(func() []byte { return []byte(`{"token":"SECRET"}`) })
		shown := 0
		o.Always = func(w http.ResponseWriter, r *http.Request) {
			switch {
			case r.Host == "store.registry.example":
				shown++
				if r.Header.Get("Authorization") != "" {
					t.Errorf("the store was shown %q", r.Header.Get("Authorization"))
				}
				o.Raw = o.parts[filepath.Base(r.URL.Path)]
				o.Serve(w, r)
			case strings.Contains(r.URL.Path, "/blobs/"):
				http.Redirect(w, r, "https://store.registry.example/"+filepath.Base(r.URL.Path), http.StatusTemporaryRedirect)
			default:
				o.registry(w, r)
			}
		}
		if _, err := o.pull(); err != nil || shown != 3 {
			t.Errorf("%d parts: %v", shown, err)
		}
	})
}

func TestAnArtifactStaysInItsDirectory(t *testing.T) {
	for name, title := range map[string]string{
		"climbs": "../../etc/passwd", "climbs inside": "a/../../../../etc/passwd", "is absolute": "/etc/passwd", "is hidden": ".bashrc",
		"is the manifest": manifestName, "is the work of another": target{name: "config.json"}.work(), "is empty": "", "has a part without a name": "a//b",
		"has a backslash": `a\b`, "has a NUL": "a\x00b", "is long": strings.Repeat("a", 300), "is an option": "-rf/../x",
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := layer(ociConfig, "x")
				d.Annotations[ocispec.AnnotationTitle] = title
				o := newOCI(t, layer(ociWeights, "first"), d)
				if _, err := o.pull(); taskcatalog.CodeOf(err, "") != taskcatalog.CodePathRefused {
					t.Errorf("%v", err)
				}
				if entries, _ := os.ReadDir(o.path(ociDir)); len(entries) != 0 {
					t.Errorf("%v", entries)
				}
			})
		})
	}
}

func TestManifestsThatAreRefused(t *testing.T) {
	swapped := layer(ociConfig, "config.json")
	swapped.Digest = digest.FromString("other")
	shorter, none, negative := layer(ociConfig, "config.json"), layer(ociConfig, "config.json"), layer(ociConfig, "config.json")
	shorter.Size = 3
	none.Digest, negative.Size = "sha512:aa", -5
	huge := layer(ociConfig, "b")
	huge.Size = 1<<63 - 1
	many := make([]ocispec.Descriptor, maxOCIFiles+1)
	for i := range many {
		many[i] = layer(ociConfig, "f"+strings.Repeat("x", i%200))
	}
	for name, c := range map[string]struct {
		layers []ocispec.Descriptor
		code   taskcatalog.Code
	}{
		"a layer that the registry swaps":  {[]ocispec.Descriptor{swapped}, taskcatalog.CodeDigestMismatch},
		"a layer that is longer than said": {[]ocispec.Descriptor{shorter}, taskcatalog.CodeArtifactTooBig},
		"no digest":                        {[]ocispec.Descriptor{none}, taskcatalog.CodeSourceRefused},
		"a negative size":                  {[]ocispec.Descriptor{layer(ociWeights, "a"), negative}, taskcatalog.CodeSourceRefused},
		"a size that runs over":            {[]ocispec.Descriptor{layer(ociConfig, "a"), huge}, taskcatalog.CodeArtifactTooBig},
		"a file twice":                     {[]ocispec.Descriptor{layer(ociConfig, "a"), layer(ociWeights, "a")}, taskcatalog.CodeSourceRefused},
		"no file":                          {[]ocispec.Descriptor{layer(ociConfig, "")}, taskcatalog.CodeSourceRefused},
		"too many":                         {many, taskcatalog.CodeSourceRefused},
		"a file that is a directory":       {[]ocispec.Descriptor{layer(ociConfig, "a"), layer(ociWeights, "a/b")}, taskcatalog.CodePathRefused},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o := newOCI(t, c.layers...)
				o.parts[digest.FromString("other").String()] = ociConfig
				if _, err := o.pull(); taskcatalog.CodeOf(err, "") != c.code {
					t.Errorf("%v", err)
				}
			})
		})
	}
}

// tokenOf is a credential that is minted anew each time.
func tokenOf(mint func() []byte) *Secret {
	return NewSecret(mint(), func(context.Context) ([]byte, error) { return mint(), nil })
}
