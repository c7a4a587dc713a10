package ledger

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	bolt "go.etcd.io/bbolt"

	"github.com/hostler/hostler/taskcatalog"
	"github.com/hostler/hostler/taskcatalog/release"
)

func formed(t *testing.T, form int) string {
	t.Helper()
	dir := t.TempDir()
	l, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	if form > 0 {
		err = l.update(func(tx *bolt.Tx) error { return put(tx.Bucket(marksBucket), formMark, form) })
	}
	if got, formErr := l.Form(); err != nil || formErr != nil || form > 0 && got != form || form == 0 && got != release.State.Writes {
		t.Fatalf("form %d, %v %v", got, err, formErr)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestALedgerOfANewerAgentIsRefusedAsItIs(t *testing.T) {
	dir := formed(t, release.State.ReadsMax+1)
	before, err := os.ReadFile(filepath.Join(dir, "ledger.db"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Open(dir); taskcatalog.CodeOf(err, "") != CodeTooNew {
		t.Fatalf("it was opened: %v", err)
	}
	if err := Check(dir); taskcatalog.CodeOf(err, "") != CodeTooNew {
		t.Errorf("it is taken for readable: %v", err)
	}
	if after, err := os.ReadFile(filepath.Join(dir, "ledger.db")); err != nil || !bytes.Equal(before, after) {
		t.Errorf("it was changed: %v", err)
	}
}

func TestALedgerFromBeforeFormsIsOfTheFirst(t *testing.T) {
	dir := formed(t, 0)
	l, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	err = l.update(func(tx *bolt.Tx) error { return tx.Bucket(marksBucket).Delete([]byte(formMark)) })
	if form, formErr := l.Form(); form != 1 || err != nil || formErr != nil {
		t.Errorf("form %d, %v %v", form, err, formErr)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if err := Check(dir); err != nil {
		t.Error(err)
	}
}

func TestADamagedLedgerIsSeenWithoutOpeningIt(t *testing.T) {
	if err := Check(t.TempDir()); err != nil {
		t.Errorf("none at all: %v", err)
	}
	for name, damage := range map[string]func([]byte) []byte{
		"text":       func([]byte) []byte { return []byte("hello") },
		"zeros":      func(raw []byte) []byte { return make([]byte, len(raw)) },
		"its middle": func(raw []byte) []byte { clear(raw[8192:20480]); return raw },
		"cut off":    func(raw []byte) []byte { return raw[:4096] },
	} {
		dir := formed(t, 0)
		file := filepath.Join(dir, "ledger.db")
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, damage(raw), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := Check(dir); err == nil {
			t.Errorf("%s: it is taken for sound", name)
		}
	}
}
