package ledger

import (
	"bytes"
	"testing"

	"github.com/hostler/hostler/agent/erase"
)

func TestHowFarAnOverwriteCameIsKnownOverARestart(t *testing.T) {
	dir := t.TempDir()
	l, err := Open(dir)
	do(t, err)
	do(t, l.PutOverwrite("a", erase.Overwrite{Key: []byte("key"), Written: 1 << 40}))
	do(t, l.PutOverwrite("a", erase.Overwrite{Key: []byte("key"), Written: 2 << 40}))
	do(t, l.DeleteOverwrite("b"))
	do(t, l.Close())
	l, err = Open(dir)
	do(t, err)
	defer func() { do(t, l.Close()) }()
	if o, ok, err := l.Overwrite("a"); err != nil || !ok || !bytes.Equal(o.Key, []byte("key")) || o.Written != 2<<40 {
		t.Errorf("%+v, %v, %v", o, ok, err)
	}
	do(t, l.DeleteOverwrite("a"))
	for _, disk := range []string{"a", "b"} {
		if o, ok, err := l.Overwrite(disk); err != nil || ok {
			t.Errorf("%s: %+v, %v", disk, o, err)
		}
	}
}
