//go:build e2e

package e2e

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"

	"github.com/hostler/hostler/test/registry"
)

const (
	registryName = "registry.example"
	repository   = "acme/tables"
)

// images is a registry with an account, behind TLS. It has an artifact that the team has signed.
type images struct {
	source   string // HOST:PORT/REPOSITORY
	digest   string
	password string
	signer   string // file of the team's public key
	tokens   *registry.Tokens
}

// fetchingImage brings an artifact that somebody must have signed, with a token of the registry.
const fetchingImage = `operation: site.image.fetch
version: v1
summary: bring the site's artifact from its registry
backend_type: node_agent
safety: idle
targets: [node]
deadline_seconds: 3600
inputs:
  type: object
  required: [digest]
  properties:
    digest: {type: string, pattern: "^sha256:[0-9a-f]{64}$", maxLength: 71}
artifacts: {sources: ["oci:%[1]s"], signature: required, max_bytes: 16777216}
steps:
  - {id: credential, kind: credential.mint, timeout_seconds: 60, attempts: 2, with: {type: oci_pull, scope: "%[1]s"}}
  - id: pull
    kind: artifact.pull_oci
    timeout_seconds: 300
    attempts: 2
    with:
      source: %[1]s
      digest: {from: inputs.digest}
      root: /srv/images
      name: tables
      credential: {from: steps.credential}
  - {id: verify, kind: artifact.verify, timeout_seconds: 60, with: {path: {from: steps.pull}, digest: {from: inputs.digest}}}
`

// content is what the artifact has.
const content = "the table of the registry\n"

// open starts the registry, first without its account so that the artifact can be pushed.
func (i *images) open(s *site, from *sources) {
	s.t.Helper()
	*i = images{source: registryName + ":" + from.port + "/" + repository, password: rand.Text() + rand.Text(), signer: s.Path("cosign.pub")}
	dir := s.t.TempDir()
	open, err := registry.Run(dir, registry.Config{})
	if err != nil {
		s.t.Fatal(err)
	}
	i.push(s, open)
	open.Stop()
	i.tokens = &registry.Tokens{
		Accounts: map[string]registry.Account{"puller": {Password: i.password, May: []string{"pull"}}},
		Front:    "https://" + registryName + ":" + from.port,
	}
	if err := i.tokens.Run(); err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(i.tokens.Close)
	closed, err := registry.Run(dir, registry.Config{Tokens: i.tokens})
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(closed.Stop)
	proxy := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: closed.Addr})
	from.handlers[registryName] = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/token" {
			i.tokens.ServeHTTP(w, r)
			return
		}
		proxy.ServeHTTP(w, r)
	})
}

func (i *images) push(s *site, to *registry.Registry) {
	s.t.Helper()
	public, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		s.t.Fatal(err)
	}
	der, err := x509.MarshalPKIXPublicKey(public)
	if err != nil {
		s.t.Fatal(err)
	}
	write(s.t, i.signer, string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})))
	if i.digest, err = to.PushFile(s.ctx, repository, "fabric.table", []byte(content)); err == nil {
		err = to.Sign(s.ctx, repository, i.digest, key)
	}
	if err != nil {
		s.t.Fatal(err)
	}
}

// believe starts the broker again, with the name and the authority of the registry.
func (i *images) believe(s *site, from *sources) {
	s.t.Helper()
	authority, hosts := s.Path("registry.pem"), s.Path("hosts")
	write(s.t, authority, string(from.authority))
	write(s.t, hosts, "127.0.0.1 localhost "+registryName+"\n")
	s.Believe(authority)
	s.Knows(hosts)
	if err := s.StopBroker(); err != nil {
		s.t.Fatal(err)
	}
	if err := s.StartBroker(s.ctx); err != nil {
		s.t.Fatal(err)
	}
}

// ofARegistry brings an artifact from a registry that wants a login. The account stays with the broker, and the
// token of the node is nowhere afterwards.
func (o *operations) ofARegistry() {
	s := o.site
	write(s.t, s.Path("pull.pw"), o.images.password+"\n")
	name, _, _ := strings.Cut(o.images.source, "/")
	s.hostler("registry-credential", "set", name, "--username", "puller", "--password-file", s.Path("pull.pw"), "--reason", "our tables")
	s.define("site.image.fetch@v1", fmt.Sprintf(fetchingImage, o.images.source))
	inputs := s.Path("image.json")
	write(s.t, inputs, `{"digest": "`+o.images.digest+`"}`)
	if said, err := s.Hostler(s.ctx, "operation", "run", "site.image.fetch@v1", "--node", node, "--inputs", inputs, "--reason", "nobody is trusted yet"); err == nil ||
		!strings.Contains(err.Error(), "signature_") {
		s.t.Errorf("an artifact of which nobody is known to be the signer: %s %v", said, err)
	}
	s.hostler("artifact-signer", "set", "team", "--source", "oci:"+o.images.source, "--key", o.images.signer, "--reason", "our tables")
	before := len(o.images.tokens.Made())
	run := s.begins("site.image.fetch@v1", map[string]any{"digest": o.images.digest})
	s.has(s.ends(run), "credential 1 succeeded\npull 1 succeeded\nverify 1 succeeded")
	s.proves(run, o.trust)
	if said := s.root("cat", "/srv/images/tables/fabric.table"); said+"\n" != content {
		s.t.Errorf("the artifact's file has %q", said)
	}
	made := o.images.tokens.Made()
	if len(made) == before {
		s.t.Error("the node pulled without a token")
	}
	s.holdsNowhere("after the pull from the registry", slices.Concat(made, []string{o.images.password}), o.answers(run)...)
}
