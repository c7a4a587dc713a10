package main

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/taskcatalog"
)

// Whatever a config file holds, it is read whole or refused with its code.
func FuzzSettings(f *testing.F) {
	for _, seed := range []string{
		"", "data_dir: /var/lib/hostler\nlisten: 127.0.0.1:0\n", "data_dir: [1]\n", "secrets: vault\nvault: {address: \"https://v:8200\", mount: kv, approle: {role_id_file: a}}\n", "vault: {approle: 1}\n", "vault: {nope: 1}\n", "nope: 1\n", "data_dir: a\ndata_dir: b\n", "&a [*a]", "\xff", "--- 1\n--- 2\n", "{", "data_dir: \"\\x1b[31m\"\n",
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
