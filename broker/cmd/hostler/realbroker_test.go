package main

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/secure-systems-lab/go-securesystemslib/encrypted"

	"github.com/hostler/hostler/broker/server"
	"github.com/hostler/hostler/pki"
	"github.com/hostler/hostler/test/maassim"
	"github.com/hostler/hostler/test/registry"
)

// TestScriptsAgainstARealBroker runs the commands against a whole broker on SQLite, with only the
// files of its first start.
func TestScriptsAgainstARealBroker(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:           filepath.Join("testdata", "real"),
		UpdateScripts: *update,
		Setup: func(e *testscript.Env) error {
			dir := filepath.Join(e.WorkDir, "data")
			s, err := server.New(context.Background(), server.Config{
				DataDir: dir, Listen: "127.0.0.1:0", AgentListen: "127.0.0.1:0", Version: version,
			})
			if err != nil {
				return err
			}
			ctx, stop := context.WithCancel(context.Background())
			ended := make(chan error, 1)
			go func() { ended <- s.Run(ctx) }()
			e.Defer(func() {
				stop()
				if err := <-ended; err != nil {
					e.T().Log("the broker ended:", err)
				}
			})
			e.Values["server"] = s
			region := &maassim.Region{Seed: 1, Networks: []maassim.Network{{VID: 46, CIDR: "10.10.0.0/24", Gateway: "10.10.0.1", DHCP: true}}}
			for n, id := range map[int]string{7: "4y3h7n", 8: "4y3h7p"} {
				region.Arrange(maassim.Arranged{SystemID: id, Hostname: fmt.Sprintf("c%02d", n), Hardware: maassim.Box(n), Status: maassim.Deployed, Owner: "admin", Series: "ubuntu/noble", PowerOn: true})
			}
			maas := httptest.NewServer(region)
			e.Defer(maas.Close)
			e.Setenv("MAAS", maas.URL+"/MAAS")
			if err := os.WriteFile(filepath.Join(e.WorkDir, "maas.key"), []byte(region.APIKey()+"\n"), 0o600); err != nil {
				return err
			}
			e.Setenv("CLOCK", "real")
			e.Setenv("GORACE", atOnce)
			e.Setenv("HOME", filepath.Join(e.WorkDir, "home"))
			e.Setenv("BROKER", s.OperatorURL())
			e.Setenv("CA_SHA256", s.RootSHA256())
			e.Setenv("HOSTLER_CONFIG", filepath.Join(dir, "client.yaml"))
			return nil
		},
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){"exits": exits, "enroll": enroll, "keep": keep, "comes": comes, "registry": startRegistry, "keypair": keypair},
	})
}

// startRegistry runs an OCI registry at $REGISTRY. registry USER PASSWORD runs a registry with a
// token service, where that account may pull.
func startRegistry(ts *testscript.TestScript, _ bool, args []string) {
	c := registry.Config{}
	if len(args) == 2 {
		c.Tokens = &registry.Tokens{Accounts: map[string]registry.Account{args[0]: {Password: args[1], May: []string{"pull"}}}}
		ts.Check(c.Tokens.Run())
		ts.Defer(c.Tokens.Close)
	}
	r, err := registry.Run(ts.MkAbs("registry"), c)
	ts.Check(err)
	ts.Defer(r.Stop)
	ts.Setenv("REGISTRY", r.Addr)
}

// keypair NAME PASSWORD writes NAME.key and NAME.pub as cosign generate-key-pair does.
func keypair(ts *testscript.TestScript, _ bool, args []string) {
	key, err := pki.GenerateKey(pki.P256)
	ts.Check(err)
	private, err := x509.MarshalPKCS8PrivateKey(key)
	ts.Check(err)
	public, err := x509.MarshalPKIXPublicKey(key.Public())
	ts.Check(err)
	sealed, err := encrypted.Encrypt(private, []byte(args[1]))
	ts.Check(err)
	for name, block := range map[string]*pem.Block{
		args[0] + ".key": {Type: "ENCRYPTED SIGSTORE PRIVATE KEY", Bytes: sealed},
		args[0] + ".pub": {Type: "PUBLIC KEY", Bytes: public},
	} {
		ts.Check(os.WriteFile(ts.MkAbs(name), pem.EncodeToMemory(block), 0o600))
	}
}

// comes PATTERN COMMAND … repeats a command until its output has the pattern, for up to ten
// seconds.
func comes(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: comes PATTERN COMMAND …")
	}
	want := regexp.MustCompile("(?m)" + args[0])
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for late := time.Now().Add(10 * time.Second); ; <-tick.C {
		err := ts.Exec(args[1], args[2:]...)
		if err == nil && want.MatchString(ts.ReadFile("stdout")) {
			return
		}
		if time.Now().After(late) {
			ts.Fatalf("%s never comes (%v)", args[0], err)
		}
	}
}

// keep NAME puts the last output into a variable.
func keep(ts *testscript.TestScript, _ bool, args []string) {
	ts.Setenv(args[0], strings.TrimSpace(ts.ReadFile("stdout")))
}
