package main

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"

	"github.com/hostler/hostler/test/registry"
)

const (
	fetchImage = "site.model.fetch@v1"
	repository = "models/llm"
)

// definition is an operation of the site that brings an artifact of a registry.
const definition = `operation: site.model.fetch
version: v1
summary: bring a model from the registry
backend_type: node_agent
safety: forced
targets: [node]
deadline_seconds: 3600
inputs:
  type: object
  required: [digest]
  properties:
    digest: {type: string, pattern: "^sha256:[0-9a-f]{64}$", maxLength: 71}
artifacts: {sources: ["oci:%[1]s"], signature: as_policy, max_bytes: 1073741824}
steps:
  - id: pull
    kind: artifact.pull_oci
    timeout_seconds: 600
    with: {source: %[1]s, digest: {from: inputs.digest}, root: /var/lib/models, name: llm}
`

// models is a registry with two artifacts: one that the team has signed, and one that nobody has.
type models struct {
	source           string // HOST:PORT/REPOSITORY
	signed, unsigned string // digests
	signer           string // file of the team's public key
}

// openRegistry starts a registry behind TLS, which the broker believes, and pushes the artifacts.
func (d *demo) openRegistry(ctx context.Context) error {
	r, err := registry.Run(d.Lab.Path("registry"), registry.Config{})
	if err != nil {
		return err
	}
	d.After(r.Stop)
	front := httptest.NewTLSServer(httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: r.Addr}))
	d.After(front.Close)
	authority := d.Lab.Path("registry.pem")
	if err := os.WriteFile(authority, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: front.Certificate().Raw}), 0o600); err != nil {
		return err
	}
	d.Lab.Believe(authority)
	public, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return err
	}
	open, err := x509.MarshalPKIXPublicKey(public)
	if err != nil {
		return err
	}
	d.models = models{source: front.Listener.Addr().String() + "/" + repository, signer: d.Lab.Path("cosign.pub")}
	if err := os.WriteFile(d.models.signer, pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: open}), 0o600); err != nil {
		return err
	}
	if d.models.signed, err = r.PushFile(ctx, repository, "llm.safetensors", []byte("weights that the team has signed")); err != nil {
		return err
	}
	if err := r.Sign(ctx, repository, d.models.signed, key); err != nil {
		return err
	}
	d.models.unsigned, err = r.PushFile(ctx, repository, "llm.safetensors", []byte("weights from somewhere"))
	return err
}

func (d *demo) refused(ctx context.Context) error {
	file := d.Lab.Path("fetch.yaml")
	if err := os.WriteFile(file, fmt.Appendf(nil, definition, d.models.source), 0o600); err != nil {
		return err
	}
	d.Say("An operation of the site fetches models from a registry at %s.", d.models.source)
	for _, args := range [][]string{
		{"operation-definition", "push", file, "--reason", "models from our registry"},
		{"operation-definition", "activate", fetchImage, "--reason", "read by two", "--yes"},
		{"artifact-signer", "set", "team", "--source", "oci:" + d.models.source, "--key", d.models.signer, "--reason", "our models"},
		{"operation", "policy", "set", "*", "--require-signature", "--reason", "audit of the models"},
	} {
		if err := d.Hostler(ctx, 4, args...); err != nil {
			return err
		}
	}
	signed, err := d.inputs("signed", map[string]any{"digest": d.models.signed})
	if err != nil {
		return err
	}
	d.Say("The team has signed one artifact, and it may be fetched:")
	if err := d.Hostler(ctx, 12, "operation", "plan", fetchImage, "--node", node, "--inputs", signed); err != nil {
		return err
	}
	unsigned, err := d.inputs("unsigned", map[string]any{"digest": d.models.unsigned})
	if err != nil {
		return err
	}
	d.Say("Nobody has signed the other one:")
	if err := d.Refused(ctx, []string{"operation", "run", fetchImage, "--node", node, "--inputs", unsigned, "--reason", "a newer model"},
		"signature_missing", "the global policy for all operations"); err != nil {
		return err
	}
	var list struct {
		Items []operation `json:"items"`
	}
	if err := d.Lab.JSON(ctx, &list, "operation", "list", "--operation", fetchImage); err != nil {
		return err
	}
	if len(list.Items) != 0 {
		return fmt.Errorf("an operation began all the same: %+v", list.Items)
	}
	d.Saw("an artifact without a signature was refused, the refusal names the global policy, and nothing began; the signed one passes")
	return nil
}
