package records

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/onboarding"
	"github.com/hostler/hostler/broker/secrets"
	"github.com/hostler/hostler/broker/secrets/secretstest"
	"github.com/hostler/hostler/broker/store"
	"github.com/hostler/hostler/broker/store/storetest"
	"github.com/hostler/hostler/broker/taskqueue"
	"github.com/hostler/hostler/broker/trust"
	"github.com/hostler/hostler/pki"
	"github.com/hostler/hostler/taskcatalog"
)

var ctx = context.Background()

type world struct {
	*Nodes
	t     *testing.T
	clock *storetest.Clock
}

func must[T any](v T, err error) func(t *testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func newWorld(t *testing.T) *world {
	t.Helper()
	clock := storetest.NewClock()
	db := storetest.Open(t, "sqlite", clock.Now)
	dir := t.TempDir()
	if err := trust.Make(dir+"/keys", trust.MakeOptions{Now: clock.Now()}); err != nil {
		t.Fatal(err)
	}
	authority := must(trust.Open(ctx, trust.Options{Dir: dir + "/keys", DB: db, Now: clock.Now}))(t)
	keeper := must(secrets.Open(t.TempDir()))(t)
	t.Cleanup(func() { _ = keeper.Close() })
	sku := broker.NewSKU()
	sku.ID = "h100.8gpu"
	must(db.CreateSKU(ctx, broker.System, sku))(t)
	return &world{t: t, clock: clock, Nodes: &Nodes{
		DB: db, Queue: taskqueue.New(taskqueue.Config{DB: db, Signer: authority, Rand: rand.Reader}), Secrets: keeper, Trust: authority,
		AgentURL: "https://broker.example:7441", Rand: rand.Reader,
	}}
}

// Brokers that share a Vault and need the key for the first time at the same moment derive the same
// tokens from then on.
func TestReplicasThatMakeTheTokenKeyAtOnceHaveOne(t *testing.T) {
	for range 20 {
		vault := secretstest.StartVault(t, false)
		file := filepath.Join(t.TempDir(), "token")
		if err := os.WriteFile(file, []byte(secretstest.Root), 0o600); err != nil {
			t.Fatal(err)
		}
		keys := make(chan string, 4)
		for range cap(keys) {
			keeper := must(secrets.OpenVault(secrets.VaultConfig{Address: vault.URL, Mount: secretstest.Mount, TokenFile: file}, time.Now))(t)
			go func() {
				key, err := (&Nodes{Secrets: keeper}).tokenKey(ctx)
				if err != nil {
					t.Error(err)
				}
				keys <- string(key)
			}()
		}
		first := <-keys
		for range cap(keys) - 1 {
			if <-keys != first {
				t.Fatal("two brokers have two keys")
			}
		}
	}
}

func (w *world) prepare(run string) string {
	w.t.Helper()
	return must(w.Prepare(ctx, onboarding.NewNode{RunID: run, Site: "dc1", Hostname: "c-" + run, SKU: "h100.8gpu", MAASSystemID: "abc123"}))(w.t)
}

var tokenForm = regexp.MustCompile(`hsn_[A-Za-z0-9_-]{43}`)

func (w *world) bundle(node string) (onboarding.Bundle, string) {
	w.t.Helper()
	b := must(w.Bundle(ctx, node, onboarding.BundleFacts{RunID: "r", SystemID: "abc123", Policy: broker.MachinePolicy{SystemPolicy: broker.SystemPolicy{Architecture: "amd64/generic"}}, Expires: w.clock.Now().Add(time.Hour)}))(w.t)
	return b, string(tokenForm.Find(b.UserData))
}

func (w *world) enroll(token string) store.Enrolled {
	w.t.Helper()
	return must(w.DB.Enroll(ctx, store.EnrollInput{
		TokenHash: pki.HashToken(token), PublicKeyDigest: "key", MAASSystemID: "abc123", Report: store.NodeReport{TaskTypes: taskcatalog.IDs()}, TrustVersion: 1,
		Issue: func(broker.Node, int64) (store.IssuedCert, error) {
			return store.IssuedCert{Serial: "5e", PEM: "-", PublicKey: []byte("k"), NotBefore: w.clock.Now(), NotAfter: w.clock.Now().Add(time.Hour)}, nil
		},
	}))(w.t)
}

func code(err error) string {
	if err == nil {
		return ""
	}
	return broker.AsError(err).Code
}

func TestABundleIsTheSameUntilItsTokenIsSpent(t *testing.T) {
	w := newWorld(t)
	node := w.prepare("r-1")
	first, token := w.bundle(node)
	again, same := w.bundle(node)
	if token == "" || same != token || !bytes.Equal(first.UserData, again.UserData) || first.Digest != again.Digest {
		t.Fatalf("rendered twice, %q and %q", token, same)
	}
	if len(first.Warnings) != 1 || !strings.Contains(first.Warnings[0], "no agent release") {
		t.Errorf("without an agent package it warns %q", first.Warnings)
	}
	if strings.Contains(first.String(), token) {
		t.Error("a bundle shows its token when it is printed")
	}
	if other, _ := w.bundle(w.prepare("r-2")); tokenForm.FindString(string(other.UserData)) == token {
		t.Error("two nodes have one token")
	}

	w.clock.Advance(61 * time.Minute) // the token has expired
	late, next := w.bundle(node)
	if next == token || late.Digest != first.Digest {
		t.Errorf("after it expired the token is %v the same, the digest %s then %s", next == token, first.Digest, late.Digest)
	}
	if e := w.enroll(next); e.Node.ID != node || e.Node.Status != broker.Enrolling {
		t.Fatalf("enrolled %+v", e.Node)
	}
	used, third := w.bundle(node)
	if third == next || third == token || used.Epoch != 1 {
		t.Errorf("a used token is rendered again, epoch %d", used.Epoch)
	}
}

func TestTheKeyOfTokensOutlivesABroker(t *testing.T) {
	w := newWorld(t)
	node := w.prepare("r-1")
	_, token := w.bundle(node)
	restarted := *w.Nodes
	w.Nodes = &restarted
	if _, again := w.bundle(node); again != token {
		t.Error("another broker over the same store and secrets renders another token")
	}
	if err := w.Secrets.Put(ctx, keyPath, []byte("not a key")); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Bundle(ctx, node, onboarding.BundleFacts{Expires: w.clock.Now().Add(time.Hour)}); code(err) != "secret_malformed" || broker.AsError(err).Kind != broker.Unavailable {
		t.Errorf("a key that is none: %v", err)
	}
	if err := w.Secrets.Delete(ctx, keyPath); err != nil {
		t.Fatal(err)
	}
	if _, again := w.bundle(node); again == token || again == "" {
		t.Error("a lost key renders the token that it cannot know")
	}
}

func TestATokenIsExtendedOnceAnAttempt(t *testing.T) {
	w := newWorld(t)
	node := w.prepare("r-1")
	if err := w.ExtendToken(ctx, node, w.clock.Now().Add(time.Hour), "slow"); code(err) != "token_none" {
		t.Errorf("without a token: %v", err)
	}
	w.bundle(node)
	until := w.clock.Now().Add(2 * time.Hour)
	for range 3 { // the answer was lost
		if err := w.ExtendToken(ctx, node, until, "slow"); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.ExtendToken(ctx, node, until.Add(time.Hour), "slow"); err != nil {
		t.Fatalf("a second time: %v", err)
	}
	if err := w.ExtendToken(ctx, node, until.Add(2*time.Hour), "slow"); code(err) != "token_extended_twice" {
		t.Errorf("a third time: %v", err)
	}
}

func TestANodeOutOfUseIsLeftWhereItIs(t *testing.T) {
	w := newWorld(t)
	node := w.prepare("r-1")
	for range 2 {
		if err := w.Quarantine(ctx, node, "cancelled"); err != nil {
			t.Fatal(err)
		}
	}
	if n := must(w.Node(ctx, node))(t); n.Status != broker.Quarantined || n.StatusReason != "cancelled" {
		t.Errorf("it is %s: %s", n.Status, n.StatusReason)
	}
	if kept := must(w.Remove(ctx, "r-1", "undo"))(t); kept != node {
		t.Errorf("a quarantined node is removed, kept %q", kept)
	}
	gone := w.prepare("r-2")
	if kept := must(w.Remove(ctx, "r-2", "undo"))(t); kept != "" {
		t.Errorf("kept %s", kept)
	}
	if err := w.Quarantine(ctx, gone, "cancelled"); err != nil {
		t.Errorf("a deleted one: %v", err)
	}
	if _, err := w.Prepare(ctx, onboarding.NewNode{RunID: "r-3", Site: "dc1", Hostname: "x", SKU: "none"}); code(err) != "sku_not_found" {
		t.Errorf("an unknown SKU: %v", err)
	}
}

func TestAReseedIsOneTaskForEachKeyAndCarriesNoToken(t *testing.T) {
	w := newWorld(t)
	node := w.prepare("r-1")
	_, token := w.bundle(node)
	secret := taskcatalog.MAASMachineToken{Endpoint: "http://10.0.0.1:5248/MAAS/metadata/status/abc123", ConsumerKey: "consumer", TokenKey: "tokenkey", TokenSecret: "planted-secret"}
	if _, err := w.Reseed(ctx, "r-1/x/1", node, secret, 15*time.Minute); code(err) != "node_not_enrolled" {
		t.Errorf("before it enrolled: %v", err)
	}
	w.enroll(token)
	for range 2 {
		if done, err := w.Reseed(ctx, "r-1/x/1", node, secret, 17*time.Minute); done || err != nil {
			t.Fatalf("done %v, %v", done, err)
		}
	}
	all, _, err := w.DB.ListTasks(ctx, store.TaskFilter{NodeID: node, Type: "node.hw_sync_reseed"})
	if err != nil || len(all) != 1 {
		t.Fatalf("%d tasks, %v", len(all), err)
	}
	if text, _ := json.Marshal(all[0]); bytes.Contains(text, []byte("planted-secret")) || !strings.Contains(string(all[0].Params), "15") {
		t.Errorf("the task has params %s, or the token", all[0].Params)
	}
	must(w.DB.CancelTask(ctx, broker.System, all[0].ID, "test"))(t)
	if _, err := w.Reseed(ctx, "r-1/x/1", node, secret, 17*time.Minute); code(err) != "reseed_failed" {
		t.Errorf("a task that ended badly: %v", err)
	}
	if _, err := w.Reseed(ctx, "r-1/x/2", node, taskcatalog.MAASMachineToken{}, time.Hour); err == nil {
		t.Error("an empty token is kept")
	}
}

func TestNobodyLetsInANodeWhoseAgentHasNeverCome(t *testing.T) {
	w := newWorld(t)
	node := w.prepare("r-1")
	ada := broker.Actor{Name: "ada", Role: broker.RoleOperator}
	must(w.DB.Transition(ctx, ada, node, store.Change{To: broker.Quarantined, By: broker.OwnerOperator, Reason: "x"}))(t)
	for _, by := range []broker.Owner{broker.OwnerOperator, broker.OwnerOverride} {
		if n, err := w.DB.Transition(ctx, ada, node, store.Change{To: broker.Active, By: by, Reason: "x"}); code(err) != "not_enrolled" || n.Status == broker.Active {
			t.Errorf("by %s it is %s, %v", by, n.Status, err)
		}
	}
}

// The bundle's token is valid for the policy's time from the deployment on, however long ago it was
// rendered for the first time.
func TestATokenOutlivesTheDeploymentThatItIsUsedFor(t *testing.T) {
	w := newWorld(t)
	node := w.prepare("r-1")
	_, rendered := w.bundle(node)
	w.clock.Advance(10 * time.Minute)
	if _, again := w.bundle(node); again != rendered {
		t.Error("the token of a machine that may have it was made void")
	}
	for _, wait := range []time.Duration{0, 10 * time.Minute, 50 * time.Minute} { // a freeze, an outage
		w.clock.Advance(wait)
		_, token := w.bundle(node)
		k := must(w.DB.EnrollTokens(ctx, node))(t)
		if left := k.ExpiresAt.Sub(w.clock.Now()); left < time.Hour || !pki.TokenMatches(k.OpenHash, token) {
			t.Errorf("after %v the token that MAAS is given is good for %v more, and an hour is asked for", wait, left)
		}
	}
}

// A run may take back the machine of a node that is not in use and has no owed turnover.
func TestTheMachineOfANodeInUseIsNotTakenBack(t *testing.T) {
	w := newWorld(t)
	node := w.prepare("r-1")
	if why := must(w.InUse(ctx, node, "r-1"))(t); why != "" {
		t.Errorf("enrolling: %s", why)
	}
	if why := must(w.InUse(ctx, "n-none", "r-1"))(t); why != "" {
		t.Errorf("no such node: %s", why)
	}
	for _, status := range broker.NodeStatuses {
		idle := status != broker.Active && status != broker.Offline && status != broker.Draining && status != broker.Removing
		if why := onboarding.Occupied(broker.Node{Status: status}); (why == "") != idle {
			t.Errorf("%s: %q", status, why)
		}
		if why := onboarding.Occupied(broker.Node{Status: status, TurnoverOwed: true}); why == "" {
			t.Errorf("%s, with a turnover owed, is not in use", status)
		}
	}
}
