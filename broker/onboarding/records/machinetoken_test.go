package records

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"net/http"
	"testing"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/chain"
	"github.com/hostler/hostler/broker/maas"
	"github.com/hostler/hostler/broker/onboarding"
	"github.com/hostler/hostler/broker/secrets"
	"github.com/hostler/hostler/broker/store"
	"github.com/hostler/hostler/broker/turnover"
	"github.com/hostler/hostler/pki"
	"github.com/hostler/hostler/test/maassim"
)

func TestOnlyANodeThatARunDeployedGetsItsMachinesToken(t *testing.T) {
	w := newWorld(t)
	region := &maassim.Region{Now: w.clock.Now}
	site := broker.NewSite("0b2f1c0a-7c1e-4f57-9f0e-3d9a6f0e1c11")
	site.Name, site.RegionCode, site.APIBaseURL, site.PXEIface, site.NodePXEIface = "dc1", "eu-1", maassim.URL, "ens19", "eno8303"
	site = must(w.DB.CreateSite(ctx, broker.System, site, broker.NewProfile("5a4f1c0a-7c1e-4f57-9f0e-3d9a6f0e1c12", site.ID, "default")))(t)
	key := must(maas.ParseKey(region.APIKey()))(t)
	if err := maas.PutToken(ctx, w.Secrets, site, key); err != nil {
		t.Fatal(err)
	}
	asking := func(region *maassim.Region) *secrets.Minter {
		tokens := &MachineTokens{DB: w.DB, Sites: &maas.Sites{
			Secrets: w.Secrets, Now: w.clock.Now, Transport: func(broker.Site) http.RoundTripper { return region.RoundTripper() },
		}}
		return &secrets.Minter{Keeper: w.Secrets, Now: w.clock.Now, MachineToken: tokens.Of}
	}
	minter := asking(region)
	mint := func(nodeID string) (string, string) {
		t.Helper()
		got, err := minter.Mint(ctx, broker.Task{ID: "t-1", Type: "node.hw_sync_reseed", NodeID: nodeID}, broker.MintAsk{Type: "maas_machine_token"})
		if err == nil && !got.Expires.After(w.clock.Now()) {
			t.Errorf("it is good until %v", got.Expires)
		}
		return got.Secret, code(err)
	}

	claimed := func(run, kind string) string {
		t.Helper()
		node := w.prepare(run)
		state := must(json.Marshal(onboarding.Onboarding{Claim: &onboarding.Claim{SystemID: "abc123", NodeID: node, User: "admin"}}))(t)
		if err := w.DB.Insert(ctx, []chain.NewRun{{Record: chain.Record{ID: run, Kind: kind, Site: "dc1", Status: chain.Pending, Direction: chain.Forward, State: state}}}, nil); err != nil {
			t.Fatal(err)
		}
		return node
	}
	bound := claimed("r-1", onboarding.Kind)
	is := maassim.Arranged{
		SystemID: "abc123", Hostname: "c-r-1", Hardware: maassim.Box(1), Status: maassim.Deployed, Owner: "admin", Series: "ubuntu/noble", Token: true, PowerOn: true,
		Annotations: map[string]string{"hostler-run": "r-1", "hostler-node": bound},
	}
	region.Arrange(is)
	fresh, why := mint(bound)
	if why != "" || !bytes.Contains([]byte(fresh), []byte(`/MAAS/metadata/status/abc123"`)) {
		t.Fatalf("a bound node got %q, %s", fresh, why)
	}
	attacker := pki.NewNodeID(rand.Reader)
	must(w.DB.CreateNode(ctx, broker.System, store.NewNode{ID: attacker, Hostname: "rogue", Site: "dc1", Bootstrap: "command", MAASSystemID: "abc123"}))(t)
	if secret, why := mint(attacker); why != "secret_not_found" {
		t.Errorf("a node on whose record a person wrote the machine's id got %d bytes, %s", len(secret), why)
	}

	if secret, why := mint(claimed("r-2", onboarding.AdoptionKind)); why != "secret_not_found" {
		t.Errorf("a node whose machine was there before it got %d bytes, %s", len(secret), why)
	}

	for name, change := range map[string]func(*maassim.Arranged){
		"deployed for another": func(a *maassim.Arranged) { a.Owner = "cloud-team" },
		"without the mark":     func(a *maassim.Arranged) { a.Annotations = nil },
		"another run's": func(a *maassim.Arranged) {
			a.Annotations = map[string]string{"hostler-run": "r-9", "hostler-node": bound}
		},
		"another node's": func(a *maassim.Arranged) {
			a.Annotations = map[string]string{"hostler-run": "r-1", "hostler-node": "n-9"}
		},
		"not deployed any more": func(a *maassim.Arranged) { a.Status = maassim.Allocated },
	} {
		other := is
		change(&other)
		elsewhere := &maassim.Region{Now: w.clock.Now}
		elsewhere.Arrange(other)
		got, err := asking(elsewhere).Mint(ctx, broker.Task{ID: "t-1", Type: "node.hw_sync_reseed", NodeID: bound}, broker.MintAsk{Type: "maas_machine_token"})
		if code(err) != "secret_not_found" || elsewhere.APIKey() != region.APIKey() {
			t.Errorf("a node whose machine is %s got %d bytes, %v", name, len(got.Secret), err)
		}
	}

	if err := secrets.PutNodeToken(ctx, w.Secrets, bound, []byte("kept")); err != nil {
		t.Fatal(err)
	}
	region.Inject(maassim.Fault{Kind: maassim.Unavailable, Op: "get_token"})
	if secret, _ := mint(bound); secret != "kept" {
		t.Errorf("while MAAS is away it gets %q", secret)
	}
	region.Relent()
	if secret, _ := mint(bound); secret != fresh {
		t.Errorf("when MAAS is back it gets %q", secret)
	}
	w.clock.Advance(time.Minute)
	// A reimage redeployed the machine: the reimage's mark counts, and the onboarding's no longer.
	if err := w.DB.CutOff(ctx, broker.System, store.Turnover{NodeID: bound, RunID: "r-8", Reason: "patches"}); err != nil {
		t.Fatal(err)
	}
	state := must(json.Marshal(turnover.Turnover{Machine: onboarding.Onboarding{Claim: &onboarding.Claim{SystemID: "abc123", NodeID: bound, User: "admin"}}}))(t)
	if err := w.DB.Insert(ctx, []chain.NewRun{{Record: chain.Record{ID: "r-8", Kind: turnover.Reimage.Kind(), Site: "dc1", Status: chain.Pending, Direction: chain.Forward, State: state}}}, nil); err != nil {
		t.Fatal(err)
	}
	for run, want := range map[string]string{"r-1": "secret_not_found", "r-8": ""} {
		anew := is
		anew.Annotations = map[string]string{"hostler-run": run, "hostler-node": bound}
		region := &maassim.Region{Now: w.clock.Now}
		region.Arrange(anew)
		if err := w.Secrets.Delete(ctx, "nodes/"+bound+"/maas-machine-token"); err != nil && code(err) != "secret_not_found" {
			t.Fatal(err)
		}
		if got, err := asking(region).Mint(ctx, broker.Task{ID: "t-3", Type: "node.hw_sync_reseed", NodeID: bound}, broker.MintAsk{Type: "maas_machine_token"}); code(err) != want {
			t.Errorf("reimaged, and marked by %s, it gets %d bytes, %v", run, len(got.Secret), err)
		}
	}
	if got, err := minter.Mint(ctx, broker.Task{ID: "t-2", Type: "node.drain", NodeID: bound}, broker.MintAsk{Type: "maas_machine_token"}); code(err) != "credential_refused" {
		t.Errorf("another task got %d bytes, %v", len(got.Secret), err)
	}
}
