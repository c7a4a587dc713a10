package registry

import (
	"bytes"
	"context"
	"crypto"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"oras.land/oras-go/v2/registry/remote"
	"oras.land/oras-go/v2/registry/remote/auth"

	"github.com/hostler/hostler/agent/selfupdate"
	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/server"
	"github.com/hostler/hostler/broker/server/servertest"
	"github.com/hostler/hostler/pki"
	"github.com/hostler/hostler/taskcatalog"
	"github.com/hostler/hostler/taskcatalog/release"
	"github.com/hostler/hostler/taskcatalog/release/releasetest"
	"github.com/hostler/hostler/taskcatalog/wire"
)

const planted = "planted-registry-password"

// site is a broker, a private registry with a release in it, and a node.
type site struct {
	t      *testing.T
	broker *servertest.Broker
	hub    *Registry
	tokens *Tokens
	log    *output
	key    crypto.Signer
	node   *servertest.Node
}

// output is a broker's log so far.
type output struct {
	mu   sync.Mutex
	text strings.Builder
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(p)
}

func (o *output) String() string { o.mu.Lock(); defer o.mu.Unlock(); return o.text.String() }

// newSite takes the release keys to trust besides its own.
func newSite(t *testing.T, keys ...crypto.PublicKey) *site {
	t.Helper()
	s := &site{t: t, log: new(output), tokens: &Tokens{Accounts: map[string]Account{
		"ci":   {"push-password", []string{"pull", "push"}, nil},
		"pull": {planted, []string{"pull"}, nil},
		"wide": {planted, []string{"pull"}, []string{"push"}},
		"none": {planted, nil, nil},
	}}}
	if err := s.tokens.Run(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.tokens.Close)
	s.hub = Start(t, Config{Tokens: s.tokens})
	s.broker = servertest.Start(t, func(c *server.Config) {
		c.Log = zap.New(zapcore.NewCore(zapcore.NewJSONEncoder(zap.NewProductionEncoderConfig()), zapcore.AddSync(s.log), zap.DebugLevel))
	})
	var err error
	if s.key, err = pki.GenerateKey(pki.P256); err != nil {
		t.Fatal(err)
	}
	for _, key := range append(keys, s.key.Public()) {
		s.believe(key)
	}
	s.node = s.broker.NewNode(t, api.NodeCreate{Hostname: "h1"}).Settle(t)
	return s
}

// publish pushes a release as CI does, and adds the release to the broker.
func (s *site) publish(repository, version string) releasetest.Signed {
	s.t.Helper()
	r := releasetest.Make(s.t, bytes.Repeat([]byte("agent "), 50_000), releasetest.Statement(version), s.key)
	to := s.open(repository, auth.Credential{Username: "ci", Password: "push-password"})
	for _, part := range [][]byte{r.Statement, r.Layer} {
		if err := to.Blobs().Push(s.t.Context(), described("application/octet-stream", part), bytes.NewReader(part)); err != nil {
			s.t.Fatal(err)
		}
	}
	if err := to.Manifests().Push(s.t.Context(), described(release.MediaManifest, r.Manifest), bytes.NewReader(r.Manifest)); err != nil {
		s.t.Fatal(err)
	}
	if code := s.keep(s.hub.Addr+"/"+repository, r); code != "" {
		s.t.Fatal(code)
	}
	return r
}

// believe adds a release key to the trust bundle.
func (s *site) believe(key crypto.PublicKey) {
	s.t.Helper()
	der, err := x509.MarshalPKIXPublicKey(key)
	if err != nil {
		s.t.Fatal(err)
	}
	servertest.Must[api.Trust](s.t, s.broker, http.MethodPost, "/trust/release-keys", api.ReleaseKeyPut{
		PublicKey: string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})), Reason: "our CI",
	})
}

// keep has the broker keep a release that is at a registry, and returns the code of a
// refusal.
func (s *site) keep(reference string, r releasetest.Signed) string {
	s.t.Helper()
	p := api.AgentReleasePublish{Digest: r.Digest, Channel: "stable", Reference: reference, PlainHTTP: true, Manifest: r.Manifest, Statement: r.Statement}
	for _, sig := range r.Signatures {
		p.Signatures = append(p.Signatures, api.ReleaseSignature(sig))
	}
	return s.broker.Ask(s.t, s.broker.Token, http.MethodPost, "/agent-releases", p).Code()
}

func described(mediaType string, raw []byte) ocispec.Descriptor {
	return ocispec.Descriptor{MediaType: mediaType, Digest: digest.FromBytes(raw), Size: int64(len(raw))}
}

// open returns a repository for a credential.
func (s *site) open(repository string, c auth.Credential) *remote.Repository {
	s.t.Helper()
	repo, err := remote.NewRepository(s.hub.Addr + "/" + repository)
	if err != nil {
		s.t.Fatal(err)
	}
	repo.PlainHTTP = true
	repo.Client = &auth.Client{Client: http.DefaultClient, Credential: auth.StaticCredential(s.hub.Addr, c)}
	return repo
}

// account stores a registry account at the broker, and returns the code of a refusal.
func (s *site) account(at, user string) string {
	s.t.Helper()
	return s.broker.Ask(s.t, s.broker.Token, http.MethodPut, "/registry-credentials/"+at, api.RegistryCredentialPut{Username: user, Password: planted, PlainHTTP: true, Reason: "agents"}).Code()
}

// task orders a task of the node and returns it delivered.
func (s *site) task(typ, params string) (wire.Delivery, *taskcatalog.Task) {
	s.t.Helper()
	servertest.Must[api.Task](s.t, s.broker, http.MethodPost, "/nodes/h1/tasks", api.TaskCreate{Type: typ, Params: json.RawMessage(params)})
	for {
		if d, task := s.node.Next(s.t); task.Type == typ {
			return d, task
		}
	}
}

func (s *site) update(version string) (wire.Delivery, *taskcatalog.Task, taskcatalog.ReleaseSource) {
	s.t.Helper()
	d, task := s.task("node.self_update", `{"phase":"stage","version":"`+version+`"}`)
	var p taskcatalog.SelfUpdateParams
	if err := json.Unmarshal(task.Params, &p); err != nil || p.Source == nil {
		s.t.Fatalf("%s: %v", task.Params, err)
	}
	return d, task, *p.Source
}

// stage carries out an update as the agent does, and returns the token minted for it.
func (s *site) stage(d wire.Delivery, task *taskcatalog.Task) (minted wire.MintReply) {
	s.t.Helper()
	dir, lib := s.t.TempDir(), s.t.TempDir()
	if err := os.Mkdir(filepath.Join(lib, "versions"), 0o755); err != nil { // the package's folder
		s.t.Fatal(err)
	}
	store, err := selfupdate.OpenStore(lib, dir, time.Now)
	if err != nil {
		s.t.Fatal(err)
	}
	params := new(taskcatalog.SelfUpdateParams)
	if err := json.Unmarshal(task.Params, params); err != nil {
		s.t.Fatal(err)
	}
	var raw []byte
	u := &selfupdate.Updater{Log: zap.NewNop(), Version: "1.0.0", Stager: selfupdate.Stager{
		Store: store, StateDir: dir, OS: release.OS, Arch: release.Arch, Progress: func(string, int, string) {},
		Keys:  func() release.Keys { return s.node.Trust.ReleaseKeys(s.broker.Now()) },
		Forms: func() ([]int, error) { return []int{1}, nil },
		Test: func(context.Context, string) (*selfupdate.SelfTest, error) {
			return &selfupdate.SelfTest{Version: params.Version, State: release.State}, nil
		},
	}}
	res, err := u.Do(s.t.Context(), selfupdate.Task{ID: task.TaskID, Params: params, Began: time.Now(), Mint: func(_ context.Context, credentialType string) ([]byte, error) {
		code := ""
		if minted, code = s.node.Mint(s.t, d, credentialType); code != "" {
			return nil, errors.New(code)
		}
		raw = []byte(minted.Secret)
		return raw, nil
	}})
	if err != nil || res.Outcome != taskcatalog.UpdateStaged || res.BytesFetched == 0 {
		s.t.Fatalf("%+v, %v", res, err)
	}
	if len(bytes.Trim(raw, "\x00")) > 0 {
		s.t.Error("the agent keeps what was minted")
	}
	return minted
}

// end reports a task's end, so that the node may have another task.
func (s *site) end(d wire.Delivery, task *taskcatalog.Task) {
	s.t.Helper()
	s.node.Finish(s.t, d, task, taskcatalog.OutcomeFailed, nil, taskcatalog.Report{})
}

// nowhere checks that the secrets are in none of the broker's files, logs and answers.
func (s *site) nowhere(secrets ...string) {
	s.t.Helper()
	texts := map[string][]byte{"the log": []byte(s.log.String())}
	err := filepath.WalkDir(s.broker.Dir, func(path string, e fs.DirEntry, err error) error {
		if err == nil && !e.IsDir() {
			texts[path], err = os.ReadFile(path)
		}
		return err
	})
	if err != nil || len(texts) < 5 {
		s.t.Errorf("%d texts, %v", len(texts), err)
	}
	for _, path := range []string{"/audit?limit=1000", "/events?follow=false&after=0", "/registry-credentials", "/agent-releases", "/tasks", "/nodes/h1/timeline"} {
		texts[path] = s.broker.Ask(s.t, s.broker.Token, http.MethodGet, path, nil).Body
	}
	for where, text := range texts {
		for _, secret := range secrets {
			if bytes.Contains(text, []byte(secret)) {
				s.t.Errorf("%s tells a secret", where)
			}
		}
	}
}

// TestANodePullsFromAPrivateRegistryWithATokenOfItsTask tests the whole path: an account is stored,
// an update ordered, and the agent's own client fetches the release with the token minted for that
// task. The token opens nothing else.
func TestANodePullsFromAPrivateRegistryWithATokenOfItsTask(t *testing.T) {
	s := newSite(t)
	if code := s.account(s.hub.Addr, "pull"); code != "" {
		t.Fatal(code)
	}
	r := s.publish("fleet/agent", "1.2.3")
	s.publish("fleet/other", "1.2.4")
	other := s.broker.NewNode(t, api.NodeCreate{Hostname: "h2"}).Settle(t)

	d, task, source := s.update("1.2.3")
	if source.Credential != taskcatalog.CredentialOCIPull || strings.Contains(string(task.Params), planted) {
		t.Fatalf("the node is told %s", task.Params)
	}
	if _, code := other.Mint(t, d, "oci_pull"); code != "task_not_found" {
		t.Errorf("another node: %s", code)
	}
	if _, code := s.node.Mint(t, wire.Delivery{TaskID: d.TaskID, Attempt: d.Attempt + 1}, "oci_pull"); code != "lease_lost" {
		t.Errorf("another attempt: %s", code)
	}
	got := s.stage(d, task)
	if got.ExpiresAt.Sub(s.broker.Now()) > tokenLife {
		t.Errorf("it is for the node until %v", got.ExpiresAt)
	}
	if _, code := s.node.Mint(t, d, "oci_pull"); code != "already_minted" {
		t.Errorf("once more: %s", code)
	}
	var c taskcatalog.OCIPullCredential
	if err := json.Unmarshal([]byte(got.Secret), &c); err != nil || c.Token == "" || strings.Contains(got.Secret, planted) {
		t.Fatalf("the node is given no token: %v", err)
	}
	asked := s.tokens.Asked()
	if asked[len(asked)-1] != "repository:fleet/agent:pull" {
		t.Errorf("asked for %q", asked)
	}
	// A stolen token pushes nothing and pulls nothing else.
	with := auth.Credential{AccessToken: c.Token}
	if err := s.open("fleet/agent", with).Blobs().Push(t.Context(), described("application/octet-stream", []byte("evil")), strings.NewReader("evil")); err == nil {
		t.Error("it pushes")
	}
	if err := s.open("fleet/agent", with).Tag(t.Context(), described(release.MediaManifest, r.Manifest), "latest"); err == nil {
		t.Error("it moves a tag")
	}
	if _, err := s.open("fleet/other", with).Resolve(t.Context(), "anything"); err == nil || !strings.Contains(err.Error(), "401") {
		t.Errorf("it opens another repository: %v", err)
	}
	if _, err := s.open("fleet/agent", auth.EmptyCredential).Resolve(t.Context(), r.Digest); err == nil {
		t.Error("anybody may pull")
	}

	s.end(d, task)
	if _, code := s.node.Mint(t, d, "oci_pull"); code != "lease_lost" {
		t.Errorf("for a task that has ended: %s", code)
	}
	rows := servertest.Must[api.AuditList](t, s.broker, http.MethodGet, "/audit?action=credential.mint", nil)
	granted := 0
	for _, e := range rows.Items {
		if e.Code == "" {
			granted++
			if after, _ := json.Marshal(e.After); e.Subject != "task/"+d.TaskID || !strings.Contains(e.Actor, s.node.NodeID) || !strings.Contains(string(after), s.hub.Addr+"/fleet/agent@"+r.Digest) {
				t.Errorf("audited as %+v", e)
			}
		}
	}
	if granted != 1 {
		t.Errorf("%d mints are in the audit log", granted)
	}
	s.nowhere(append(s.tokens.Made(), planted)...)

	servertest.Must[api.RegistryCredential](t, s.broker, http.MethodDelete, "/registry-credentials/"+s.hub.Addr+"?reason=over", nil)
	if d, task, source := s.update("1.2.3"); source.Credential != "" {
		t.Errorf("without an account the node is told %s", task.Params)
	} else if _, code := s.node.Mint(t, d, "oci_pull"); code != "credential_refused" {
		t.Errorf("without an account: %s", code)
	}
	if left, _ := filepath.Glob(filepath.Join(s.broker.Dir, "secrets", "registries", "*", "*.age")); len(left) > 0 {
		t.Errorf("the secret is still there: %v", left)
	}
}

func TestWhatARegistryMayNotGiveIsNotGiven(t *testing.T) {
	s := newSite(t)
	s.publish("fleet/agent", "1.2.3")
	for user, want := range map[string]string{"wide": "registry_token_too_wide", "none": "registry_pull_refused"} {
		if code := s.account(s.hub.Addr, user); code != "" {
			t.Fatal(code)
		}
		d, task, _ := s.update("1.2.3")
		if got, code := s.node.Mint(t, d, "oci_pull"); code != want || got.Secret != "" {
			t.Errorf("%s: %s, want %s", user, code, want)
		}
		rows := servertest.Must[api.AuditList](t, s.broker, http.MethodGet, "/audit?limit=1000&actor=node:"+s.node.NodeID, nil)
		if !slices.ContainsFunc(rows.Items, func(e api.AuditEntry) bool { return e.Code == want }) {
			t.Errorf("%s is not in the audit log", want)
		}
		s.end(d, task)
	}
	d, _ := s.task("node.heartbeat_check", `{}`)
	if _, code := s.node.Mint(t, d, "oci_pull"); code != "credential_refused" {
		t.Errorf("a task of another type: %s", code)
	}
	// A registry that requires the account's own password is refused at once, and no account is
	// kept.
	basic := Start(t, Config{User: "pull", Password: planted})
	for at, want := range map[string]string{basic.Addr: "registry_no_tokens", "127.0.0.1:1": "registry_unreachable", s.hub.Addr + "%2Ffleet": "registry_credential_invalid"} {
		if code := s.account(at, "pull"); code != want {
			t.Errorf("%s: %s, want %s", at, code, want)
		}
	}
	if code := s.account(s.hub.Addr, "nobody"); code != "registry_login_refused" {
		t.Errorf("a wrong account: %s", code)
	}
	list := servertest.Must[api.RegistryCredentialList](t, s.broker, http.MethodGet, "/registry-credentials", nil)
	if len(list.Items) != 1 || list.Items[0].Registry != s.hub.Addr || list.Items[0].Reason != "agents" || list.Items[0].SetBy != "admin" {
		t.Errorf("kept are %+v", list.Items)
	}
	// A missing account is reported as missing, whatever else is wrong with the request.
	for path, want := range map[string]string{"/registry-credentials/none.invalid": "registry_credential_not_found", "/registry-credentials/" + s.hub.Addr: "reason_missing"} {
		if code := s.broker.Ask(t, s.broker.Token, http.MethodDelete, path, nil).Code(); code != want {
			t.Errorf("DELETE %s: %s, want %s", path, code, want)
		}
	}
	s.nowhere(append(s.tokens.Made(), planted)...)
}

// Setting an account again may be interrupted between the record and the secret. The broker does
// not use such a half-set account; the operator sets it again.
func TestAnAccountThatIsHalfSetIsNotUsed(t *testing.T) {
	s := newSite(t)
	s.publish("fleet/agent", "1.2.3")
	kept := func() string {
		t.Helper()
		all, err := filepath.Glob(filepath.Join(s.broker.Dir, "secrets", "registries", "*", "*.age"))
		if err != nil || len(all) != 1 {
			t.Fatalf("accounts are at %q, %v", all, err)
		}
		return all[0]
	}
	set := func() []byte {
		t.Helper()
		if code := s.account(s.hub.Addr, "pull"); code != "" {
			t.Fatal(code)
		}
		raw, err := os.ReadFile(kept())
		if err != nil {
			t.Fatal(err)
		}
		return raw
	}
	first := set()
	set()
	mint := func(want string) {
		t.Helper()
		d, task, _ := s.update("1.2.3")
		before := len(s.tokens.Asked())
		if _, code := s.node.Mint(t, d, "oci_pull"); code != want || want != "" && len(s.tokens.Asked()) != before {
			t.Errorf("%q, want %q", code, want)
		}
		s.end(d, task)
	}
	mint("")
	if err := os.WriteFile(kept(), first, 0o600); err != nil { // as it is where the second was never written
		t.Fatal(err)
	}
	mint("registry_credential_unfinished")
	if err := os.Remove(kept()); err != nil { // and for the first setting of an account
		t.Fatal(err)
	}
	mint("registry_credential_missing")
	set()
	mint("")
}

// A registry has one account, whatever name is used for it.
func TestARegistryIsKeptByOneName(t *testing.T) {
	s := newSite(t)
	s.publish("fleet/agent", "1.2.3")
	name := strings.Replace(s.hub.Addr, "127.0.0.1", "LocalHost", 1)
	if code := s.account(name, "pull"); code != "" {
		t.Fatal(code)
	}
	list := servertest.Must[api.RegistryCredentialList](t, s.broker, http.MethodGet, "/registry-credentials", nil)
	if len(list.Items) != 1 || list.Items[0].Registry != strings.ToLower(name) || list.Items[0].Generation == "" {
		t.Errorf("kept are %+v", list.Items)
	}
	servertest.Must[api.RegistryCredential](t, s.broker, http.MethodDelete, "/registry-credentials/"+strings.ToUpper(name)+"?reason=over", nil)
}
