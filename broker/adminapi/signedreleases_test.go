package adminapi_test

import (
	"bytes"
	"crypto"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/adminapi"
	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/server/servertest"
	"github.com/hostler/hostler/pki"
	"github.com/hostler/hostler/taskcatalog/release"
	"github.com/hostler/hostler/taskcatalog/release/releasetest"
)

func releaseKey(t *testing.T) (crypto.Signer, string) {
	t.Helper()
	key, err := pki.GenerateKey(pki.P256)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		t.Fatal(err)
	}
	return key, string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}))
}

// putLayer uploads the layer of a release, as the client does before it publishes.
func putLayer(t *testing.T, b *servertest.Broker, layer []byte) {
	t.Helper()
	servertest.Must[api.ReleasePart](t, b, http.MethodPut, "/agent-releases/parts/"+release.Digest(layer)[len("sha256:"):], bytes.NewReader(layer))
}

func publishing(r releasetest.Signed) api.AgentReleasePublish {
	out := api.AgentReleasePublish{Digest: r.Digest, Channel: "stable", Manifest: r.Manifest, Statement: r.Statement}
	for _, s := range r.Signatures {
		out.Signatures = append(out.Signatures, api.ReleaseSignature(s))
	}
	return out
}

func TestASignedReleaseIsKeptAndServed(t *testing.T) {
	b := servertest.Start(t)
	key, public := releaseKey(t)
	program := bytes.Repeat([]byte("agent "), 300_000)
	r := releasetest.Make(t, program, releasetest.Statement("1.2.3"), key)
	putLayer(t, b, r.Layer)
	if a := b.Ask(t, b.Token, http.MethodPost, "/agent-releases", publishing(r)); a.Code() != "release_signature_invalid" {
		t.Fatalf("without a release key in the bundle: %d %s", a.Status, a.Body)
	}
	trust := servertest.Must[api.Trust](t, b, http.MethodPost, "/trust/release-keys", api.ReleaseKeyPut{PublicKey: public, Reason: "our CI"})
	got := servertest.Must[api.AgentRelease](t, b, http.MethodPost, "/agent-releases", publishing(r))
	if got.Kind != "signed" || got.Version != "1.2.3" || got.Digest != r.Digest || got.KeyID != trust.Keys[len(trust.Keys)-1].ID ||
		got.Statement.BinarySize != int64(len(program)) || got.Statement.Commit != "0123456789ab" || got.UploadedBy != "admin" {
		t.Errorf("it is %+v", got)
	}
	// A node gets each part by its digest, without a certificate.
	for _, part := range [][]byte{r.Manifest, r.Statement, r.Layer} {
		at := strings.Replace(got.URL, r.Digest[len("sha256:"):], release.Digest(part)[len("sha256:"):], 1)
		if a := b.Ask(t, "", http.MethodGet, at, nil); a.Status != http.StatusOK || !bytes.Equal(a.Body, part) {
			t.Errorf("%s: %d and %d bytes", at, a.Status, len(a.Body))
		}
	}
	deb := releasetest.Make(t, []byte("x"), releasetest.Statement("0.0.1"), key).Layer // any bytes
	servertest.Must[api.AgentRelease](t, b, http.MethodPut, "/agent-releases/"+release.Digest(deb)[len("sha256:"):]+"?version=1.0.0&filename=hostler-agent_1.0.0_amd64.deb", bytes.NewReader(deb))
	servertest.Must[api.AgentReleaseFloor](t, b, http.MethodPut, "/agent-releases/floor", api.AgentReleaseFloorPut{Version: "1.3.0", Reason: "a hole"})
	revoked := servertest.Must[api.AgentRelease](t, b, http.MethodPost, "/agent-releases/1.2.3/revoke", api.ReasonBody{Reason: "eats disks"})
	if !revoked.BelowFloor || revoked.RevokedReason != "eats disks" || revoked.RevokedAt.IsZero() {
		t.Errorf("revoked it is %+v", revoked)
	}
	if a := b.Ask(t, b.Token, http.MethodPost, "/agent-releases", publishing(r)); a.Code() != "release_revoked" {
		t.Errorf("published again: %d %s", a.Status, a.Body)
	}
	list := servertest.Must[api.AgentReleaseList](t, b, http.MethodGet, "/agent-releases", nil)
	if len(list.Items) != 2 || list.Items[0].Kind != "package" || list.Items[1].Version != "1.2.3" || list.Floor.Version != "1.3.0" || list.Floor.SetBy != "admin" {
		t.Errorf("listed %+v", list)
	}
}

// A broker does not keep a release that its trust bundle cannot verify, whoever asks.
func TestABrokerRefusesWhatItCannotVerify(t *testing.T) {
	b := servertest.Start(t)
	key, public := releaseKey(t)
	thief, _ := releaseKey(t)
	old, oldPublic := releaseKey(t)
	servertest.Must[api.Trust](t, b, http.MethodPost, "/trust/release-keys", api.ReleaseKeyPut{PublicKey: oldPublic, Reason: "first"})
	servertest.Must[api.Trust](t, b, http.MethodPost, "/trust/release-keys", api.ReleaseKeyPut{PublicKey: public, Reason: "second"})
	oldID, err := pki.KeyID(old.Public())
	if err != nil {
		t.Fatal(err)
	}
	servertest.Must[api.Trust](t, b, http.MethodPost, "/trust/release-keys/"+oldID+"/retire", api.ReasonBody{Reason: "stolen"})

	good := releasetest.Make(t, []byte("an agent"), releasetest.Statement("1.0.0"), key)
	other := releasetest.Make(t, []byte("another"), releasetest.Statement("1.0.0"), key)
	arm, future := releasetest.Statement("1.0.0"), releasetest.Statement("1.0.0")
	arm.Arch, future.Protocol = "arm64", release.Protocol+1
	putLayer(t, b, good.Layer)
	with := func(change func(*api.AgentReleasePublish)) api.AgentReleasePublish {
		p := publishing(good)
		change(&p)
		return p
	}
	// Signed, but the layer is not the program named in the statement.
	mixed := publishing(other)
	mixed.Manifest = bytes.Replace(other.Manifest, []byte(release.Digest(other.Layer)), []byte(release.Digest(good.Layer)), 1)
	mixed.Manifest = bytes.Replace(mixed.Manifest, sizeText(other.Layer), sizeText(good.Layer), 1)
	mixed.Digest = release.Digest(mixed.Manifest)
	mixed.Signatures = []api.ReleaseSignature{api.ReleaseSignature(releasetest.Sign(t, mixed.Digest, key))}

	// Hostler's own verifier takes no payload with a member that it does not know.
	payload := bytes.Replace(good.Signatures[0].Payload, []byte(`{"critical"`), []byte(`{"more":1,"critical"`), 1)
	sum := sha256.Sum256(payload)
	raw, err := key.Sign(rand.Reader, sum[:], crypto.SHA256)
	if err != nil {
		t.Fatal(err)
	}
	odd := []api.ReleaseSignature{{Payload: payload, Signature: raw}}

	for name, c := range map[string]struct {
		p    api.AgentReleasePublish
		code string
	}{
		"by a thief":                   {publishing(releasetest.Make(t, []byte("an agent"), releasetest.Statement("1.0.0"), thief)), "release_signature_invalid"},
		"by a key that was retired":    {publishing(releasetest.Make(t, []byte("an agent"), releasetest.Statement("1.0.0"), old)), "release_signature_invalid"},
		"another's signature":          {with(func(p *api.AgentReleasePublish) { p.Signatures = publishing(other).Signatures }), "release_signature_invalid"},
		"another manifest":             {with(func(p *api.AgentReleasePublish) { p.Manifest = other.Manifest }), "release_digest_mismatch"},
		"another statement":            {with(func(p *api.AgentReleasePublish) { p.Statement = other.Statement }), "release_digest_mismatch"},
		"another architecture":         {publishing(releasetest.Make(t, []byte("an agent"), arm, key)), "release_arch_wrong"},
		"a newer agent than broker":    {publishing(releasetest.Make(t, []byte("an agent"), future, key)), "release_protocol_wrong"},
		"a layer that is not here":     {publishing(other), "release_part_missing"},
		"another program in its layer": {mixed, "release_binary_mismatch"},
		"what cosign's alone accepts":  {with(func(p *api.AgentReleasePublish) { p.Signatures = odd }), "release_verifiers_disagree"},
		"no digest":                    {with(func(p *api.AgentReleasePublish) { p.Digest = strings.Repeat("0", 71) }), "agent_release_invalid"},
		"a channel that is none":       {with(func(p *api.AgentReleasePublish) { p.Channel = "../x" }), "agent_release_invalid"},
		"a channel that no node is of": {with(func(p *api.AgentReleasePublish) { p.Channel = "canary" }), "agent_release_invalid"},
		"a reference with a tag":       {with(func(p *api.AgentReleasePublish) { p.Reference = "r.example/agent:latest" }), "agent_release_invalid"},
		"a reference with a scheme":    {with(func(p *api.AgentReleasePublish) { p.Reference = "http://r.example/agent" }), "agent_release_invalid"},
		"a reference with a user":      {with(func(p *api.AgentReleasePublish) { p.Reference = "me@r.example/agent" }), "agent_release_invalid"},
		"plain HTTP to nowhere":        {with(func(p *api.AgentReleasePublish) { p.PlainHTTP = true }), "agent_release_invalid"},
	} {
		if a := b.Ask(t, b.Token, http.MethodPost, "/agent-releases", c.p); a.Code() != c.code {
			t.Errorf("%s: %d %s, want %s", name, a.Status, a.Body, c.code)
		}
	}
	if list := servertest.Must[api.AgentReleaseList](t, b, http.MethodGet, "/agent-releases", nil); len(list.Items) != 0 {
		t.Errorf("refused releases are kept: %+v", list.Items)
	}
	rows := servertest.Must[api.AuditList](t, b, http.MethodGet, "/audit?action=release.publish&limit=100", nil)
	codes := map[string]bool{}
	for _, e := range rows.Items {
		codes[e.Code] = true
	}
	for _, code := range []string{"release_signature_invalid", "release_digest_mismatch", "release_binary_mismatch", "release_verifiers_disagree"} {
		if !codes[code] {
			t.Errorf("%s is not in the audit log: %v", code, codes)
		}
	}
	for _, reference := range []string{"r.example/agent", "127.0.0.1:5000/hostler/agent", "[::1]:5000/agent"} {
		p := with(func(p *api.AgentReleasePublish) { p.Reference = reference })
		if got := servertest.Must[api.AgentRelease](t, b, http.MethodPost, "/agent-releases", p); got.Reference != reference || got.URL != "" {
			t.Errorf("at a registry it is %+v", got)
		}
	}
	if a := b.Ask(t, b.Token, http.MethodPost, "/agent-releases", publishing(other)); a.Code() != "release_part_missing" {
		t.Errorf("the version's second release: %d %s", a.Status, a.Body)
	}
	putLayer(t, b, other.Layer)
	if a := b.Ask(t, b.Token, http.MethodPost, "/agent-releases", publishing(other)); a.Code() != "release_version_taken" {
		t.Errorf("the version's second release: %d %s", a.Status, a.Body)
	}
}

// What one verifier refuses is no release, and the refusal says which one, and why.
func TestTwoVerifiersMustAgreeOnARelease(t *testing.T) {
	ours, theirs := errors.New("ours refuses"), errors.New("theirs refuses")
	for name, c := range map[string]struct {
		ownKey     string
		own        error
		cosignsKey string
		cosigns    error
		says       []string // empty: they agree
	}{
		"both accept":    {"k1", nil, "k1", nil, nil},
		"two keys":       {"k1", nil, "k2", nil, []string{"Hostler's own accepts the signature by key k1", "cosign's that by key k2"}},
		"only Hostler's": {"k1", nil, "", theirs, []string{"Hostler's own accepts the signature by key k1", "cosign's refuses: theirs refuses"}},
		"only cosign's":  {"", ours, "k1", nil, []string{"cosign's accepts the signature by key k1", "Hostler's own refuses: ours refuses"}},
	} {
		err := adminapi.AgreedOnRelease("sha256:ab", c.ownKey, c.own, c.cosignsKey, c.cosigns)
		if len(c.says) == 0 {
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		if e := broker.AsError(err); e.Code != "release_verifiers_disagree" || e.Kind != broker.Refused {
			t.Errorf("%s: %v", name, err)
		}
		for _, part := range append(c.says, "sha256:ab") {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("%s: %v does not say %q", name, err, part)
			}
		}
	}
	if err := adminapi.AgreedOnRelease("sha256:ab", "", ours, "", theirs); !errors.Is(err, ours) {
		t.Errorf("both refuse: %v", err)
	}
}

func TestWhatIsNoReleaseKeyIsRefused(t *testing.T) {
	b := servertest.Start(t)
	key, public := releaseKey(t)
	private, err := pki.MarshalKey(key)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct{ pem, code string }{
		"a private key":  {string(private), "malformed"},
		"two keys":       {public + public, "malformed"},
		"words before":   {"our key\n" + public, "malformed"},
		"nothing of PEM": {"ssh-ed25519 AAAA", "malformed"},
	} {
		a := b.Ask(t, b.Token, http.MethodPost, "/trust/release-keys", api.ReleaseKeyPut{PublicKey: c.pem, Reason: "r"})
		if a.Code() != c.code {
			t.Errorf("%s: %d %s, want %s", name, a.Status, a.Body, c.code)
		}
		if bytes.Contains(a.Body, private[40:80]) {
			t.Errorf("%s: the answer holds it", name)
		}
	}
	if a := b.Ask(t, b.Token, http.MethodPost, "/trust/release-keys/none/retire", api.ReasonBody{Reason: "r"}); a.Code() != "release_key_unknown" {
		t.Errorf("a key that is not there: %d %s", a.Status, a.Body)
	}
}

func sizeText(part []byte) []byte { return []byte(`"size":` + strconv.Itoa(len(part))) }

// New machines are never given a revoked package.
func TestAMachineIsGivenNoPackageThatWasRevoked(t *testing.T) {
	b := servertest.Start(t)
	key, public := releaseKey(t)
	servertest.Must[api.Trust](t, b, http.MethodPost, "/trust/release-keys", api.ReleaseKeyPut{PublicKey: public, Reason: "our CI"})
	r := releasetest.Make(t, []byte("an agent"), releasetest.Statement("1.2.3"), key)
	putLayer(t, b, r.Layer)
	servertest.Must[api.AgentRelease](t, b, http.MethodPost, "/agent-releases", publishing(r))
	deb := []byte("a package")
	digest := release.Digest(deb)[len("sha256:"):]
	servertest.Must[api.AgentRelease](t, b, http.MethodPut, "/agent-releases/"+digest+"?version=1.2.3-1&filename=hostler-agent_1.2.3-1_amd64.deb", bytes.NewReader(deb))
	if n := servertest.Must[api.NodeBootstrap](t, b, http.MethodPost, "/nodes", api.NodeCreate{Hostname: "h1"}); n.Warning != "" || !strings.Contains(n.Command+n.CloudConfig, digest) {
		t.Fatalf("before it was revoked: %+v", n)
	}
	servertest.Must[api.AgentRelease](t, b, http.MethodPost, "/agent-releases/1.2.3/revoke", api.ReasonBody{Reason: "eats disks"})
	if n := servertest.Must[api.NodeBootstrap](t, b, http.MethodPost, "/nodes", api.NodeCreate{Hostname: "h2"}); !strings.Contains(n.Warning, "but for 1 that are revoked or below the floor") || strings.Contains(n.Command+n.CloudConfig, digest) {
		t.Errorf("after it was revoked: %+v", n)
	}
}
