package clients

import (
	"bytes"
	"encoding/pem"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/clientfile"
	"github.com/hostler/hostler/broker/server/servertest"
)

// workshop is a copy of a client's folder, where the client is built and run.
type workshop struct {
	dir string
	env []string
}

// openWorkshop starts a broker with a node and a site, and copies a client's folder beside the
// broker's API descriptions.
func openWorkshop(t *testing.T, folder string) workshop {
	t.Helper()
	b := servertest.Start(t)
	b.NewNode(t, api.NodeCreate{Hostname: "h1"})
	servertest.Must[api.Site](t, b, http.MethodPost, "/maas-sites", `{"name":"dc1","region_code":"eu-1","api_base_url":"http://127.0.0.1:5240/MAAS/","pxe_iface":"ens19","pxe_vlan_vid":46,"node_pxe_iface":"eno8303"}`)
	w := workshop{dir: t.TempDir()}
	if err := os.CopyFS(w.dir, os.DirFS(folder)); err != nil {
		t.Fatal(err)
	}
	file, err := clientfile.Load(filepath.Join(b.Dir, "client.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	root, err := file.Root()
	if err != nil {
		t.Fatal(err)
	}
	w.write(t, "root.pem", pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: root.Raw}))
	for _, document := range []string{"openapi.json", "openapi-3.0.json"} {
		w.write(t, document, b.Ask(t, "", http.MethodGet, b.OperatorURL()+"/"+document, nil).Body)
	}
	trust := filepath.Join(w.dir, "root.pem")
	w.env = append(os.Environ(), "HOSTLER_URL="+b.OperatorURL(), "HOSTLER_TOKEN="+b.Token, "SSL_CERT_FILE="+trust, "NODE_EXTRA_CA_CERTS="+trust)
	return w
}

func (w workshop) write(t *testing.T, name string, content []byte) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(w.dir, name), content, 0o600); err != nil {
		t.Fatal(err)
	}
}

// run runs a tool; the tool must succeed. Only the client trusts the broker's root: a tool may have
// to download files.
func (w workshop) run(t *testing.T, argv ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), argv[0], argv[1:]...)
	cmd.Dir, cmd.Env = w.dir, append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", strings.Join(argv, " "), err, out)
	}
}

// asks runs a client; the client must find the broker's data.
func (w workshop) asks(t *testing.T, argv ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), argv[0], argv[1:]...)
	var out, errs bytes.Buffer
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = w.dir, w.env, &out, &errs
	if err := cmd.Run(); err != nil {
		t.Fatalf("%s: %v\n%s", strings.Join(argv, " "), err, errs.String())
	}
	if want := "node h1\nvlan none\nrefused node_not_found\n"; out.String() != want {
		t.Errorf("the client says %q, want %q", out.String(), want)
	}
}

// TestAGeneratedGoClientAsksABroker makes a client with oapi-codegen.
func TestAGeneratedGoClientAsksABroker(t *testing.T) {
	w := openWorkshop(t, "go")
	if err := os.Mkdir(filepath.Join(w.dir, "api"), 0o700); err != nil {
		t.Fatal(err)
	}
	w.run(t, "go", "tool", "oapi-codegen", "-generate", "types,client", "-package", "api", "-o", "api/api.gen.go", "openapi-3.0.json")
	w.run(t, "go", "vet", "./...")
	w.run(t, "go", "build", "-o", "client", ".")
	w.asks(t, "./client")
}

// TestAGeneratedTypeScriptClientAsksABroker generates a client from either description with
// openapi-typescript, which also validates the descriptions.
func TestAGeneratedTypeScriptClientAsksABroker(t *testing.T) {
	if _, err := exec.LookPath("npm"); err != nil {
		t.Fatal("npm is not installed: run .ci/setup test")
	}
	w := openWorkshop(t, "typescript")
	w.run(t, "npm", "ci", "--prefer-offline", "--ignore-scripts", "--loglevel=error")
	for _, document := range []string{"openapi.json", "openapi-3.0.json"} {
		w.run(t, "node_modules/.bin/openapi-typescript", document, "-o", "api.d.ts")
		w.run(t, "node_modules/.bin/tsc")
		w.asks(t, "node", "out/client.js")
	}
}

// TestNoRegistryIsNamedInTheLock keeps the lock usable behind whichever registry is at hand.
func TestNoRegistryIsNamedInTheLock(t *testing.T) {
	lock, err := os.ReadFile("typescript/package-lock.json")
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(lock, []byte(`"resolved"`)) || !bytes.Contains(lock, []byte(`"integrity"`)) {
		t.Error("package-lock.json names where packages are, or has no hashes of them (npm install reads .npmrc beside it)")
	}
}
