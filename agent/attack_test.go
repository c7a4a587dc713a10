package agent

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hostler/hostler/agent/host"
	"github.com/hostler/hostler/agent/inbox"
	"github.com/hostler/hostler/pki"
	"github.com/hostler/hostler/pki/pkitest"
	"github.com/hostler/hostler/taskcatalog"
)

// forgery is a task on the way to the node, changed by an attacker with the broker's database,
// network or a signing key.
type forgery struct {
	taskcatalog.Task
	kind string
	by   pki.Signer
	raw  func(signed string) string // the text delivered in place of the signed text
}

func (f *forgery) envelope(t *testing.T) string {
	t.Helper()
	payload, err := taskcatalog.Encode(f.Task)
	if err != nil {
		t.Fatal(err)
	}
	signed, err := pki.Sign(f.kind, payload, f.by)
	if err != nil {
		t.Fatal(err)
	}
	if f.raw == nil {
		return string(signed)
	}
	return f.raw(string(signed))
}

// swapped puts other text in place of a member of the envelope.
func swapped(t *testing.T, member string, with func(string) string) func(string) string {
	return func(signed string) string {
		before, rest, ok := strings.Cut(signed, `"`+member+`":"`)
		old, after, end := strings.Cut(rest, `"`)
		if !ok || !end {
			t.Fatalf("no %s in %s", member, signed)
		}
		return before + `"` + member + `":"` + with(old) + `"` + after
	}
}

// The agent runs, with its ledger and its disk. The broker must receive the code of each refusal,
// no task may have begun, and the next honest task must succeed.
func TestEachAttackOnARunningAgentIsReportedAndRunsNothing(t *testing.T) {
	for _, test := range []struct {
		name, typ, params string
		allow             inbox.Allow
		forge             func(t *testing.T, f *forgery)
		code              taskcatalog.Code
	}{
		{name: "tampered payload", code: taskcatalog.CodeBadSignature, forge: func(t *testing.T, f *forgery) {
			other := f.Task
			other.Params = json.RawMessage(`{"grace_seconds":300}`)
			payload, _ := taskcatalog.Encode(other)
			f.raw = swapped(t, "payload", func(string) string { return base64.StdEncoding.EncodeToString(payload) })
		}},
		{name: "tampered signature", code: taskcatalog.CodeBadSignature, forge: func(t *testing.T, f *forgery) {
			f.raw = swapped(t, "sig", func(old string) string {
				sig, _ := base64.StdEncoding.DecodeString(old)
				sig[0] ^= 1
				return base64.StdEncoding.EncodeToString(sig)
			})
		}},
		{name: "unknown key", code: taskcatalog.CodeUnknownKey, forge: func(t *testing.T, f *forgery) { f.by = pkitest.NewSigner(t) }},
		{name: "signed as evidence", code: taskcatalog.CodeWrongPayloadType, forge: func(_ *testing.T, f *forgery) { f.kind = pki.PayloadEvidence }},
		{name: "another node's", code: taskcatalog.CodeWrongNode, forge: func(_ *testing.T, f *forgery) { f.NodeID = "n-aaaaaaaaaaaaaaaa" }},
		{name: "of an earlier epoch", code: taskcatalog.CodeWrongEpoch, forge: func(_ *testing.T, f *forgery) { f.NodeEpoch-- }},
		{name: "expired", code: taskcatalog.CodeTaskExpired, forge: func(_ *testing.T, f *forgery) {
			f.IssuedAt, f.NotAfter = f.IssuedAt.Add(-48*time.Hour), f.NotAfter.Add(-48*time.Hour)
		}},
		{name: "not yet valid", code: taskcatalog.CodeNotYetValid, forge: func(_ *testing.T, f *forgery) {
			f.IssuedAt, f.NotAfter = f.IssuedAt.Add(48*time.Hour), f.NotAfter.Add(48*time.Hour)
		}},
		{name: "another task's, replayed under this id", code: taskcatalog.CodeReplayed, forge: func(_ *testing.T, f *forgery) { f.TaskID = "t-of-yesterday" }},
		{name: "unknown type", code: taskcatalog.CodeUnknownType, forge: func(_ *testing.T, f *forgery) { f.Type = "node.exec" }},
		{name: "unknown version", code: taskcatalog.CodeUnknownVersion, forge: func(_ *testing.T, f *forgery) { f.Version = 99 }},
		{name: "bad params", code: taskcatalog.CodeBadParams, forge: func(_ *testing.T, f *forgery) {
			f.Params = json.RawMessage(`{"command":["sh","-c","id"]}`)
		}},
		{name: "missing capability", code: taskcatalog.CodeCapabilityMissing, typ: "node.storage_cleanup", params: `{"scope":"weka"}`},
		{name: "mutating where probes are allowed", code: taskcatalog.CodeNotAllowed, allow: inbox.AllowProbe},
		{name: "destructive where mutating is allowed", code: taskcatalog.CodeNotAllowed, allow: inbox.AllowMutating, typ: "node.storage_cleanup", params: `{"scope":"local"}`},
		{name: "deep JSON", code: taskcatalog.CodeMalformed, forge: func(_ *testing.T, f *forgery) {
			f.raw = func(string) string { return strings.Repeat(`{"a":`, 10_000) }
		}},
		{name: "deep JSON that is signed", code: taskcatalog.CodeMalformed, forge: func(_ *testing.T, f *forgery) {
			f.Params = json.RawMessage(strings.Repeat(`[`, 70) + strings.Repeat(`]`, 70))
		}},
		{name: "a script", code: taskcatalog.CodeMalformed, forge: func(_ *testing.T, f *forgery) {
			f.raw = func(string) string { return "#!/bin/sh\nid" }
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			inBubble(t, func(l *lab) {
				var runs atomic.Int64
				for id, result := range map[string]any{"node.drain@1": &taskcatalog.DrainResult{}, "node.storage_cleanup@1": &taskcatalog.StorageCleanupResult{}} {
					l.handle(id, do(func(context.Context, *host.Run) (any, taskcatalog.Report, error) {
						runs.Add(1)
						return result, taskcatalog.Report{}, nil
					}))
				}
				if test.allow != "" {
					l.config.Allow = test.allow
				}
				typ, params := "node.drain", `{}`
				if test.typ != "" {
					typ, params = test.typ, test.params
				}
				p := l.start()
				id := l.nodeID(p)
				l.works(p)
				l.broker.GoAway() // the node polls only after the forgery
				q := l.broker.Enqueue(id, typ, params)
				f := &forgery{Task: q.Payload, kind: pki.PayloadTask, by: l.broker.Auth.Task}
				if test.forge != nil {
					test.forge(t, f)
				}
				l.broker.Lock()
				q.Envelope = f.envelope(t)
				l.broker.Unlock()
				l.broker.ComeBack()
				wantResult(t, l.broker.Wait(q, time.Hour), taskcatalog.OutcomeRefused, test.code)
				if n := runs.Load(); n != 0 {
					t.Errorf("%d tasks ran", n)
				}
				l.works(p)
			})
		})
	}
}

// An answer of ten megabytes is not read to its end. The agent gets no task from it and goes on.
func TestAnEnvelopeOfTenMegabytesIsNotTaken(t *testing.T) {
	inBubble(t, func(l *lab) {
		var runs atomic.Int64
		l.handle("node.drain@1", do(func(ctx context.Context, r *host.Run) (any, taskcatalog.Report, error) {
			runs.Add(1)
			return drain(ctx, r)
		}))
		p := l.start()
		id := l.nodeID(p)
		l.broker.GoAway()
		q := l.broker.Enqueue(id, "node.drain", `{}`)
		q.Envelope += strings.Repeat(" ", 10<<20)
		l.broker.ComeBack()
		l.until("it was sent", func() bool { l.broker.Lock(); defer l.broker.Unlock(); return q.Attempt > 0 })
		time.Sleep(10 * time.Minute)
		l.works(p)
		if _, known, err := p.ledger.Get(q.ID); known || err != nil || runs.Load() != 0 {
			t.Fatalf("it was taken (%v, %v) and ran %d times", known, err, runs.Load())
		}
	})
}
