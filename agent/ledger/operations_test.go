package ledger

import (
	"fmt"
	"strings"
	"testing"

	bolt "go.etcd.io/bbolt"

	"github.com/hostler/hostler/agent/host"
	"github.com/hostler/hostler/taskcatalog"
)

func anOperation(task string, size int) host.OperationRecord {
	r := host.OperationRecord{TaskID: task, Checkpoints: map[string][]byte{"pull": make([]byte, size)}}
	r.Rows = []host.OperationRow{{Open: true}}
	r.Rows[0].ID = "pull"
	return r
}

func TestAnOperationIsRememberedOverARestart(t *testing.T) {
	dir := t.TempDir()
	l, err := Open(dir)
	do(t, err)
	do(t, l.PutOperation("op-1", anOperation("t-1", 3)))
	do(t, l.PutOperation("op-1", anOperation("t-2", 5)))
	do(t, l.Close())
	l, err = Open(dir)
	do(t, err)
	defer func() { do(t, l.Close()) }()
	r, known, err := l.Operation("op-1")
	if err != nil || !known || r.TaskID != "t-2" || len(r.Checkpoints["pull"]) != 5 || !r.Rows[0].Open || r.Rows[0].ID != "pull" {
		t.Errorf("%+v, %t, %v", r, known, err)
	}
	if _, known, err := l.Operation("op-2"); known || err != nil {
		t.Errorf("%t, %v", known, err)
	}
}

// However many operations a node carries out, the ledger keeps the last ones, within its bounds.
func TestOperationsWrittenLongestAgoAreDropped(t *testing.T) {
	for _, c := range []struct{ size, most int }{{10, maxOperations}, {300 << 10, maxOperationBytes / (400 << 10)}} {
		l := open(t, t.TempDir())
		for i := range maxOperations + 3 {
			do(t, l.PutOperation(fmt.Sprintf("op-%d", i), anOperation("t", c.size)))
			do(t, l.PutOperation("op-first", anOperation("t", c.size))) // written again and again, and so never the oldest
		}
		kept, bytes := 0, 0
		do(t, l.view(func(tx *bolt.Tx) error {
			return tx.Bucket(operationsBucket).ForEach(func(_, v []byte) error {
				kept, bytes = kept+1, bytes+len(v)
				return nil
			})
		}))
		if kept > c.most || kept < c.most-1 || bytes > maxOperationBytes {
			t.Errorf("%d bytes each: %d operations are kept, of %d bytes", c.size, kept, bytes)
		}
		for id, want := range map[string]bool{"op-first": true, "op-0": false, fmt.Sprintf("op-%d", maxOperations+2): true} {
			if _, known, err := l.Operation(id); err != nil || known != want {
				t.Errorf("%s is known: %t, %v", id, known, err)
			}
		}
	}
}

func TestAnOperationThatIsTooLargeIsRefusedAndTheOldRecordStands(t *testing.T) {
	l := open(t, t.TempDir())
	do(t, l.PutOperation("op-1", anOperation("t-1", 3)))
	if err := l.PutOperation("op-1", anOperation("t-2", maxOperation)); taskcatalog.CodeOf(err, "") != taskcatalog.CodeTooLarge {
		t.Error(err)
	}
	if r, _, err := l.Operation("op-1"); err != nil || r.TaskID != "t-1" {
		t.Errorf("%+v, %v", r, err)
	}
}

func TestARecordThatIsCutOffIsAnError(t *testing.T) {
	dir := t.TempDir()
	for _, raw := range []string{"short", strings.Repeat("\x00", 8) + `{"task_id":`} {
		l := open(t, dir)
		do(t, l.update(func(tx *bolt.Tx) error { return tx.Bucket(operationsBucket).Put([]byte("op-1"), []byte(raw)) }))
		if _, _, err := l.Operation("op-1"); err == nil {
			t.Errorf("%q is a record", raw)
		}
		do(t, l.Close())
		if Check(dir) == nil {
			t.Errorf("%q is a record for an agent that would use this ledger", raw)
		}
	}
}
