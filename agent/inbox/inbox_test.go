package inbox

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/hostler/hostler/pki"
	"github.com/hostler/hostler/pki/pkitest"
	"github.com/hostler/hostler/taskcatalog"
)

var now = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// lab is a node with its broker's keys, and a drain task that would be admitted.
type lab struct {
	*Inbox
	auth  *pkitest.Authority
	task  taskcatalog.Task
	trust *pki.TrustBundle
	known map[string]bool
	here  []string // allocations
	clock time.Time
}

func newLab(t testing.TB) *lab {
	auth := pkitest.NewAt(t, now)
	l := &lab{auth: auth, trust: auth.Bundle, known: map[string]bool{}, clock: now}
	self := auth.NewNode(t).NodeIdentity
	l.task = taskcatalog.Task{
		TaskID: "t-1", NodeID: self.NodeID, NodeEpoch: self.Epoch, Type: "node.drain", Version: 1,
		Params: json.RawMessage(`{"grace_seconds":5}`), Nonce: "nonce", IssuedAt: now, NotAfter: now.Add(time.Hour),
	}
	l.Inbox = &Inbox{
		Now:   func() time.Time { return l.clock },
		Self:  func() pki.NodeIdentity { return self },
		Trust: func() *pki.TrustBundle { return l.trust },
		Known: func(id, _ string) (bool, error) { return l.known[id], nil },
		Handles: func(typ taskcatalog.Type) bool {
			return typ.Name != "node.heartbeat_check"
		},
		Allow:        AllowAll,
		Capabilities: func() map[string]string { return nil },
		Allocations:  func() ([]string, error) { return l.here, nil },
	}
	return l
}

func (l *lab) sign(t testing.TB) []byte {
	t.Helper()
	return sign(t, pki.PayloadTask, l.task, l.auth.Task)
}

func sign(t testing.TB, kind string, v any, by pki.Signer) []byte {
	t.Helper()
	payload, err := taskcatalog.Encode(v)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := pki.Sign(kind, payload, by)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func TestAGoodTaskIsAdmittedWithItsParams(t *testing.T) {
	l := newLab(t)
	raw := l.sign(t)
	a, refusal := l.Admit(raw, "t-1")
	if refusal != nil {
		t.Fatal(refusal)
	}
	if p, ok := a.Params.(*taskcatalog.DrainParams); !ok || p.GraceSeconds != 5 || a.Type.ID() != "node.drain@1" || a.Digest != pki.Digest(raw) {
		t.Fatalf("admitted %+v", a)
	}
}

// envelope edits the envelope's JSON, as an attacker with the broker's database could.
func envelope(t *testing.T, raw []byte, edit func(map[string]any)) []byte {
	t.Helper()
	var env map[string]any
	if err := json.Unmarshal(raw, &env); err != nil {
		t.Fatal(err)
	}
	edit(env)
	raw, err := json.Marshal(env)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func TestEachAttackIsRefusedWithItsOwnCode(t *testing.T) {
	for _, test := range []struct {
		name  string
		setup func(t *testing.T, l *lab) []byte // nil: the present task, signed
		as    string                            // delivered as; "": t-1
		code  taskcatalog.Code
		keeps bool // the refusal must be recorded
	}{
		{name: "tampered payload", code: taskcatalog.CodeBadSignature, setup: func(t *testing.T, l *lab) []byte {
			other := l.task
			other.Params = json.RawMessage(`{"grace_seconds":300}`)
			payload, _ := taskcatalog.Encode(other)
			return envelope(t, l.sign(t), func(e map[string]any) { e["payload"] = base64.StdEncoding.EncodeToString(payload) })
		}},
		{name: "tampered signature", code: taskcatalog.CodeBadSignature, setup: func(t *testing.T, l *lab) []byte {
			return envelope(t, l.sign(t), func(e map[string]any) {
				sig := e["signatures"].([]any)[0].(map[string]any)
				raw, _ := base64.StdEncoding.DecodeString(sig["sig"].(string))
				raw[0] ^= 1
				sig["sig"] = base64.StdEncoding.EncodeToString(raw)
			})
		}},
		{name: "unknown key", code: taskcatalog.CodeUnknownKey, setup: func(t *testing.T, l *lab) []byte {
			return sign(t, pki.PayloadTask, l.task, pkitest.NewSigner(t))
		}},
		{name: "unknown key under a known id", code: taskcatalog.CodeBadSignature, setup: func(t *testing.T, l *lab) []byte {
			return sign(t, pki.PayloadTask, l.task, pki.Signer{ID: l.auth.Task.ID, Key: pkitest.NewSigner(t).Key})
		}},
		{name: "key of another use", code: taskcatalog.CodeUnknownKey, setup: func(t *testing.T, l *lab) []byte {
			return sign(t, pki.PayloadTask, l.task, l.auth.Trust)
		}},
		{name: "removed key", code: taskcatalog.CodeUnknownKey, setup: func(t *testing.T, l *lab) []byte {
			raw := l.sign(t)
			without := *l.trust
			without.Keys = nil
			for _, k := range l.trust.Keys {
				if k.Use != pki.UseTask {
					without.Keys = append(without.Keys, k)
				}
			}
			l.trust = &without
			return raw
		}},
		{name: "key that has run out", code: pki.CodeKeyNotInForce, setup: func(t *testing.T, l *lab) []byte {
			l.clock = now.Add(pkitest.Life + time.Hour)
			return nil
		}},
		{name: "signed as something else", code: taskcatalog.CodeWrongPayloadType, setup: func(t *testing.T, l *lab) []byte {
			return sign(t, pki.PayloadEvidence, l.task, l.auth.Task)
		}},
		{name: "another node's", code: taskcatalog.CodeWrongNode, setup: func(t *testing.T, l *lab) []byte {
			l.task.NodeID = "n-aaaaaaaaaaaaaaaa"
			return nil
		}},
		{name: "earlier epoch", code: taskcatalog.CodeWrongEpoch, setup: func(t *testing.T, l *lab) []byte {
			l.task.NodeEpoch--
			return nil
		}},
		{name: "later epoch", code: taskcatalog.CodeWrongEpoch, setup: func(t *testing.T, l *lab) []byte {
			l.task.NodeEpoch++
			return nil
		}},
		{name: "expired", code: taskcatalog.CodeTaskExpired, setup: func(t *testing.T, l *lab) []byte {
			l.clock = l.task.NotAfter.Add(taskcatalog.ClockSkew + time.Second)
			return nil
		}},
		{name: "not yet valid", code: taskcatalog.CodeNotYetValid, setup: func(t *testing.T, l *lab) []byte {
			l.clock = l.task.IssuedAt.Add(-taskcatalog.ClockSkew - time.Second)
			return nil
		}},
		{name: "replayed", code: taskcatalog.CodeReplayed, setup: func(t *testing.T, l *lab) []byte {
			l.known["t-1"] = true
			return nil
		}},
		{name: "delivered as another task", as: "t-2", code: taskcatalog.CodeReplayed},
		{name: "ledger that cannot be read", code: taskcatalog.CodeLedgerUnavailable, setup: func(t *testing.T, l *lab) []byte {
			l.Known = func(string, string) (bool, error) {
				return false, taskcatalog.Errorf(taskcatalog.CodeLedgerUnavailable, "cannot read")
			}
			return nil
		}},
		{name: "unknown type", keeps: true, code: taskcatalog.CodeUnknownType, setup: func(t *testing.T, l *lab) []byte {
			l.task.Type = "node.exec"
			return nil
		}},
		{name: "unknown version", keeps: true, code: taskcatalog.CodeUnknownVersion, setup: func(t *testing.T, l *lab) []byte {
			l.task.Version = 99
			return nil
		}},
		{name: "type without a handler here", keeps: true, code: taskcatalog.CodeUnknownType, setup: func(t *testing.T, l *lab) []byte {
			l.task.Type, l.task.Params = "node.heartbeat_check", json.RawMessage(`{}`)
			return nil
		}},
		{name: "unknown param", keeps: true, code: taskcatalog.CodeBadParams, setup: func(t *testing.T, l *lab) []byte {
			l.task.Params = json.RawMessage(`{"command":"rm -rf /"}`)
			return nil
		}},
		{name: "param beyond its bounds", keeps: true, code: taskcatalog.CodeBadParams, setup: func(t *testing.T, l *lab) []byte {
			l.task.Params = json.RawMessage(`{"grace_seconds":301}`)
			return nil
		}},
		{name: "params of another shape", keeps: true, code: taskcatalog.CodeBadParams, setup: func(t *testing.T, l *lab) []byte {
			l.task.Params = json.RawMessage(`["grace_seconds"]`)
			return nil
		}},
		{name: "beyond allow", keeps: true, code: taskcatalog.CodeNotAllowed, setup: func(t *testing.T, l *lab) []byte {
			l.Allow = AllowProbe
			return nil
		}},
		{name: "allow that says nothing known", keeps: true, code: taskcatalog.CodeNotAllowed, setup: func(t *testing.T, l *lab) []byte {
			l.Allow = "everything"
			return nil
		}},
		{name: "missing capability", keeps: true, code: taskcatalog.CodeCapabilityMissing, setup: func(t *testing.T, l *lab) []byte {
			l.task.Type, l.task.Params = "node.storage_cleanup", json.RawMessage(`{"scope":"weka"}`)
			return nil
		}},
		{name: "destructive while a tenant is there", keeps: true, code: taskcatalog.CodeAllocationPresent, setup: func(t *testing.T, l *lab) []byte {
			l.here = []string{"a-1"}
			l.task.Type, l.task.Params = "node.storage_cleanup", json.RawMessage(`{"scope":"local"}`)
			return nil
		}},
		{name: "10 MB envelope", code: taskcatalog.CodeTooLarge, setup: func(*testing.T, *lab) []byte {
			return bytes.Repeat([]byte("x"), 10<<20)
		}},
		{name: "deep JSON", code: taskcatalog.CodeMalformed, setup: func(*testing.T, *lab) []byte {
			return []byte(strings.Repeat(`{"a":`, 100_000))
		}},
		{name: "deep JSON that is signed", code: taskcatalog.CodeMalformed, setup: func(t *testing.T, l *lab) []byte {
			raw, err := pki.Sign(pki.PayloadTask, []byte(strings.Repeat("[", 100_000)), l.auth.Task)
			if err != nil {
				t.Fatal(err)
			}
			return raw
		}},
		{name: "deep params", code: taskcatalog.CodeMalformed, setup: func(t *testing.T, l *lab) []byte {
			l.task.Params = json.RawMessage(strings.Repeat(`[`, 70) + strings.Repeat(`]`, 70))
			return nil
		}},
		{name: "no JSON", code: taskcatalog.CodeMalformed, setup: func(*testing.T, *lab) []byte { return []byte("#!/bin/sh") }},
		{name: "a member nobody knows", code: taskcatalog.CodeMalformed, setup: func(t *testing.T, l *lab) []byte {
			return envelope(t, l.sign(t), func(e map[string]any) { e["shell"] = "true" })
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			l := newLab(t)
			var raw []byte
			if test.setup != nil {
				raw = test.setup(t, l)
			}
			if raw == nil {
				raw = l.sign(t)
			}
			as := test.as
			if as == "" {
				as = "t-1"
			}
			_, refusal := l.Admit(raw, as)
			if refusal == nil {
				t.Fatal("admitted")
			}
			if refusal.Code != test.code || (refusal.Task != nil) != test.keeps {
				t.Fatalf("%s: %s (recorded: %v), want %s (recorded: %v)", refusal.Code, refusal.Message, refusal.Task != nil, test.code, test.keeps)
			}
		})
	}
}

// Of several faults the earliest check's code is returned: this order is a promise.
func TestTheChecksStandInTheirOrder(t *testing.T) {
	faults := []struct {
		code taskcatalog.Code
		make func(*lab)
	}{
		{taskcatalog.CodeUnknownKey, func(l *lab) { l.auth.Task = l.auth.Statement }},
		{taskcatalog.CodeWrongNode, func(l *lab) { l.task.NodeID = "n-aaaaaaaaaaaaaaaa" }},
		{taskcatalog.CodeWrongEpoch, func(l *lab) { l.task.NodeEpoch = 7 }},
		{taskcatalog.CodeTaskExpired, func(l *lab) { l.task.NotAfter = now.Add(-time.Hour) }},
		{taskcatalog.CodeReplayed, func(l *lab) { l.known["t-1"] = true }},
		{taskcatalog.CodeUnknownVersion, func(l *lab) { l.task.Version = 99 }},
	}
	for i, first := range faults {
		l := newLab(t)
		for _, fault := range faults[i:] {
			fault.make(l)
		}
		if _, refusal := l.Admit(l.sign(t), "t-1"); refusal == nil || refusal.Code != first.code {
			t.Errorf("with the faults from %s on: %v", first.code, refusal)
		}
	}
	// Within the last check: schema before allow before capability before tenant.
	l := newLab(t)
	l.Allow, l.here, l.task.Type = AllowProbe, []string{"a-1"}, "node.storage_cleanup"
	for _, step := range []struct {
		code taskcatalog.Code
		mend func()
	}{
		{taskcatalog.CodeBadParams, func() { l.task.Params = json.RawMessage(`{"scope":"all"}`) }},
		{taskcatalog.CodeNotAllowed, func() { l.Allow = AllowAll }},
		{taskcatalog.CodeCapabilityMissing, func() { l.Capabilities = func() map[string]string { return map[string]string{"weka": "4.4"} } }},
		{taskcatalog.CodeAllocationPresent, func() { l.here = nil }},
	} {
		if _, refusal := l.Admit(l.sign(t), "t-1"); refusal == nil || refusal.Code != step.code {
			t.Fatalf("want %s, got %v", step.code, refusal)
		}
		step.mend()
	}
	if _, refusal := l.Admit(l.sign(t), "t-1"); refusal != nil {
		t.Fatal(refusal)
	}
}

func TestARefusalOverTimeNamesBothClocks(t *testing.T) {
	for _, shift := range []time.Duration{-200 * time.Second, 4 * time.Hour} {
		l := newLab(t)
		l.clock = now.Add(shift)
		_, refusal := l.Admit(l.sign(t), "t-1")
		if refusal == nil || !strings.Contains(refusal.Message, stamp(now)) || !strings.Contains(refusal.Message, stamp(l.clock)) {
			t.Errorf("at %s: %v", shift, refusal)
		}
	}
}

func TestClocksMayDifferWithinTheSkew(t *testing.T) {
	for _, at := range []time.Time{now.Add(-taskcatalog.ClockSkew), now.Add(time.Hour + taskcatalog.ClockSkew)} {
		l := newLab(t)
		l.clock = at
		if _, refusal := l.Admit(l.sign(t), "t-1"); refusal != nil {
			t.Errorf("at %s: %v", at, refusal)
		}
	}
}

func TestADestructiveTaskNamesTheTenantItMayDestroy(t *testing.T) {
	for _, test := range []struct {
		name, typ, params string
		here              []string
		code              taskcatalog.Code
	}{
		{"nobody there", "node.storage_cleanup", `{"scope":"local"}`, nil, ""},
		{"the tenant named", "node.storage_cleanup", `{"scope":"local","allocation_id":"a-1"}`, []string{"a-1"}, ""},
		{"another named", "node.storage_cleanup", `{"scope":"local","allocation_id":"a-2"}`, []string{"a-1"}, taskcatalog.CodeAllocationPresent},
		{"two there, one named", "node.storage_cleanup", `{"scope":"local","allocation_id":"a-1"}`, []string{"a-1", "a-2"}, taskcatalog.CodeAllocationPresent},
		{"revoke names one of two", "allocation.revoke_user", `{"allocation_id":"a-1","username":"alice"}`, []string{"a-1", "a-2"}, ""},
		{"revoke names none of them", "allocation.revoke_user", `{"allocation_id":"a-9","username":"alice"}`, []string{"a-1"}, taskcatalog.CodeAllocationPresent},
		{"uninstall", "node.uninstall", `{}`, []string{"a-1"}, taskcatalog.CodeAllocationPresent},
		{"an erase names the tenant", "node.disk_erase", `{"allocation_id":"a-1","mode":"secure","disks":[{"serial":"S","model":"M","size_bytes":1}]}`, []string{"a-1"}, ""},
		{"an erase names nobody", "node.disk_erase", `{"mode":"secure","disks":[{"serial":"S","model":"M","size_bytes":1}]}`, []string{"a-1"}, taskcatalog.CodeAllocationPresent},
		{"uninstall names the tenant", "node.uninstall", `{"allocation_id":"a-1"}`, []string{"a-1"}, ""},
		{"drain destroys nothing", "node.drain", `{}`, []string{"a-1"}, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			l := newLab(t)
			l.task.Type, l.task.Params, l.here = test.typ, json.RawMessage(test.params), test.here
			_, refusal := l.Admit(l.sign(t), "t-1")
			if refusal == nil {
				refusal = &Refusal{}
			}
			if refusal.Code != test.code {
				t.Fatalf("%s: %s, want %q", refusal.Code, refusal.Message, test.code)
			}
		})
	}
	l := newLab(t)
	l.Allocations = func() ([]string, error) { return nil, errors.New("unreadable") }
	l.task.Type, l.task.Params = "node.storage_cleanup", json.RawMessage(`{"scope":"local"}`)
	if _, refusal := l.Admit(l.sign(t), "t-1"); refusal == nil {
		t.Fatal("admitted without knowing who is there")
	}
}

// allocationOf must know every type of the catalog with an allocation id in its params: a type
// missing there would never be admitted beside a tenant.
func TestEveryDestructiveTypeThatNamesAnAllocationIsUnderstood(t *testing.T) {
	named := 0
	for _, typ := range taskcatalog.All() {
		if typ.Class != taskcatalog.ClassDestructive {
			continue
		}
		params, err := typ.DecodeParams(json.RawMessage(typ.Example))
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.Indirect(reflect.ValueOf(params)).FieldByName("AllocationID").IsValid() {
			continue // cannot name an allocation
		}
		var example map[string]any
		if err := json.Unmarshal([]byte(typ.Example), &example); err != nil {
			t.Fatal(err)
		}
		example["allocation_id"] = "a-1"
		raw, _ := json.Marshal(example)
		if params, err = typ.DecodeParams(raw); err != nil {
			t.Fatal(err)
		}
		named++
		if allocationOf(params) != "a-1" {
			t.Errorf("%s: allocationOf does not read its params", typ.ID())
		}
	}
	if named == 0 {
		t.Error("no destructive type names an allocation: the test looks at nothing")
	}
}

func TestAllowPermitsNoMoreThanItSays(t *testing.T) {
	classes := []taskcatalog.Class{taskcatalog.ClassProbe, taskcatalog.ClassMutating, taskcatalog.ClassDestructive, "new"}
	for allow, want := range map[Allow]string{AllowProbe: "1000", AllowMutating: "1100", AllowAll: "1110", "": "0000", "ALL": "0000"} {
		got := ""
		for _, class := range classes {
			got += map[bool]string{true: "1", false: "0"}[allow.Permits(class)]
		}
		if got != want {
			t.Errorf("allow %q permits %s, want %s", allow, got, want)
		}
	}
}

func BenchmarkAdmit(b *testing.B) {
	l := newLab(b)
	raw := l.sign(b)
	for b.Loop() {
		if _, refusal := l.Admit(raw, "t-1"); refusal != nil {
			b.Fatal(refusal)
		}
	}
}
