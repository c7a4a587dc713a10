package pki_test

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/hostler/hostler/pki"
	"github.com/hostler/hostler/pki/pkitest"
	"github.com/hostler/hostler/taskcatalog"
)

// wire is an envelope as it travels, for taking apart and putting together wrongly.
type wire struct {
	PayloadType string `json:"payloadType"`
	Payload     string `json:"payload"`
	Signatures  []struct {
		KeyID string `json:"keyid"`
		Sig   string `json:"sig"`
	} `json:"signatures"`
}

// edit returns raw with one thing changed.
func edit(t testing.TB, raw []byte, change func(*wire)) []byte {
	t.Helper()
	var w wire
	if err := json.Unmarshal(raw, &w); err != nil {
		t.Fatal(err)
	}
	change(&w)
	return must[[]byte](t)(json.Marshal(w))
}

func flip(t testing.TB, base64Text string) string {
	t.Helper()
	b := must[[]byte](t)(base64.StdEncoding.DecodeString(base64Text))
	b[len(b)/2] ^= 1
	return base64.StdEncoding.EncodeToString(b)
}

func taskAt(now time.Time) taskcatalog.Task {
	return taskcatalog.Task{
		TaskID: "t-1", NodeID: "n-abcdefghijklmnop", NodeEpoch: 1, Type: "node.drain", Version: 1,
		Params: json.RawMessage(`{}`), Nonce: "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA",
		IssuedAt: now, NotAfter: now.Add(time.Hour), CorrelationID: "c-1",
	}
}

func signTask(t testing.TB, task taskcatalog.Task, signers ...pki.Signer) []byte {
	t.Helper()
	return must[[]byte](t)(pki.Sign(pki.PayloadTask, must[[]byte](t)(taskcatalog.Encode(task)), signers...))
}

// readTask follows the path of a task into a node: parse, verify, decode.
func readTask(b *pki.TrustBundle, raw []byte, now time.Time) (*taskcatalog.Task, error) {
	env, err := pki.ParseEnvelope(raw)
	if err != nil {
		return nil, err
	}
	return b.VerifyTask(env, now)
}

func TestSignedTaskIsRead(t *testing.T) {
	a := pkitest.New(t)
	for _, kind := range []string{pki.Ed25519, pki.P256} {
		signer := must[pki.Signer](t)(pki.NewSigner(keyOf(t, kind)))
		a.Bundle.Keys = append(a.Bundle.Keys, a.BundleKey(t, pki.UseTask, signer))
		task, err := readTask(a.Bundle, signTask(t, taskAt(a.Now), signer), a.Now)
		wantCode(t, err, "")
		if task.TaskID != "t-1" || !task.NotAfter.Equal(a.Now.Add(time.Hour)) {
			t.Errorf("%s: another task came out: %+v", kind, task)
		}
	}
}

func TestTaskIsRefused(t *testing.T) {
	a := pkitest.New(t)
	raw := signTask(t, taskAt(a.Now), a.Task)
	payload := func(text string) []byte {
		return must[[]byte](t)(pki.Sign(pki.PayloadTask, []byte(text), a.Task))
	}
	foreign := pkitest.NewSigner(t)
	posing := pki.Signer{ID: a.Task.ID, Key: foreign.Key}
	replaced := func(from, to string) []byte { return bytes.Replace(raw, []byte(from), []byte(to), 1) }
	deep := strings.Repeat("[", 100) + strings.Repeat("]", 100)
	const far = 400 * 24 * time.Hour

	for name, attack := range map[string]struct {
		raw  []byte
		at   time.Duration
		code taskcatalog.Code
	}{
		"tampered payload":                         {edit(t, raw, func(w *wire) { w.Payload = flip(t, w.Payload) }), 0, pki.CodeBadSignature},
		"tampered signature":                       {edit(t, raw, func(w *wire) { w.Signatures[0].Sig = flip(t, w.Signatures[0].Sig) }), 0, pki.CodeBadSignature},
		"tampered type":                            {edit(t, raw, func(w *wire) { w.PayloadType = pki.PayloadEvidence }), 0, pki.CodeWrongPayloadType},
		"tampered type back":                       {edit(t, must[[]byte](t)(pki.Sign(pki.PayloadInToto, []byte(`{}`), a.Task)), func(w *wire) { w.PayloadType = pki.PayloadTask }), 0, pki.CodeBadSignature},
		"wrong payload type":                       {must[[]byte](t)(pki.Sign(pki.PayloadTrustBundle, []byte(`{}`), a.Task)), 0, pki.CodeWrongPayloadType},
		"unknown key":                              {signTask(t, taskAt(a.Now), foreign), 0, pki.CodeUnknownKey},
		"unknown key posing":                       {signTask(t, taskAt(a.Now), posing), 0, pki.CodeBadSignature},
		"the trust key":                            {signTask(t, taskAt(a.Now), a.Trust), 0, pki.CodeUnknownKey},
		"the statement key":                        {signTask(t, taskAt(a.Now), a.Statement), 0, pki.CodeUnknownKey},
		"the release key":                          {signTask(t, taskAt(a.Now), a.Release), 0, pki.CodeUnknownKey},
		"a key that ran out":                       {raw, far, pki.CodeKeyNotInForce},
		"a key not begun":                          {raw, -time.Hour, pki.CodeKeyNotInForce},
		"a key that ran out beside an unknown one": {signTask(t, taskAt(a.Now), foreign, a.Task), far, pki.CodeKeyNotInForce},

		"10 MB":                         {bytes.Repeat([]byte(" "), 10<<20), 0, pki.CodeTooLarge},
		"one byte too many":             {append(bytes.Clone(raw), bytes.Repeat([]byte(" "), pki.MaxEnvelope+1-len(raw))...), 0, pki.CodeTooLarge},
		"nothing":                       {nil, 0, pki.CodeMalformed},
		"no JSON":                       {[]byte("task"), 0, pki.CodeMalformed},
		"null":                          {[]byte("null"), 0, pki.CodeMalformed},
		"an empty object":               {[]byte("{}"), 0, pki.CodeMalformed},
		"deep JSON":                     {[]byte(strings.Repeat("[", 500_000)), 0, pki.CodeMalformed},
		"deep JSON in a field":          {[]byte(`{"payloadType":` + deep + `}`), 0, pki.CodeMalformed},
		"deep JSON in the payload":      {payload(`{"params":` + deep + `}`), 0, pki.CodeMalformed},
		"duplicate key":                 {replaced(`{`, `{"payloadType":"x",`), 0, pki.CodeMalformed},
		"duplicate key in the payload":  {payload(`{"node_id":"n-1","node_id":"n-2"}`), 0, pki.CodeMalformed},
		"wrong-case key":                {replaced(`"payloadType"`, `"payloadtype"`), 0, pki.CodeMalformed},
		"wrong-case key in the payload": {payload(`{"Node_ID":"n-1"}`), 0, pki.CodeMalformed},
		"unknown key in the envelope":   {replaced(`{`, `{"x":1,`), 0, pki.CodeMalformed},
		"unknown key in a signature":    {replaced(`"keyid"`, `"x":1,"keyid"`), 0, pki.CodeMalformed},
		"unknown key in the payload":    {payload(`{"shell":"reboot"}`), 0, pki.CodeMalformed},
		"trailing data":                 {append(bytes.Clone(raw), '{', '}'), 0, pki.CodeMalformed},
		"trailing data in the payload":  {payload(`{}{}`), 0, pki.CodeMalformed},
		"a payload that is no JSON":     {payload(`task`), 0, pki.CodeMalformed},
		"a payload of another shape":    {payload(`{"node_epoch":"one"}`), 0, pki.CodeMalformed},

		"base64 without padding":      {edit(t, raw, func(w *wire) { w.Signatures[0].Sig = strings.TrimRight(w.Signatures[0].Sig, "=") }), 0, pki.CodeMalformed},
		"base64 with a line break":    {edit(t, raw, func(w *wire) { w.Payload = w.Payload[:4] + "\n" + w.Payload[4:] }), 0, pki.CodeMalformed},
		"base64 with a space":         {edit(t, raw, func(w *wire) { w.Payload += " " }), 0, pki.CodeMalformed},
		"base64 of the URL alphabet":  {edit(t, raw, func(w *wire) { w.Payload = "_-__" }), 0, pki.CodeMalformed},
		"base64 with loose last bits": {edit(t, raw, func(w *wire) { w.Signatures[0].Sig = loosen(t, w.Signatures[0].Sig) }), 0, pki.CodeMalformed},

		"no signature": {edit(t, raw, func(w *wire) { w.Signatures = w.Signatures[:0] }), 0, pki.CodeMalformed},
		"nine signatures": {edit(t, raw, func(w *wire) {
			for i := range 8 {
				extra := w.Signatures[0]
				extra.KeyID = fmt.Sprint(i)
				w.Signatures = append(w.Signatures, extra)
			}
		}), 0, pki.CodeMalformed},
		"one key twice":      {edit(t, raw, func(w *wire) { w.Signatures = append(w.Signatures, w.Signatures[0]) }), 0, pki.CodeMalformed},
		"no key id":          {edit(t, raw, func(w *wire) { w.Signatures[0].KeyID = "" }), 0, pki.CodeMalformed},
		"a long key id":      {edit(t, raw, func(w *wire) { w.Signatures[0].KeyID = strings.Repeat("a", 65) }), 0, pki.CodeMalformed},
		"an empty signature": {edit(t, raw, func(w *wire) { w.Signatures[0].Sig = "" }), 0, pki.CodeMalformed},
		"a long signature":   {edit(t, raw, func(w *wire) { w.Signatures[0].Sig = strings.Repeat("AAAA", 43) }), 0, pki.CodeMalformed},
		"a short signature":  {edit(t, raw, func(w *wire) { w.Signatures[0].Sig = "AAAA" }), 0, pki.CodeBadSignature},
	} {
		t.Run(name, func(t *testing.T) {
			task, err := readTask(a.Bundle, attack.raw, a.Now.Add(attack.at))
			wantCode(t, err, attack.code)
			if task != nil {
				t.Error("a refused task came back")
			}
			if len(err.Error()) > 600 || strings.ContainsAny(err.Error(), "\n\x1b") {
				t.Errorf("the error carries what it was given: %q", err)
			}
		})
	}
}

// loosen sets bits of the last character that decoding ignores.
func loosen(t *testing.T, s string) string {
	t.Helper()
	const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
	body := strings.TrimRight(s, "=")
	if body == s {
		t.Fatal("no loose bits in unpadded base64; this test would show nothing")
	}
	last := strings.IndexByte(alphabet, body[len(body)-1])
	return body[:len(body)-1] + string(alphabet[last|1]) + s[len(body):]
}

// In a rotation a document carries the signatures of the old and the new key, and a verifier that
// knows either key accepts the document.
func TestSeveralSignaturesServeARotation(t *testing.T) {
	a := pkitest.New(t)
	next, foreign := pkitest.NewSigner(t), pkitest.NewSigner(t)
	posing := pki.Signer{ID: a.Task.ID, Key: foreign.Key}
	both := *a.Bundle
	both.Keys = append(append([]pki.BundleKey(nil), a.Bundle.Keys...), a.BundleKey(t, pki.UseTask, next))
	onlyNext := both
	onlyNext.Keys = both.Keys[1:] // without the old task key

	for name, c := range map[string]struct {
		bundle  *pki.TrustBundle
		signers []pki.Signer
		code    taskcatalog.Code
	}{
		"old node":                            {a.Bundle, []pki.Signer{a.Task, next}, ""},
		"node in between":                     {&both, []pki.Signer{a.Task, next}, ""},
		"new node":                            {&onlyNext, []pki.Signer{a.Task, next}, ""},
		"the other order":                     {&onlyNext, []pki.Signer{next, a.Task}, ""},
		"removed key":                         {&onlyNext, []pki.Signer{a.Task}, pki.CodeUnknownKey},
		"a bad signature beside a good one":   {&both, []pki.Signer{posing, next}, ""},
		"a bad signature beside an unknown":   {a.Bundle, []pki.Signer{next, posing}, pki.CodeBadSignature},
		"an unknown one after a bad one":      {a.Bundle, []pki.Signer{posing, next}, pki.CodeBadSignature},
		"two unknown keys and no known one":   {a.Bundle, []pki.Signer{next, foreign}, pki.CodeUnknownKey},
		"a trust key beside an unknown one":   {a.Bundle, []pki.Signer{a.Trust, foreign}, pki.CodeUnknownKey},
		"the right key under another's id":    {a.Bundle, []pki.Signer{{ID: a.Trust.ID, Key: a.Task.Key}}, pki.CodeUnknownKey},
		"the right key under an unknown name": {a.Bundle, []pki.Signer{{ID: "x", Key: a.Task.Key}}, pki.CodeUnknownKey},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := readTask(c.bundle, signTask(t, taskAt(a.Now), c.signers...), a.Now)
			wantCode(t, err, c.code)
		})
	}
}

func TestSigningIsRefused(t *testing.T) {
	p384, _ := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	good := pkitest.NewSigner(t)
	for name, c := range map[string]struct {
		payload []byte
		signers []pki.Signer
		code    taskcatalog.Code
	}{
		"nobody":            {nil, nil, pki.CodeMalformed},
		"one key twice":     {nil, []pki.Signer{good, good}, pki.CodeMalformed},
		"a key without id":  {nil, []pki.Signer{{Key: good.Key}}, pki.CodeMalformed},
		"P-384":             {nil, []pki.Signer{{ID: "x", Key: p384}}, pki.CodeKeyType},
		"a payload of 1 MB": {make([]byte, 1<<20), []pki.Signer{good}, pki.CodeTooLarge},
		"nine signers":      {nil, make([]pki.Signer, 9), pki.CodeMalformed},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := pki.Sign(pki.PayloadTask, c.payload, c.signers...)
			wantCode(t, err, c.code)
		})
	}
	_, err := pki.NewSigner(p384)
	wantCode(t, err, pki.CodeKeyType)
}

func TestEvidenceIsTheNodesAlone(t *testing.T) {
	a := pkitest.New(t)
	node, other := a.NewNode(t), a.NewNode(t)
	ev := taskcatalog.Evidence{TaskID: "t-1", NodeID: node.NodeID, NodeEpoch: 1, StartedAt: a.Now, FinishedAt: a.Now}
	raw := must[[]byte](t)(pki.SignEvidence(ev, node.Signer()))

	got, err := pki.VerifyEvidence(raw, node.Signer().Public())
	wantCode(t, err, "")
	if got.TaskID != "t-1" || got.NodeID != node.NodeID {
		t.Errorf("another evidence came out: %+v", got)
	}

	nodeSigner := must[pki.Signer](t)(pki.NewSigner(node.Signer()))
	posing := pki.Signer{ID: nodeSigner.ID, Key: other.Signer()}
	sign := func(kind, payload string, s pki.Signer) []byte {
		return must[[]byte](t)(pki.Sign(kind, []byte(payload), s))
	}
	for name, attack := range map[string]struct {
		raw  []byte
		key  crypto.PublicKey
		code taskcatalog.Code
	}{
		"another node's key":      {raw, other.Signer().Public(), pki.CodeUnknownKey},
		"another node posing":     {sign(pki.PayloadEvidence, `{}`, posing), node.Signer().Public(), pki.CodeBadSignature},
		"the broker's task key":   {sign(pki.PayloadEvidence, `{}`, a.Task), node.Signer().Public(), pki.CodeUnknownKey},
		"a task by the node":      {sign(pki.PayloadTask, `{}`, nodeSigner), node.Signer().Public(), pki.CodeWrongPayloadType},
		"tampered":                {edit(t, raw, func(w *wire) { w.Payload = flip(t, w.Payload) }), node.Signer().Public(), pki.CodeBadSignature},
		"unknown field":           {sign(pki.PayloadEvidence, `{"x":1}`, nodeSigner), node.Signer().Public(), pki.CodeMalformed},
		"a finding of 10 MB":      {bytes.Repeat([]byte("A"), 10<<20), node.Signer().Public(), pki.CodeTooLarge},
		"a node without a key":    {raw, nil, pki.CodeKeyType},
		"a field that is no text": {sign(pki.PayloadEvidence, "{\"task_id\":\"\xff\"}", nodeSigner), node.Signer().Public(), pki.CodeMalformed},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := pki.VerifyEvidence(attack.raw, attack.key)
			wantCode(t, err, attack.code)
			if got != nil {
				t.Error("refused evidence came back")
			}
		})
	}
}
