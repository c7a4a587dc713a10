package main

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/opa"
	"github.com/hostler/hostler/broker/outbox/nats"
	"github.com/hostler/hostler/taskcatalog"
)

// Any config file is read whole or refused with a code.
func FuzzSettings(f *testing.F) {
	for _, seed := range []string{
		"", "data_dir: /var/lib/hostler\nlisten: 127.0.0.1:0\n", "data_dir: [1]\n", "secrets: vault\nvault: {address: \"https://v:8200\", mount: kv, approle: {role_id_file: a}}\n", "vault: {approle: 1}\n", "vault: {nope: 1}\n", "oidc: {issuer: 1, rules: [{claim: [], nope: 1}]}\n", "nope: 1\n", "data_dir: a\ndata_dir: b\n", "&a [*a]", "\xff", "--- 1\n--- 2\n", "{", "data_dir: \"\\x1b[31m\"\n",
	} {
		f.Add([]byte(seed))
	}
	path := filepath.Join(f.TempDir(), "broker.yaml")
	f.Fuzz(func(t *testing.T, raw []byte) {
		if err := os.WriteFile(path, raw, 0o600); err != nil {
			t.Fatal(err)
		}
		var s settings
		err := readSettings(path, &s)
		if fault, ok := errors.AsType[*broker.Error](err); err != nil && (!ok || fault.Code != "config_invalid" || taskcatalog.Clean(err.Error(), 4096) != err.Error()) {
			t.Errorf("%q: %v", raw, err)
		}
		if err == nil && len(raw) > maxSettings {
			t.Errorf("took %d bytes", len(raw))
		}
	})
}

func TestWhoMaySignInIsReadWhole(t *testing.T) {
	path := filepath.Join(t.TempDir(), "broker.yaml")
	text := "oidc: {issuer: 'https://id.example', client_id: hostler, rules: [{claim: groups, value: lab, role: project_member, project: acme/lab}]}\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	var s settings
	if err := readSettings(path, &s); err != nil || s.OIDC.Issuer != "https://id.example" || len(s.OIDC.Rules) != 1 || s.OIDC.Rules[0].Project != "acme/lab" {
		t.Errorf("%+v, %v", s.OIDC, err)
	}
}

// A missing value differs from 0, which keeps history forever.
func TestForHowLongHistoryIsKept(t *testing.T) {
	path := filepath.Join(t.TempDir(), "broker.yaml")
	for text, want := range map[string]string{"data_dir: a\n": "default", "history: {keep_for: 0s}\n": "0s", "history: {keep_for: 2160h}\n": "2160h0m0s"} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		var s settings
		got := "default"
		err := readSettings(path, &s)
		if s.History.For != nil {
			got = s.History.For.String()
		}
		if err != nil || got != want {
			t.Errorf("%s: %s, %v", text, got, err)
		}
	}
}

// The relay to NATS is beside how long events are kept. A key that is not one is refused.
func TestWhereEventsAreRelayedTo(t *testing.T) {
	path := filepath.Join(t.TempDir(), "broker.yaml")
	read := func(text string) (s settings, err error) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		err = readSettings(path, &s)
		return s, err
	}
	s, err := read("events: {keep_most: 5000, nats: {url: 'tls://nats.example', creds: /etc/hostler/nats.creds, stream: EVENTS}}\n")
	if err != nil || s.Events.Most != 5000 || s.Events.NATS == nil || *s.Events.NATS != (nats.Config{URL: "tls://nats.example", Creds: "/etc/hostler/nats.creds", Stream: "EVENTS"}) {
		t.Errorf("%+v, %v", s.Events, err)
	}
	if s, err := read("events: {keep_for: 48h}\n"); err != nil || s.Events.NATS != nil || s.Events.For != 48*time.Hour {
		t.Errorf("%+v, %v", s.Events, err)
	}
	if _, err := read("events: {nats: {stream: EVENTS, password: planted}}\n"); broker.AsError(err).Code != "config_invalid" {
		t.Errorf("%v", err)
	}
}

// The policy engine is a section of its own. A key that is not one is refused.
func TestWhichPolicyEngineIsAsked(t *testing.T) {
	path := filepath.Join(t.TempDir(), "broker.yaml")
	read := func(text string) (s settings, err error) {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return s, readSettings(path, &s)
	}
	s, err := read("operations: {opa: {url: 'https://opa.example/v1/data/hostler', ca_file: /etc/ca.pem, token_file: /etc/token, timeout: 3s}}\n")
	want := opa.Config{URL: "https://opa.example/v1/data/hostler", CAFile: "/etc/ca.pem", TokenFile: "/etc/token", Timeout: 3 * time.Second}
	if err != nil || s.Operations.OPA == nil || *s.Operations.OPA != want {
		t.Errorf("%+v, %v", s.Operations, err)
	}
	if s, err := read("data_dir: a\n"); err != nil || s.Operations.OPA != nil {
		t.Errorf("%+v, %v", s.Operations, err)
	}
	if _, err := read("operations: {opa: {url: 'https://opa.example/v1/data/hostler', token: planted}}\n"); broker.AsError(err).Code != "config_invalid" {
		t.Errorf("%v", err)
	}
}
