package registry

import (
	"bytes"
	"cmp"
	"context"
	"crypto"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/hostler/hostler/taskcatalog/release"
)

// PushFile pushes an artifact of one file to a repository, and returns its digest. The registry must ask
// for no account.
func (r *Registry) PushFile(ctx context.Context, repository, name string, content []byte) (of string, err error) {
	layer, err := r.pushBlob(ctx, repository, "application/octet-stream", content)
	if err != nil {
		return "", err
	}
	layer.Annotations = map[string]string{ocispec.AnnotationTitle: name}
	return r.pushManifest(ctx, repository, "", layer)
}

// Sign pushes a signature of a digest, as "cosign sign --key" of cosign 2 does.
func (r *Registry) Sign(ctx context.Context, repository, of string, key crypto.Signer) error {
	s, err := release.Sign(of, repository, key)
	if err != nil {
		return err
	}
	layer, err := r.pushBlob(ctx, repository, release.MediaPayload, s.Payload)
	if err != nil {
		return err
	}
	layer.Annotations = map[string]string{release.AnnotationSignature: base64.StdEncoding.EncodeToString(s.Signature)}
	_, err = r.pushManifest(ctx, repository, strings.Replace(of, ":", "-", 1)+".sig", layer)
	return err
}

// pushManifest pushes a manifest of one layer; without a tag it is found by its digest alone.
func (r *Registry) pushManifest(ctx context.Context, repository, tag string, layer ocispec.Descriptor) (of string, err error) {
	config, err := r.pushBlob(ctx, repository, ocispec.MediaTypeImageConfig, []byte("{}"))
	if err != nil {
		return "", err
	}
	manifest := ocispec.Manifest{MediaType: ocispec.MediaTypeImageManifest, Config: config, Layers: []ocispec.Descriptor{layer}}
	manifest.SchemaVersion = 2
	raw, err := json.Marshal(manifest)
	if err != nil {
		return "", err
	}
	of = digest.FromBytes(raw).String()
	_, err = r.send(ctx, http.MethodPut, "/v2/"+repository+"/manifests/"+cmp.Or(tag, of), ocispec.MediaTypeImageManifest, raw)
	return of, err
}

func (r *Registry) pushBlob(ctx context.Context, repository, mediaType string, content []byte) (ocispec.Descriptor, error) {
	d := ocispec.Descriptor{MediaType: mediaType, Digest: digest.FromBytes(content), Size: int64(len(content))}
	at, err := r.send(ctx, http.MethodPost, "/v2/"+repository+"/blobs/uploads/", "", nil)
	if err != nil {
		return d, err
	}
	_, err = r.send(ctx, http.MethodPut, strings.TrimPrefix(at, "http://"+r.Addr)+"&digest="+d.Digest.String(), "application/octet-stream", content)
	return d, err
}

// send sends a request, and returns where its answer leads.
func (r *Registry) send(ctx context.Context, method, path, mediaType string, content []byte) (location string, err error) {
	req, err := http.NewRequestWithContext(ctx, method, "http://"+r.Addr+path, bytes.NewReader(content))
	if err != nil {
		return "", err
	}
	req.Header.Set("Content-Type", mediaType)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", err
	}
	defer func() { _ = res.Body.Close() }()
	said, _ := io.ReadAll(io.LimitReader(res.Body, 1<<10))
	if res.StatusCode >= http.StatusBadRequest {
		err = fmt.Errorf("%s %s: status %d: %s", method, path, res.StatusCode, said)
	}
	return res.Header.Get("Location"), err
}
