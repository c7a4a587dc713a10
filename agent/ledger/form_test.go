package ledger

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	bolt "go.etcd.io/bbolt"

	"github.com/hostler/hostler/agent/host"
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

// spoil changes a ledger's content, and closes it.
func spoil(t *testing.T, do func(tx *bolt.Tx) error) string {
	t.Helper()
	dir := t.TempDir()
	l := open(t, dir)
	if err := errors.Join(l.Accept(task("t-1"), "sha256:a", 1, noon), l.Accounts().Put(host.Account{AllocationID: "a-1", UID: host.FirstUID}), l.update(do), l.Close()); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestWhatALedgerHoldsIsCheckedToo(t *testing.T) {
	for name, c := range map[string]struct {
		bucket     []byte
		key, value string
		damage     bool
	}{
		"no JSON for a task":          {tasksBucket, "t-1", "garbage", true},
		"another task's":              {tasksBucket, "t-2", "{}", true},
		"no JSON for an account":      {accountsBucket, "a-1", "", true},
		"an account of another kind":  {accountsBucket, "a-1", `{"uid":"x"}`, true},
		"no JSON for a mark":          {marksBucket, drainedMark, "maybe", true},
		"no JSON for facts":           {marksBucket, factsKey, "[]", true},
		"no name of the ledger's":     {marksBucket, idMark, "7", true},
		"no moment":                   {marksBucket, lostMark, `"soon"`, true},
		"no units":                    {marksBucket, stoppedMark, `"a"`, true},
		"no GPUs":                     {marksBucket, persistentMark, `"a"`, true},
		"no overwrite":                {marksBucket, overwriteMark + "sda", `"a"`, true},
		"no uid":                      {marksBucket, uidMark, `"a"`, true},
		"a mark of a newer agent's":   {marksBucket, "mood", "whatever", false},
		"a key that a newer one adds": {accountsBucket, "a-1", `{"allocation_id":"a-1","mood":"good"}`, false},
	} {
		dir := spoil(t, func(tx *bolt.Tx) error { return tx.Bucket(c.bucket).Put([]byte(c.key), []byte(c.value)) })
		if err := Check(dir); (err != nil) != c.damage {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// After a revert the older version reads the entries of a newer version in the same form, and goes
// on with them.
func TestWhatANewerAgentAddsToAnEntryIsReadOver(t *testing.T) {
	dir := spoil(t, func(tx *bolt.Tx) error {
		b := tx.Bucket(tasksBucket)
		raw := string(b.Get([]byte("t-1")))
		added := strings.Replace(strings.Replace(raw, "{", `{"mood":"good",`, 1), `"task":{`, `"task":{"urgency":"high",`, 1)
		if strings.Count(added, "urgency") != 1 {
			t.Fatal(added)
		}
		return b.Put([]byte("t-1"), []byte(added))
	})
	if err := Check(dir); err != nil {
		t.Error(err)
	}
	l := open(t, dir)
	e, known, err := l.Get("t-1")
	if !known || err != nil || e.State != Accepted || string(e.Task.Params) != `{"grace_seconds":3}` {
		t.Fatalf("%+v %v %v", e, known, err)
	}
	do(t, l.Start("t-1", noon))
	if all, err := l.Open(func(e *Entry) bool { return e.State == Started }); len(all) != 1 || err != nil {
		t.Errorf("%+v %v", all, err)
	}
}

// A ledger keeps its id, and a ledger created in its place has another id.
func TestALedgerIsToldFromAnotherInItsPlace(t *testing.T) {
	named := func(dir string) string {
		t.Helper()
		id, err := ID(dir)
		if err != nil {
			t.Fatal(err)
		}
		return id
	}
	if id := named(t.TempDir()); id != "" {
		t.Errorf("none at all is %q", id)
	}
	dir := spoil(t, func(tx *bolt.Tx) error { return tx.Bucket(marksBucket).Delete([]byte(idMark)) })
	if id := named(dir); id != "" {
		t.Errorf("one from before they had a name is %q", id)
	}
	do(t, open(t, dir).Close())
	first := named(dir)
	do(t, open(t, dir).Close(), RecordLoss(dir, noon))
	if again := named(dir); first == "" || again != first {
		t.Errorf("it was %q and is %q", first, again)
	}
	do(t, os.Remove(filepath.Join(dir, "ledger.db")), open(t, dir).Close())
	if other := named(dir); other == "" || other == first {
		t.Errorf("another one is %q", other)
	}
	if err := os.WriteFile(filepath.Join(dir, "ledger.db"), []byte("hello"), 0o600); err != nil {
		t.Fatal(err)
	}
	if id, err := ID(dir); err == nil {
		t.Errorf("a damaged one is %q", id)
	}
}
