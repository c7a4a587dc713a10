package adminapi_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"strings"
	"testing"

	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/server/servertest"
)

func TestAnUploadedReleaseIsServedToMachines(t *testing.T) {
	b := servertest.Start(t)
	content := bytes.Repeat([]byte("package "), 400_000) // more than one block
	sum := sha256.Sum256(content)
	digest := hex.EncodeToString(sum[:])
	at := "/agent-releases/" + digest + "?version=1.0.0&filename=hostler-agent_1.0.0_amd64.deb"

	a := b.Ask(t, b.Token, http.MethodPut, at, bytes.NewReader(content[:len(content)-1]))
	if a.Status != 422 || a.Code() != "digest_mismatch" {
		t.Fatalf("another content: %d %s", a.Status, a.Body)
	}
	if left := servertest.Must[api.AgentReleaseList](t, b, http.MethodGet, "/agent-releases", nil); len(left.Items) != 0 {
		t.Fatalf("a refused upload left %+v", left.Items)
	}
	for range 2 { // the second upload finds the package there
		got := servertest.Must[api.AgentRelease](t, b, http.MethodPut, at, bytes.NewReader(content))
		if got.Digest != "sha256:"+digest || got.Size != int64(len(content)) || got.Arch != "amd64" || got.UploadedBy != "admin" {
			t.Fatalf("it is listed as %+v", got)
		}
		machine := b.Ask(t, "", http.MethodGet, got.URL, nil) // without a certificate and without a token
		if machine.Status != http.StatusOK || !bytes.Equal(machine.Body, content) {
			t.Fatalf("a machine got %d and %d bytes", machine.Status, len(machine.Body))
		}
	}
	boot := servertest.Must[api.NodeBootstrap](t, b, http.MethodPost, "/nodes", api.NodeCreate{Hostname: "h1", PackageURLs: []string{"https://mirror.example/a.deb"}})
	for _, part := range []string{b.AgentURL() + "/internal/v1/packages/sha256/" + digest, "https://mirror.example/a.deb", "hostler-bootstrap.service"} {
		if !strings.Contains(boot.CloudConfig, part) {
			t.Errorf("the cloud-config lacks %s", part)
		}
	}
	if boot.Warning != "" {
		t.Errorf("it warns: %s", boot.Warning)
	}
	for name, path := range map[string]string{
		"no digest":          "/agent-releases/" + strings.Repeat("x", 64) + "?version=1&filename=a_1_amd64.deb",
		"upper case":         "/agent-releases/" + strings.ToUpper(digest) + "?version=1&filename=a_1_amd64.deb",
		"no package":         "/agent-releases/" + digest + "?version=1&filename=a.tar",
		"a path":             "/agent-releases/" + digest + "?version=1&filename=..%2Fa_1_amd64.deb",
		"other architecture": "/agent-releases/" + digest + "?version=1&filename=a_1_amd64.deb&arch=arm64",
		"bad version":        "/agent-releases/" + digest + "?version=1%0a2&filename=a_1_amd64.deb",
	} {
		if a := b.Ask(t, b.Token, http.MethodPut, path, strings.NewReader("x")); a.Code() != "agent_release_invalid" {
			t.Errorf("%s: %d %s", name, a.Status, a.Body)
		}
	}
	empty := sha256.Sum256(nil)
	if a := b.Ask(t, b.Token, http.MethodPut, "/agent-releases/"+hex.EncodeToString(empty[:])+"?version=1&filename=a_1_amd64.deb", strings.NewReader("")); a.Code() != "package_empty" {
		t.Errorf("an empty package: %d %s", a.Status, a.Body)
	}
}
