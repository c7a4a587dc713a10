package client_test

import (
	"bytes"
	"context"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/api/client"
	"github.com/hostler/hostler/broker/server/servertest"
	"github.com/hostler/hostler/pki"
	profiles "github.com/hostler/hostler/resolver-profiles"
	"github.com/hostler/hostler/resolver-profiles/profilestest"
	"github.com/hostler/hostler/taskcatalog"
	"github.com/hostler/hostler/taskcatalog/release"
	"github.com/hostler/hostler/taskcatalog/release/releasetest"
	"github.com/hostler/hostler/test/maassim"
)

// The examples of this package run against one broker in the test's process. This file makes the
// broker, its site dc1 with a simulated MAAS region, and machines that answer as nodes do. A program
// of its own needs only the client.

func TestMain(m *testing.M) {
	code := m.Run()
	setup.close()
	os.Exit(code)
}

// clientYAML is the path of the client file that the broker wrote for its first operator.
func clientYAML() string { return filepath.Join(theBroker().Dir, "client.yaml") }

// connect returns a client of the examples' broker.
func connect() *client.Client { return must(client.FromFile(clientYAML())) }

// setup stands in for a *testing.T, which examples do not have.
var setup setupT

type setupT struct {
	testing.TB
	cleanups []func()
}

func (*setupT) Helper()                   {}
func (*setupT) Context() context.Context  { return context.Background() }
func (p *setupT) Cleanup(f func())        { p.cleanups = append(p.cleanups, f) }
func (*setupT) Fatal(args ...any)         { panic(fmt.Sprint(args...)) }
func (*setupT) Fatalf(f string, a ...any) { panic(fmt.Sprintf(f, a...)) }
func (*setupT) Errorf(f string, a ...any) { panic(fmt.Sprintf(f, a...)) }
func (p *setupT) TempDir() string {
	dir := must(os.MkdirTemp("", "hostler-examples-"))
	p.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

func (p *setupT) close() {
	for i := len(p.cleanups) - 1; i >= 0; i-- {
		p.cleanups[i]()
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// theBroker is the broker of all examples. Its site dc1 has an empty region.
var theBroker = sync.OnceValue(func() *servertest.Broker {
	b := servertest.Start(&setup)
	region := &maassim.Region{
		Seed: 3, Now: b.Now, Timing: maassim.Usual.Faster(1000),
		Networks: []maassim.Network{{VID: 46, CIDR: "10.10.0.0/24", Gateway: "10.10.0.1", DHCP: true}},
	}
	maas := httptest.NewServer(region)
	setup.Cleanup(maas.Close)
	ctx, c := context.Background(), client.New(client.Options{Broker: b.OperatorURL(), Roots: b.Roots, Token: b.Token})
	must(c.CreateSite(ctx, client.Document{
		"name": "dc1", "region_code": "eu-1", "api_base_url": maas.URL + "/MAAS", "pxe_iface": "ens19", "pxe_vlan_vid": 46, "node_pxe_iface": "eno8303",
	}))
	must(c.SetSiteCredentials(ctx, "dc1", api.SiteCredentials{MAASToken: region.APIKey(), PowerUser: "root", PowerPassword: "example"}))
	return b
})

// machine enrols an active node at dc1. Its agent answers one task of each of the given types, in
// this order, and is silent afterwards.
func machine(hostname string, answers ...string) *servertest.Node {
	n := theBroker().NewNode(&setup, api.NodeCreate{Hostname: hostname, Site: "dc1"}).Settle(&setup)
	go func() {
		for _, want := range answers {
			d, task := n.Next(&setup)
			if task.Type != want {
				setup.Fatalf("%s is sent %s, want %s", hostname, task.Type, want)
			}
			n.Finish(&setup, d, task, taskcatalog.OutcomeSucceeded, results[want], taskcatalog.Report{})
		}
	}()
	return n
}

// occupied is a machine with a tenant on it.
func occupied(hostname, allocation, username string) {
	machine(hostname).LetIn(&setup, allocation, username)
}

// results are what an agent answers.
var results = map[string]any{
	"node.heartbeat_check":      taskcatalog.HeartbeatCheckResult{AgentVersion: "1.4.0", BootID: "b", UptimeSeconds: 3600, RootFreeBytes: 1 << 40},
	"allocation.provision_user": taskcatalog.ProvisionUserResult{UID: 200000, GID: 200000, Home: "/home/ann", Created: true},
	"allocation.revoke_user":    taskcatalog.RevokeUserResult{},
}

// certified turns a node over to its end after allocation a-7, and returns the id of the node. The
// agent is silent, so that the certificate falls short of the policy.
var certified = sync.OnceValue(func() string {
	b, ctx, c := theBroker(), context.Background(), connect()
	boot := must(c.CreateNode(ctx, api.NodeCreate{Hostname: "gpu-sold"}))
	n := b.EnrollMachine(&setup, boot.Token, "gpu-sold", "", servertest.H100s(1)).Settle(&setup)
	n.LetIn(&setup, "a-7", "ann")
	must(c.StartDecommission(ctx, n.NodeID, api.DecommissionStart{Mode: "full_decommission", ForceRelease: true, Reason: "sold"}))
	d, task := n.Next(&setup)
	n.Finish(&setup, d, task, taskcatalog.OutcomeSucceeded, taskcatalog.RevokeUserResult{}, taskcatalog.Report{})
	if !b.LetPass(func() (bool, time.Duration) {
		return len(must(c.CleanCertificates(ctx, n.NodeID)).Items) > 0, time.Minute
	}) {
		panic("there is no certificate")
	}
	b.Rested(&setup)
	return n.NodeID
})

// published makes the nodes trust a release key, and publishes a release of the agent.
var published = sync.OnceFunc(func() {
	ctx, c := context.Background(), connect()
	key := must(pki.GenerateKey(pki.P256))
	der := must(x509.MarshalPKIXPublicKey(key.Public()))
	must(c.AddReleaseKey(ctx, api.ReleaseKeyPut{PublicKey: string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})), Reason: "our CI"}))
	r := releasetest.Make(&setup, []byte("agent"), releasetest.Statement("1.5.0"), key)
	must(c.UploadReleasePart(ctx, release.Digest(r.Layer), int64(len(r.Layer)), bytes.NewReader(r.Layer)))
	must(c.PublishRelease(ctx, api.AgentReleasePublish{Digest: r.Digest, Channel: "stable", Manifest: r.Manifest, Statement: r.Statement, Signatures: []api.ReleaseSignature{api.ReleaseSignature(r.Signatures[0])}}))
})

// profileSet is a set of resolver profiles, as hostler resolver push sends it.
func profileSet() []byte {
	set, problems := profiles.Parse(profilestest.Shipped()...)
	if len(problems) > 0 {
		panic(problems[0])
	}
	return must(set.Encode())
}
