package registry

import (
	"bytes"
	"context"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2"
	"oras.land/oras-go/v2/content/memory"
	"oras.land/oras-go/v2/registry/remote"

	"github.com/hostler/hostler/agent/download"
	"github.com/hostler/hostler/agent/host/hosttest"
	"github.com/hostler/hostler/agent/steps"
	"github.com/hostler/hostler/taskcatalog"
)

// nothing is a checkpoint that is never read.
type nothing struct{}

func (nothing) Load() ([]byte, error) { return nil, nil }
func (nothing) Save([]byte) error     { return nil }

// What oras pushes to a registry, a step artifact.pull_oci brings to the node.
func TestAStepPullsWhatOrasHasPushed(t *testing.T) {
	hub := Start(t, Config{})
	files := map[string][]byte{"config.json": []byte(`{"layers":2}`), "parts/weights.bin": bytes.Repeat([]byte("weights "), 1<<18)}
	repo, err := remote.NewRepository(hub.Addr + "/team/llama")
	if err != nil {
		t.Fatal(err)
	}
	repo.PlainHTTP = true
	store := memory.New()
	var layers []ocispec.Descriptor
	for title, raw := range files {
		d, err := oras.PushBytes(t.Context(), store, "application/octet-stream", raw)
		if err != nil {
			t.Fatal(err)
		}
		d.Annotations = map[string]string{ocispec.AnnotationTitle: title}
		layers = append(layers, d)
	}
	manifest, err := oras.PackManifest(t.Context(), store, oras.PackManifestVersion1_1, "application/vnd.example.model", oras.PackManifestOptions{Layers: layers})
	if err != nil {
		t.Fatal(err)
	}
	if err := oras.CopyGraph(t.Context(), store, repo, manifest, oras.DefaultCopyGraphOptions); err != nil {
		t.Fatal(err)
	}

	h, dir := hosttest.Box(t)
	h.Now = time.Now
	h.Downloads = download.Over(&http.Transport{ // the registry has no TLS
		DisableCompression: true,
		DialTLSContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, network, hub.Addr)
		},
	})
	step := &steps.Step{
		Plan: &taskcatalog.OperationPlan{Artifacts: &taskcatalog.PlanArtifacts{MaxBytes: 1 << 30}}, Host: h, Checkpoint: nothing{},
		Progress: func(int, string) {},
		Args: steps.Args{
			"source": "registry.example/team/llama", "digest": manifest.Digest.String(), "root": "/var/lib/models", "name": "llama",
		},
	}
	kind, _ := steps.Lookup("artifact.pull_oci")
	if p, err := kind.Do(t.Context(), step); err != nil || p.Output != "/var/lib/models/llama" {
		t.Fatalf("%+v %v", p, err)
	}
	for title, want := range files {
		if got, err := os.ReadFile(filepath.Join(dir, "var/lib/models/llama", title)); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s has %d bytes: %v", title, len(got), err)
		}
	}
	if _, done, err := kind.Look(t.Context(), step); err != nil || !done {
		t.Errorf("a look says %v, %v", done, err)
	}
}
