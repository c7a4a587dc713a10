package release_test

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"strconv"
	"strings"
	"testing"

	"github.com/hostler/hostler/taskcatalog"
	"github.com/hostler/hostler/taskcatalog/release"
	"github.com/hostler/hostler/taskcatalog/release/releasetest"
)

func p256(t testing.TB) crypto.Signer {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func ed(t testing.TB) crypto.Signer {
	t.Helper()
	_, k, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func wantCode(t *testing.T, err error, code taskcatalog.Code) {
	t.Helper()
	if got := taskcatalog.CodeOf(err, ""); got != code || (err == nil) != (code == "") {
		t.Errorf("%v (%q), want %q", err, got, code)
	}
}

var program = bytes.Repeat([]byte("an agent, more or less. "), 5000)

func TestAReleaseBuiltTwiceHasOneDigest(t *testing.T) {
	one := must(release.Pack(program, releasetest.Statement("1.2.3")))(t)
	two := must(release.Pack(bytes.Clone(program), releasetest.Statement("1.2.3")))(t)
	if one.Digest != two.Digest || !bytes.Equal(one.Manifest, two.Manifest) || !bytes.Equal(one.Statement, two.Statement) || !bytes.Equal(one.Layer, two.Layer) {
		t.Errorf("%s and %s", one.Digest, two.Digest)
	}
	other := must(release.Pack(append(bytes.Clone(program), 0), releasetest.Statement("1.2.3")))(t)
	if other.Digest == one.Digest {
		t.Error("another program has the same digest")
	}
	// A change of this is another form of statement, which nodes in the field do not read.
	const statement = `{"schema":"hostler.agent-release/v1","version":"1.2.3","commit":"0123456789ab","os":"linux","arch":"amd64",` +
		`"binary":{"sha256":"SUM","size":120000},"state_schema":{"reads_min":1,"reads_max":1,"writes":1},"protocol":1,"built_at":"2026-11-01T12:00:00Z"}`
	if want := strings.Replace(statement, "SUM", release.Digest(program)[len("sha256:"):], 1); string(one.Statement) != want {
		t.Errorf("it says %s, want %s", one.Statement, want)
	}
}

func TestASignedReleaseIsBelieved(t *testing.T) {
	for name, key := range map[string]crypto.Signer{"P-256": p256(t), "Ed25519": ed(t)} {
		r := releasetest.Make(t, program, releasetest.Statement("1.2.3-rc.1"), key)
		keys := release.Keys{"other": ed(t).Public(), "k": key.Public()}
		m, s, err := release.Verify(r.Manifest, r.Statement, r.Signatures, keys, r.Digest)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		var out bytes.Buffer
		if err := m.Unpack(&out, bytes.NewReader(r.Layer), s); err != nil || !bytes.Equal(out.Bytes(), program) {
			t.Errorf("%s: %v, and %d bytes of %d", name, err, out.Len(), len(program))
		}
		if m.KeyID != "k" || m.Digest != r.Digest || s.Version != "1.2.3-rc.1" {
			t.Errorf("%s: %+v %+v", name, m, s)
		}
	}
}

// Each row is a release that is not what was asked for, and why it is refused.
func TestWhatIsNoReleaseIsRefused(t *testing.T) {
	key, thief := p256(t), p256(t)
	keys := release.Keys{"k": key.Public()}
	good := releasetest.Make(t, program, releasetest.Statement("1.2.3"), key)
	other := releasetest.Make(t, []byte("another program"), releasetest.Statement("1.2.4"), key)
	forged := releasetest.Make(t, program, releasetest.Statement("1.2.3"), thief)

	// What the release key signed, although it should not have: the form still counts.
	signed := func(raw []byte) releasetest.Signed {
		return releasetest.Signed{
			Artifact:   &release.Artifact{Digest: release.Digest(raw), Manifest: raw, Statement: good.Statement, Layer: good.Layer},
			Signatures: []release.Signature{releasetest.Sign(t, release.Digest(raw), key)},
		}
	}
	edited := func(old, new string) releasetest.Signed {
		raw := strings.Replace(string(good.Manifest), old, new, 1)
		if raw == string(good.Manifest) {
			t.Fatalf("%q is not in %s", old, raw)
		}
		return signed([]byte(raw))
	}
	stated := func(old, new string) releasetest.Signed {
		statement := []byte(strings.Replace(string(good.Statement), old, new, 1))
		if bytes.Equal(statement, good.Statement) {
			t.Fatalf("%q is not in %s", old, good.Statement)
		}
		raw := strings.Replace(string(good.Manifest), release.Digest(good.Statement), release.Digest(statement), 1)
		raw = strings.Replace(raw, sizeOf(good.Statement), sizeOf(statement), 1)
		r := signed([]byte(raw))
		r.Statement = statement
		return r
	}
	with := func(change func(*releasetest.Signed)) releasetest.Signed {
		a := *good.Artifact
		r := releasetest.Signed{Artifact: &a, Signatures: good.Signatures}
		change(&r)
		return r
	}
	payload := func(raw string) releasetest.Signed {
		return with(func(r *releasetest.Signed) { r.Signatures = []release.Signature{signText(t, key, raw)} })
	}
	says := `{"critical":{"identity":{"docker-reference":""},"image":{"docker-manifest-digest":"` + good.Digest + `"},"type":"cosign container image signature"},"optional":null}`
	wantCode(t, verify(payload(says), keys), "") // as cosign writes it
	wantCode(t, verify(payload(strings.Replace(says, "null", `{"creator":"ci","timestamp":1}`, 1)), keys), "")

	for name, c := range map[string]struct {
		r    releasetest.Signed
		keys release.Keys
		code taskcatalog.Code
	}{
		"another manifest than was asked for": {with(func(r *releasetest.Signed) { r.Manifest = other.Manifest }), keys, release.CodeDigestMismatch},
		"a manifest cut short":                {with(func(r *releasetest.Signed) { r.Manifest = r.Manifest[:len(r.Manifest)-1] }), keys, release.CodeDigestMismatch},
		"a manifest with a byte more":         {with(func(r *releasetest.Signed) { r.Manifest = append(bytes.Clone(r.Manifest), '\n') }), keys, release.CodeDigestMismatch},
		"a digest in capitals":                {with(func(r *releasetest.Signed) { r.Digest = strings.ToUpper(r.Digest) }), keys, release.CodeDigestMismatch},
		"no digest":                           {with(func(r *releasetest.Signed) { r.Digest = "" }), keys, release.CodeDigestMismatch},
		"signed by a stranger":                {forged, keys, release.CodeSignatureInvalid},
		"no key in force":                     {good, nil, release.CodeSignatureInvalid},
		"no signature":                        {with(func(r *releasetest.Signed) { r.Signatures = nil }), keys, release.CodeSignatureInvalid},
		"the signature of another manifest":   {with(func(r *releasetest.Signed) { r.Signatures = other.Signatures }), keys, release.CodeSignatureInvalid},
		"a payload swapped under its signature": {with(func(r *releasetest.Signed) {
			r.Signatures = []release.Signature{{good.Signatures[0].Payload, other.Signatures[0].Signature}}
		}), keys, release.CodeSignatureInvalid},
		"more signatures than fit": {with(func(r *releasetest.Signed) {
			r.Signatures = append(make([]release.Signature, release.MaxSignatures), good.Signatures...)
		}), keys, release.CodeSignatureInvalid},
		"a payload of another type":        {payload(strings.Replace(says, "cosign container image signature", "atomic container signature", 1)), keys, release.CodeSignatureInvalid},
		"a payload with something more":    {payload(strings.Replace(says, `"optional"`, `"also":1,"optional"`, 1)), keys, release.CodeSignatureInvalid},
		"a payload that names two digests": {payload(strings.Replace(says, `"image":{`, `"image":{"docker-manifest-digest":"`+other.Digest+`",`, 1)), keys, release.CodeSignatureInvalid},
		"a payload that is too large":      {payload(says + strings.Repeat(" ", 8<<10)), keys, release.CodeSignatureInvalid},
		"a key of another kind":            {good, release.Keys{"k": ed(t).Public()}, release.CodeSignatureInvalid},
		"no JSON":                          {signed([]byte("release")), keys, release.CodeManifestInvalid},
		"an oversized manifest":            {signed(bytes.Repeat([]byte(" "), release.MaxManifest+1)), keys, release.CodeManifestInvalid},
		"two layers":                       {edited(`"layers":[`, `"layers":[{"mediaType":"`+release.MediaLayer+`","digest":"`+release.Digest(nil)+`","size":1},`), keys, release.CodeManifestInvalid},
		"no layer":                         {signed([]byte(`{"schemaVersion":2,"mediaType":"` + release.MediaManifest + `","artifactType":"` + release.MediaArtifact + `","config":{"mediaType":"` + release.MediaStatement + `","digest":"` + release.Digest(nil) + `","size":1},"layers":[]}`)), keys, release.CodeManifestInvalid},
		"a container image":                {edited(release.MediaArtifact, "application/vnd.oci.image.config.v1+json"), keys, release.CodeManifestInvalid},
		"a layer of another type":          {edited(release.MediaLayer, "application/vnd.oci.image.layer.v1.tar+gzip"), keys, release.CodeManifestInvalid},
		"annotations":                      {edited(`"layers":`, `"annotations":{"a":"b"},"layers":`), keys, release.CodeManifestInvalid},
		"a URL in a descriptor":            {edited(`"size":`, `"urls":["https://x"],"size":`), keys, release.CodeManifestInvalid},
		"a key twice":                      {edited(`"schemaVersion":2`, `"schemaVersion":2,"schemaVersion":2`), keys, release.CodeManifestInvalid},
		"a key in another case":            {edited(`"schemaVersion"`, `"SchemaVersion"`), keys, release.CodeManifestInvalid},
		"spaces":                           {edited(`:2,`, `: 2,`), keys, release.CodeManifestInvalid},
		"a layer of no size":               {edited(`"size":`+strconv.Itoa(len(good.Layer)), `"size":0`), keys, release.CodeManifestInvalid},
		"a layer larger than any program":  {edited(`"size":`+strconv.Itoa(len(good.Layer)), `"size":268435457`), keys, release.CodeManifestInvalid},
		"a layer by another hash":          {edited(release.Digest(good.Layer), "sha512:"+strings.Repeat("0", 128)), keys, release.CodeManifestInvalid},
		"the statement of another release": {with(func(r *releasetest.Signed) { r.Statement = other.Statement }), keys, release.CodeDigestMismatch},
		"a statement with a space":         {stated(`:"1.2.3"`, `: "1.2.3"`), keys, release.CodeStatementInvalid},
		"a statement that says more":       {stated(`"protocol"`, `"postinstall":"x","protocol"`), keys, release.CodeStatementInvalid},
		"a statement of another schema":    {stated(`release/v1`, `release/v2`), keys, release.CodeStatementInvalid},
		"a version that is a path":         {stated(`"1.2.3"`, `"../../1.2.3"`), keys, release.CodeStatementInvalid},
		"a version with build metadata":    {stated(`"1.2.3"`, `"1.2.3+b"`), keys, release.CodeStatementInvalid},
		"half a version":                   {stated(`"1.2.3"`, `"1.2"`), keys, release.CodeStatementInvalid},
		"no program":                       {stated(`"size":120000`, `"size":0`), keys, release.CodeStatementInvalid},
		"it writes what it does not read":  {stated(`"writes":1`, `"writes":2`), keys, release.CodeStatementInvalid},
		"built at a time of another zone":  {stated(`12:00:00Z`, `12:00:00+01:00`), keys, release.CodeStatementInvalid},
		"a commit that is none":            {stated(`"0123456789ab"`, `"$(id)"`), keys, release.CodeStatementInvalid},
	} {
		t.Run(name, func(t *testing.T) { wantCode(t, verify(c.r, c.keys), c.code) })
	}
	if _, err := release.ParseStatement(bytes.Repeat([]byte(" "), release.MaxStatement+1)); taskcatalog.CodeOf(err, "") != release.CodeStatementInvalid {
		t.Errorf("an oversized statement: %v", err)
	}
}

func verify(r releasetest.Signed, keys release.Keys) error {
	_, _, err := release.Verify(r.Manifest, r.Statement, r.Signatures, keys, r.Digest)
	return err
}

// The layer is another's, or lies about what is in it.
func TestOnlyTheStatedProgramIsUnpacked(t *testing.T) {
	key := ed(t)
	keys := release.Keys{"k": key.Public()}
	good := releasetest.Make(t, program, releasetest.Statement("1.2.3"), key)
	other := releasetest.Make(t, []byte("another program"), releasetest.Statement("1.2.4"), key)

	// mixed is signed as it is: the statement is of one program, the layer another.
	mixed := func(layer []byte) (*release.Manifest, *release.Statement) {
		t.Helper()
		raw := strings.Replace(string(good.Manifest), release.Digest(good.Layer), release.Digest(layer), 1)
		raw = strings.Replace(raw, sizeOf(good.Layer), sizeOf(layer), 1)
		m, s, err := release.Verify([]byte(raw), good.Statement, []release.Signature{releasetest.Sign(t, release.Digest([]byte(raw)), key)}, keys, release.Digest([]byte(raw)))
		if err != nil {
			t.Fatal(err)
		}
		return m, s
	}
	longer := must(release.Pack(append(bytes.Clone(program), 'x'), releasetest.Statement("1.2.3")))(t).Layer
	shorter := must(release.Pack(program[1:], releasetest.Statement("1.2.3")))(t).Layer
	bomb := must(release.Pack(make([]byte, 64<<20), releasetest.Statement("1.2.3")))(t).Layer
	for name, c := range map[string]struct {
		named, given []byte
		code         taskcatalog.Code
	}{
		"as it should be":              {good.Layer, good.Layer, ""},
		"another layer":                {good.Layer, other.Layer, release.CodeDigestMismatch},
		"a layer cut short":            {good.Layer, good.Layer[:len(good.Layer)/2], release.CodeDigestMismatch},
		"no layer":                     {good.Layer, nil, release.CodeDigestMismatch},
		"a layer with a byte more":     {good.Layer, append(bytes.Clone(good.Layer), 0), release.CodeDigestMismatch},
		"another program's":            {other.Layer, other.Layer, release.CodeBinaryMismatch},
		"a program with a byte more":   {longer, longer, release.CodeBinaryMismatch},
		"a program with a byte less":   {shorter, shorter, release.CodeBinaryMismatch},
		"a program that swells":        {bomb, bomb, release.CodeBinaryMismatch},
		"two streams, one after other": {twice(good.Layer), twice(good.Layer), release.CodeBinaryMismatch},
		"no gzip":                      {program, program, release.CodeBinaryMismatch},
		"gzip that breaks off":         {good.Layer[:len(good.Layer)-4], good.Layer[:len(good.Layer)-4], release.CodeBinaryMismatch},
	} {
		t.Run(name, func(t *testing.T) {
			m, s := mixed(c.named)
			var out bytes.Buffer
			wantCode(t, m.Unpack(&out, bytes.NewReader(c.given), s), c.code)
			if out.Len() > len(program) {
				t.Errorf("%d bytes were written of a program of %d", out.Len(), len(program))
			}
		})
	}
}

func TestAReleaseMustMeetWhatIsAskedOfIt(t *testing.T) {
	s := releasetest.Statement("1.2.3")
	s.StateSchema, s.Protocol = release.StateSchema{ReadsMin: 2, ReadsMax: 4, Writes: 3}, 2
	asked := release.Demand{Version: "1.2.3", OS: "linux", Arch: "amd64", Floor: "1.2.3", State: 2, Protocol: 2}
	for name, c := range map[string]struct {
		change func(*release.Demand)
		code   taskcatalog.Code
	}{
		"all of it":              {func(*release.Demand) {}, ""},
		"nothing known of it":    {func(d *release.Demand) { d.Floor, d.State, d.Protocol = "", 0, 0 }, ""},
		"the newest state":       {func(d *release.Demand) { d.State = 4 }, ""},
		"a floor before it":      {func(d *release.Demand) { d.Floor = "1.2.3-rc.9" }, ""},
		"another version":        {func(d *release.Demand) { d.Version = "1.2.4" }, release.CodeVersionWrong},
		"another architecture":   {func(d *release.Demand) { d.Arch = "arm64" }, release.CodeArchWrong},
		"another system":         {func(d *release.Demand) { d.OS = "freebsd" }, release.CodeArchWrong},
		"a higher floor":         {func(d *release.Demand) { d.Floor = "1.10.0" }, release.CodeBelowFloor},
		"a floor that is none":   {func(d *release.Demand) { d.Floor = "new" }, release.CodeBelowFloor},
		"state it forgot":        {func(d *release.Demand) { d.State = 1 }, release.CodeStateUnreadable},
		"state of the future":    {func(d *release.Demand) { d.State = 5 }, release.CodeStateUnreadable},
		"a broker that is older": {func(d *release.Demand) { d.Protocol = 1 }, release.CodeProtocolWrong},
	} {
		t.Run(name, func(t *testing.T) {
			d := asked
			c.change(&d)
			wantCode(t, s.Meets(d), c.code)
		})
	}
}

func TestVersionsAreOrdered(t *testing.T) {
	for _, v := range []string{"", "1", "1.2", "v1.2.3", "1.2.3+x", "01.2.3", "1.2.3-", "1.2.3/..", "1.2.3 ", "dev", "1.2.3-" + strings.Repeat("a", 64)} {
		if release.ValidVersion(v) {
			t.Errorf("%q is taken for a version", v)
		}
	}
	rising := []string{"0.1.0", "0.9.0", "0.10.0-dev", "0.10.0", "1.0.0-rc.2", "1.0.0-rc.10", "1.0.0"}
	for i := 1; i < len(rising); i++ {
		if !release.ValidVersion(rising[i]) || release.Compare(rising[i-1], rising[i]) >= 0 {
			t.Errorf("%s is not below %s", rising[i-1], rising[i])
		}
	}
}

func TestAKeyOfAnotherKindDoesNotSign(t *testing.T) {
	k, err := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := release.Sign(release.Digest(nil), "", k); err == nil {
		t.Error("a key on P-384 signed")
	}
}

// twice is two gzip streams in a row, which gzip itself takes for one.
func twice(layer []byte) []byte { return append(bytes.Clone(layer), layer...) }

// sizeOf is what a manifest says of the size of a part.
func sizeOf(part []byte) string {
	return `"size":` + strconv.Itoa(len(part))
}

func signText(t *testing.T, key crypto.Signer, text string) release.Signature {
	t.Helper()
	sum := sha256.Sum256([]byte(text))
	sig, err := key.Sign(rand.Reader, sum[:], crypto.SHA256)
	if err != nil {
		t.Fatal(err)
	}
	return release.Signature{Payload: []byte(text), Signature: sig}
}

func must[T any](v T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}
