package ledger

import (
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	bolt "go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"
	"golang.org/x/sys/unix"

	"github.com/hostler/hostler/taskcatalog"
)

// lockWait is how long Open waits for another process to release the file.
const lockWait = 3 * time.Second

// Space is the initial size of a ledger's file, in bytes: several results of the greatest size,
// with room for bbolt's copies of pages.
const Space = 16 << 20

var (
	tasksBucket    = []byte("tasks")
	accountsBucket = []byte("accounts")
	marksBucket    = []byte("marks")
	openBucket     = []byte("open") // ids of unsettled entries
)

// Ledger is the agent's crash-safe record. Its methods may be called concurrently.
type Ledger struct {
	db *bolt.DB
	// Reserved reports whether the file's space could be allocated.
	Reserved bool
	// fail is called before each write; tests of full disks set it.
	fail func() error
}

// Open opens the ledger in a state directory and creates it if necessary. Codes: ledger_unavailable
// if this is not possible, and state_too_new if a newer agent wrote the ledger. If another process
// has the ledger open, Open waits for three seconds.
func Open(dir string) (*Ledger, error) {
	name := filepath.Join(dir, "ledger.db")
	db, err := bolt.Open(name, 0o600, &bolt.Options{Timeout: lockWait, NoStatistics: true})
	if errors.Is(err, bolterrors.ErrTimeout) {
		return nil, unavailable("cannot open %s: another hostler-agent uses it (systemctl stop hostler-agent)", name)
	}
	if err != nil {
		return nil, unavailable("cannot open %s: %v", name, err)
	}
	if err := readable(db, name); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	l := &Ledger{db: db, fail: func() error { return nil }}
	l.Reserved = reserve(name) == nil
	err = l.update(func(tx *bolt.Tx) error {
		for _, name := range [][]byte{tasksBucket, accountsBucket, marksBucket, openBucket, operationsBucket} {
			if _, err := tx.CreateBucketIfNotExists(name); err != nil {
				return err
			}
		}
		b := tx.Bucket(marksBucket)
		if b.Get([]byte(formMark)) == nil {
			if err := put(b, formMark, 1); err != nil {
				return err
			}
		}
		if b.Get([]byte(idMark)) == nil { // a new ledger, or one from before ledgers had an id
			return put(b, idMark, rand.Text())
		}
		return nil
	})
	if err != nil {
		_ = db.Close()
		return nil, err
	}
	return l, nil
}

// Close waits for running transactions and closes the file.
func (l *Ledger) Close() error { return l.db.Close() }

// reserve allocates the file's space, so that later writes need no new space. On copy-on-write file
// systems (ZFS, btrfs) this is no guarantee.
func reserve(name string) error {
	f, err := os.OpenFile(name, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	for {
		err = unix.Fallocate(int(f.Fd()), 0, 0, Space)
		if !errors.Is(err, unix.EINTR) {
			return errors.Join(err, f.Sync())
		}
	}
}

func (l *Ledger) update(do func(*bolt.Tx) error) error {
	if err := l.fail(); err != nil {
		return unavailable("cannot write the ledger: %v", err)
	}
	return wrap(l.db.Update(do))
}

func (l *Ledger) view(do func(*bolt.Tx) error) error { return wrap(l.db.View(do)) }

// wrap gives an error of the file its code and keeps the codes of other errors.
func wrap(err error) error {
	if err == nil {
		return nil
	}
	if _, ok := errors.AsType[*taskcatalog.Error](err); ok {
		return err
	}
	return unavailable("cannot use the ledger: %v", err)
}

func unavailable(format string, args ...any) error {
	return taskcatalog.Errorf(taskcatalog.CodeLedgerUnavailable, format, args...)
}

// put stores v as JSON.
func put(b *bolt.Bucket, key string, v any) error {
	raw, err := taskcatalog.Encode(v)
	if err != nil {
		return err
	}
	return b.Put([]byte(key), raw)
}

// get loads a value stored by put, and reports whether there is one. Fields added by a newer agent
// in the same form are ignored, and are lost once this agent writes the entry again.
func get(b *bolt.Bucket, key string, v any) (bool, error) {
	raw := b.Get([]byte(key))
	if raw == nil {
		return false, nil
	}
	if err := taskcatalog.DecodeLoose(raw, v); err != nil {
		return false, fmt.Errorf("entry %q: %w", taskcatalog.Clean(key, 80), err)
	}
	return true, nil
}
