package pki_test

import (
	"bytes"
	"crypto/rand"
	"crypto/x509"
	"errors"
	"math/big"
	"slices"
	"testing"
	"time"

	"github.com/hostler/hostler/pki"
	"github.com/hostler/hostler/pki/pkitest"
	"github.com/hostler/hostler/taskcatalog"
)

// next returns a bundle after a's first, changed, and signed by trust (a's, if none).
func next(t testing.TB, a *pkitest.Authority, change func(*pki.TrustBundle), trust ...pki.Signer) []byte {
	t.Helper()
	b := pki.TrustBundle{Version: 2, IssuedAt: a.Now.Add(time.Hour), Keys: slices.Clone(a.Bundle.Keys)}
	change(&b)
	if len(trust) == 0 {
		trust = []pki.Signer{a.Trust}
	}
	// Not SignBundle, which makes no bundle that contradicts itself.
	return must[[]byte](t)(pki.Sign(pki.PayloadTrustBundle, must[[]byte](t)(taskcatalog.Encode(b)), trust...))
}

func same(*pki.TrustBundle) {}

func without(use pki.KeyUse) func(*pki.TrustBundle) {
	return func(b *pki.TrustBundle) {
		b.Keys = slices.DeleteFunc(b.Keys, func(k pki.BundleKey) bool { return k.Use == use })
	}
}

func with(keys ...pki.BundleKey) func(*pki.TrustBundle) {
	return func(b *pki.TrustBundle) { b.Keys = append(b.Keys, keys...) }
}

func TestFirstBundleIsTaken(t *testing.T) {
	a := pkitest.New(t)
	b, err := pki.FirstBundle(a.RawBundle, a.Now)
	wantCode(t, err, "")
	if b.Version != 1 || len(b.Keys) != len(a.Bundle.Keys) {
		t.Errorf("another bundle came out: %+v", b)
	}
	if _, ok := b.Key(pki.UseTask, a.Task.ID, a.Now); !ok {
		t.Error("the task key is not in it")
	}
	if _, err := a.Issuing.Cert.Verify(x509.VerifyOptions{Roots: b.Roots(a.Now), CurrentTime: a.Now}); err != nil {
		t.Errorf("the root is not in it: %v", err)
	}
}

func TestFirstBundleIsRefused(t *testing.T) {
	a, other := pkitest.New(t), pkitest.New(t)
	for name, attack := range map[string]struct {
		raw  []byte
		at   time.Duration
		code taskcatalog.Code
	}{
		"a foreign trust key":        {next(t, a, same, other.Trust), 0, pki.CodeTrustKeyUnknown},
		"the task key":               {next(t, a, same, a.Task), 0, pki.CodeTrustKeyUnknown},
		"another payload type":       {signTask(t, taskAt(a.Now), a.Trust), 0, pki.CodeWrongPayloadType},
		"tampered":                   {edit(t, a.RawBundle, func(w *wire) { w.Signatures[0].Sig = flip(t, w.Signatures[0].Sig) }), 0, pki.CodeBadSignature},
		"a trust key that ran out":   {a.RawBundle, 2 * pkitest.Life, pki.CodeKeyNotInForce},
		"no task key":                {next(t, a, without(pki.UseTask)), 0, pki.CodeTrustUseWithoutKey},
		"no statement key":           {next(t, a, without(pki.UseStatement)), 0, pki.CodeTrustUseWithoutKey},
		"no root":                    {next(t, a, without(pki.UseRoot)), 0, pki.CodeTrustUseWithoutKey},
		"no trust key":               {next(t, a, without(pki.UseTrust)), 0, pki.CodeTrustKeyUnknown},
		"10 MB":                      {bytes.Repeat([]byte("A"), 10<<20), 0, pki.CodeTooLarge},
		"a bundle without envelope":  {must[[]byte](t)(pki.EncodeBundle(a.Bundle)), 0, pki.CodeMalformed},
		"a payload that is no JSON":  {must[[]byte](t)(pki.Sign(pki.PayloadTrustBundle, []byte("x"), a.Trust)), 0, pki.CodeMalformed},
		"a payload with more fields": {must[[]byte](t)(pki.Sign(pki.PayloadTrustBundle, []byte(`{"version":1,"x":1}`), a.Trust)), 0, pki.CodeMalformed},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := pki.FirstBundle(attack.raw, a.Now.Add(attack.at))
			wantCode(t, err, attack.code)
		})
	}
	_, err := pki.FirstBundle(next(t, a, without(pki.UseRelease)), a.Now)
	wantCode(t, err, "") // a release key is required only after the first release key
}

func TestBundleIsReplacedByItsOwnTrustKeyOnly(t *testing.T) {
	a, other := pkitest.New(t), pkitest.New(t)
	fresh := func(use pki.KeyUse) pki.BundleKey { return a.BundleKey(t, use, pkitest.NewSigner(t)) }
	expired := func(use pki.KeyUse) func(*pki.TrustBundle) {
		return func(b *pki.TrustBundle) {
			for i := range b.Keys {
				if b.Keys[i].Use == use {
					b.Keys[i].NotAfter = a.Now.Add(-time.Minute * 5)
				}
			}
		}
	}
	version := func(n int64) func(*pki.TrustBundle) { return func(b *pki.TrustBundle) { b.Version = n } }
	twice := a.Bundle.Keys[0]
	twice.Use = pki.UseRelease
	renamed := fresh(pki.UseTask)
	renamed.ID = a.Task.ID
	posing := pki.NewBundleRoot(other.Root())
	posing.ID = pki.Fingerprint(a.Root())
	nameless := fresh(pki.UseTask)
	nameless.ID = "x"
	padded := fresh(pki.UseTask) // the same key, with one more element in its DER
	padded.PublicKey = append(bytes.Clone(padded.PublicKey), 5, 0)
	padded.PublicKey[1] += 2
	misnamed := pki.NewBundleRoot(other.Root())
	misnamed.ID = "x"
	doubled := pki.NewBundleRoot(other.Root())
	doubled.PublicKey = a.Bundle.Keys[0].PublicKey
	selfSigned := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: a.Now, NotAfter: a.Now.Add(time.Hour)}
	noCA := keyOf(t, pki.Ed25519)
	selfSigned = must[*x509.Certificate](t)(x509.ParseCertificate(must[[]byte](t)(x509.CreateCertificate(rand.Reader, selfSigned, selfSigned, noCA.Public(), noCA))))
	rootsKey := must[pki.BundleKey](t)(pki.NewBundleKey(pki.UseTask, a.Root().PublicKey, a.Now, a.Now.Add(time.Hour)))
	backwards := fresh(pki.UseTask)
	backwards.NotBefore, backwards.NotAfter = backwards.NotAfter, backwards.NotBefore
	unknownUse := fresh("login")
	mixed := fresh(pki.UseTask)
	mixed.Certificate = a.Root().Raw

	for name, c := range map[string]struct {
		raw  []byte
		at   time.Duration
		code taskcatalog.Code
	}{
		"higher version":           {next(t, a, same), 0, ""},
		"much higher version":      {next(t, a, version(1000)), 0, ""},
		"a new key of each use":    {next(t, a, with(fresh(pki.UseTask), fresh(pki.UseTrust), fresh(pki.UseStatement), pki.NewBundleRoot(other.Root()))), 0, ""},
		"a task key replaced":      {next(t, a, func(b *pki.TrustBundle) { without(pki.UseTask)(b); with(fresh(pki.UseTask))(b) }), 0, ""},
		"the same bundle again":    {a.RawBundle, 0, ""},
		"the same, however signed": {must[[]byte](t)(pki.SignBundle(*a.Bundle, other.Trust)), 0, ""},
		"signed by both":           {next(t, a, same, other.Trust, a.Trust), 0, ""},

		"rollback":                     {next(t, a, func(b *pki.TrustBundle) { b.Version = 1 }), 0, pki.CodeTrustVersionNotNewer},
		"version zero":                 {next(t, a, version(0)), 0, pki.CodeMalformed},
		"a negative version":           {next(t, a, version(-1)), 0, pki.CodeMalformed},
		"a foreign trust key":          {next(t, a, same, other.Trust), 0, pki.CodeTrustKeyUnknown},
		"a foreign one that it brings": {next(t, a, with(a.BundleKey(t, pki.UseTrust, other.Trust)), other.Trust), 0, pki.CodeTrustKeyUnknown},
		"a foreign key posing":         {next(t, a, same, pki.Signer{ID: a.Trust.ID, Key: other.Trust.Key}), 0, pki.CodeBadSignature},
		"the task key":                 {next(t, a, same, a.Task), 0, pki.CodeTrustKeyUnknown},
		"a trust key that ran out":     {next(t, a, same), 2 * pkitest.Life, pki.CodeKeyNotInForce},
		"a task that carries it":       {must[[]byte](t)(pki.Sign(pki.PayloadTask, []byte(`{}`), a.Trust)), 0, pki.CodeWrongPayloadType},
		"drops the task key":           {next(t, a, without(pki.UseTask)), 0, pki.CodeTrustUseWithoutKey},
		"drops the trust key":          {next(t, a, without(pki.UseTrust)), 0, pki.CodeTrustUseWithoutKey},
		"drops the root":               {next(t, a, without(pki.UseRoot)), 0, pki.CodeTrustUseWithoutKey},
		"drops the release key":        {next(t, a, without(pki.UseRelease)), 0, pki.CodeTrustUseWithoutKey},
		"drops a statement key":        {next(t, a, func(b *pki.TrustBundle) { without(pki.UseStatement)(b); with(fresh(pki.UseStatement))(b) }), 0, pki.CodeTrustStatementKeyDropped},
		"only an expired task key":     {next(t, a, expired(pki.UseTask)), 0, pki.CodeTrustUseWithoutKey},
		"only an expired trust key":    {next(t, a, expired(pki.UseTrust)), 0, pki.CodeTrustUseWithoutKey},
		"only a retired statement key": {next(t, a, expired(pki.UseStatement)), 0, pki.CodeTrustUseWithoutKey},
		"a retired one and a new one":  {next(t, a, func(b *pki.TrustBundle) { expired(pki.UseStatement)(b); with(fresh(pki.UseStatement))(b) }), 0, ""},

		"one key for two uses":        {next(t, a, with(twice)), 0, pki.CodeTrustKeyTwoUses},
		"the root's key for tasks":    {next(t, a, with(rootsKey)), 0, pki.CodeTrustKeyTwoUses},
		"one key twice":               {next(t, a, with(a.Bundle.Keys[0])), 0, pki.CodeMalformed},
		"a key under another's id":    {next(t, a, with(renamed)), 0, pki.CodeMalformed},
		"a key with no such id":       {next(t, a, with(nameless)), 0, pki.CodeMalformed},
		"a key in another form":       {next(t, a, with(padded)), 0, pki.CodeMalformed},
		"a root under another's id":   {next(t, a, with(posing)), 0, pki.CodeMalformed},
		"a root with no such id":      {next(t, a, with(misnamed)), 0, pki.CodeMalformed},
		"a root with a key beside it": {next(t, a, with(doubled)), 0, pki.CodeMalformed},
		"a self-signed leaf as root":  {next(t, a, with(pki.NewBundleRoot(selfSigned))), 0, pki.CodeMalformed},
		"a leaf as root":              {next(t, a, with(pki.NewBundleRoot(a.Server.Leaf))), 0, pki.CodeMalformed},
		"an issuing CA as root":       {next(t, a, with(pki.NewBundleRoot(a.Issuing.Cert))), 0, pki.CodeMalformed},
		"a key with a certificate":    {next(t, a, with(mixed)), 0, pki.CodeMalformed},
		"a key that ends too early":   {next(t, a, with(backwards)), 0, pki.CodeMalformed},
		"an unknown use":              {next(t, a, with(unknownUse)), 0, pki.CodeMalformed},
		"a key that is no key":        {next(t, a, with(pki.BundleKey{Use: pki.UseTask, ID: "x", PublicKey: []byte("x"), NotAfter: a.Now})), 0, pki.CodeMalformed},
		"more keys than fit":          {next(t, a, with(slices.Repeat([]pki.BundleKey{twice}, 200)...)), 0, pki.CodeTooLarge},
		"no date":                     {next(t, a, func(b *pki.TrustBundle) { b.IssuedAt = time.Time{} }), 0, pki.CodeMalformed},
		"tampered, the version kept":  {edit(t, next(t, a, same), func(w *wire) { w.Payload = flip(t, w.Payload) }), 0, pki.CodeBadSignature},
	} {
		t.Run(name, func(t *testing.T) {
			before := must[[]byte](t)(pki.EncodeBundle(a.Bundle))
			got, err := a.Bundle.Accept(c.raw, a.Now.Add(c.at))
			wantCode(t, err, c.code)
			if (got == nil) != (c.code != "") {
				t.Errorf("Accept returned %v with %v", got, err)
			}
			if !bytes.Equal(before, must[[]byte](t)(pki.EncodeBundle(a.Bundle))) {
				t.Error("the bundle in force has changed")
			}
		})
	}
}

// Every step of the replacement of a trust key: the new key beside the old key, then alone, and the
// retired key no longer counts. A sleeping node needs each step, signed by a key that the node
// knows.
func TestTrustKeyIsRotated(t *testing.T) {
	a := pkitest.New(t)
	newTrust := pkitest.NewSigner(t)
	second := next(t, a, with(a.BundleKey(t, pki.UseTrust, newTrust)))
	third := next(t, a, func(b *pki.TrustBundle) {
		b.Version = 3
		without(pki.UseTrust)(b)
		with(a.BundleKey(t, pki.UseTrust, newTrust))(b)
	}, a.Trust, newTrust)

	v2, err := a.Bundle.Accept(second, a.Now)
	wantCode(t, err, "")
	v3, err := v2.Accept(third, a.Now)
	wantCode(t, err, "")
	if v3.Version != 3 {
		t.Fatalf("version %d is in force", v3.Version)
	}
	again, err := v3.Accept(third, a.Now)
	wantCode(t, err, "")
	if again != v3 {
		t.Error("the bundle in force was taken as another")
	}
	asleep, err := a.Bundle.Accept(third, a.Now) // skips a step: the old key signed too
	wantCode(t, err, "")
	if asleep.Version != 3 {
		t.Errorf("version %d is in force", asleep.Version)
	}
	enrolled, err := pki.FirstBundle(third, a.Now) // and the new key vouches for itself
	wantCode(t, err, "")
	if enrolled.Version != 3 {
		t.Errorf("version %d is in force", enrolled.Version)
	}
	_, err = v3.Accept(next(t, a, func(b *pki.TrustBundle) { b.Version = 4 }), a.Now)
	wantCode(t, err, pki.CodeTrustKeyUnknown)
	_, err = v3.Accept(second, a.Now)
	wantCode(t, err, pki.CodeTrustKeyUnknown)
}

// The bundle stored on a node can be read after a restart in any year, without the envelope's keys.
func TestBundleComesBackFromDisk(t *testing.T) {
	a := pkitest.New(t)
	kept := must[[]byte](t)(pki.EncodeBundle(a.Bundle))
	b, err := pki.DecodeBundle(kept)
	wantCode(t, err, "")
	if !bytes.Equal(kept, must[[]byte](t)(pki.EncodeBundle(b))) {
		t.Error("another bundle came back")
	}
	for name, attack := range map[string]struct {
		raw  []byte
		code taskcatalog.Code
	}{
		"half written":  {kept[:len(kept)/2], pki.CodeMalformed},
		"nothing":       {nil, pki.CodeMalformed},
		"trailing data": {append(bytes.Clone(kept), '{'), pki.CodeMalformed},
		"10 MB":         {make([]byte, 10<<20), pki.CodeTooLarge},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := pki.DecodeBundle(attack.raw)
			wantCode(t, err, attack.code)
		})
	}
}

// A key counts from not_before to not_after, plus or minus the clock skew.
func TestKeyIsInForceWithinItsValidity(t *testing.T) {
	a := pkitest.New(t)
	k := a.Bundle.Keys[0]
	for name, c := range map[string]struct {
		at   time.Time
		want bool
	}{
		"long before":     {k.NotBefore.Add(-time.Hour), false},
		"before the skew": {k.NotBefore.Add(-121 * time.Second), false},
		"within the skew": {k.NotBefore.Add(-120 * time.Second), true},
		"in between":      {a.Now, true},
		"just after":      {k.NotAfter.Add(120 * time.Second), true},
		"after the skew":  {k.NotAfter.Add(121 * time.Second), false},
	} {
		if _, got := a.Bundle.Key(pki.UseTask, a.Task.ID, c.at); got != c.want {
			t.Errorf("%s: in force = %v", name, got)
		}
	}
	if _, ok := a.Bundle.Key(pki.UseTrust, a.Task.ID, a.Now); ok {
		t.Error("the task key was given as a trust key")
	}
}

func TestRootsAreThoseInForce(t *testing.T) {
	a := pkitest.New(t)
	for at, want := range map[time.Duration]bool{0: true, 2 * pkitest.Life: false, -time.Hour: false} {
		if empty := a.Bundle.Roots(a.Now.Add(at)).Equal(x509.NewCertPool()); empty == want {
			t.Errorf("at %v: roots empty = %v", at, empty)
		}
	}
}

// A clean certificate of last year stays verifiable after its key was retired. A certificate with a
// later date than the retirement does not verify.
func TestStatementIsHeldAgainstItsOwnTime(t *testing.T) {
	a := pkitest.New(t)
	raw := func(kind string, s pki.Signer) *pki.Envelope {
		return must[*pki.Envelope](t)(pki.ParseEnvelope(must[[]byte](t)(pki.Sign(kind, []byte("statement"), s))))
	}
	madeAt := func(d time.Duration, err error) func([]byte) (time.Time, error) {
		return func(payload []byte) (time.Time, error) {
			if string(payload) != "statement" {
				t.Errorf("the time was asked of %q", payload)
			}
			return a.Now.Add(d), err
		}
	}
	unread := func([]byte) (time.Time, error) {
		t.Error("the payload was read before its signature held")
		return a.Now, nil
	}
	got, by, err := a.Bundle.VerifyStatement(raw(pki.PayloadInToto, a.Statement), madeAt(0, nil))
	wantCode(t, err, "")
	if string(got) != "statement" || by != a.Statement.ID {
		t.Errorf("payload %q, signed by %s", got, by)
	}
	_, _, err = a.Bundle.VerifyStatement(raw(pki.PayloadInToto, a.Statement), madeAt(2*pkitest.Life, nil))
	wantCode(t, err, pki.CodeKeyNotInForce)
	_, _, err = a.Bundle.VerifyStatement(raw(pki.PayloadInToto, a.Task), unread)
	wantCode(t, err, pki.CodeUnknownKey)
	_, _, err = a.Bundle.VerifyStatement(raw(pki.PayloadInToto, pki.Signer{ID: a.Statement.ID, Key: a.Task.Key}), unread)
	wantCode(t, err, pki.CodeBadSignature)
	_, _, err = a.Bundle.VerifyStatement(raw(pki.PayloadTask, a.Statement), unread)
	wantCode(t, err, pki.CodeWrongPayloadType)
	noTime := errors.New("no time in it")
	if _, _, err = a.Bundle.VerifyStatement(raw(pki.PayloadInToto, a.Statement), madeAt(0, noTime)); !errors.Is(err, noTime) {
		t.Errorf("error %v, want that of the reader", err)
	}
}

// A new root certificate for the same key is another certificate with the same use.
func TestRootMayBeRenewedWithItsKey(t *testing.T) {
	a := pkitest.New(t)
	renewed := must[*x509.Certificate](t)(pki.NewRoot(rand.Reader, a.RootCA.Signer, "test root", a.Now, 2*pkitest.Life))
	_, err := a.Bundle.Accept(next(t, a, with(pki.NewBundleRoot(renewed))), a.Now)
	wantCode(t, err, "")
}
