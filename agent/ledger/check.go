package ledger

import (
	"os"
	"path/filepath"
	"strings"
	"time"

	bolt "go.etcd.io/bbolt"

	"github.com/hostler/hostler/agent/erase"
	"github.com/hostler/hostler/agent/host"
	"github.com/hostler/hostler/taskcatalog"
)

// inspect opens the ledger of a state directory read-only and calls look. there is false if the
// directory has no ledger. No agent may run meanwhile, because an agent locks the file.
func inspect(dir string, preload bool, look func(db *bolt.DB, name string) error) (there bool, err error) {
	name := filepath.Join(dir, "ledger.db")
	if _, err := os.Stat(name); os.IsNotExist(err) {
		return false, nil
	}
	defer func() {
		// bbolt panics on overwritten pages.
		if p := recover(); p != nil {
			err = unavailable("cannot read %s: the ledger is damaged: %v", name, p)
		}
	}()
	db, err := bolt.Open(name, 0o600, &bolt.Options{Timeout: lockWait, ReadOnly: true, PreLoadFreelist: preload, NoStatistics: true})
	if err != nil {
		return true, unavailable("cannot open %s: %v", name, err)
	}
	defer func() { _ = db.Close() }()
	return true, look(db, name)
}

// Check returns why the ledger in a state directory cannot be used, and changes nothing. A missing
// ledger is usable. No agent may run.
func Check(dir string) error {
	_, err := inspect(dir, true, func(db *bolt.DB, name string) error {
		if err := readable(db, name); err != nil {
			return err
		}
		return wrap(db.View(func(tx *bolt.Tx) error {
			for damage := range tx.Check() {
				return damage
			}
			for _, bucket := range [][]byte{tasksBucket, accountsBucket, marksBucket, openBucket} {
				if tx.Bucket(bucket) == nil {
					return unavailable("the ledger has no bucket %s", bucket)
				}
			}
			return decodable(tx)
		}))
	})
	return err
}

// decodable refuses an intact file with entries that this agent cannot decode.
func decodable(tx *bolt.Tx) error {
	held := tx.Bucket(tasksBucket)
	err := held.ForEach(func(k, _ []byte) error {
		var e Entry
		if _, err := get(held, string(k), &e); err != nil {
			return err
		}
		if e.Task.TaskID != string(k) {
			return unavailable("entry %q belongs to another task", taskcatalog.Clean(string(k), 80))
		}
		return nil
	})
	if err != nil {
		return err
	}
	accounts := tx.Bucket(accountsBucket)
	err = accounts.ForEach(func(k, _ []byte) error {
		_, err := get(accounts, string(k), new(host.Account))
		return err
	})
	if err != nil {
		return err
	}
	if operations := tx.Bucket(operationsBucket); operations != nil { // an older agent's ledger has none
		if err := operations.ForEach(func(k, v []byte) error { _, err := operationOf(k, v); return err }); err != nil {
			return err
		}
	}
	marks := tx.Bucket(marksBucket)
	return marks.ForEach(func(k, _ []byte) error {
		var v any
		switch key := string(k); {
		case key == uidMark:
			v = new(uint32)
		case key == drainedMark:
			v = new(bool)
		case key == factsKey:
			v = new(taskcatalog.Facts)
		case key == lostMark:
			v = new(time.Time)
		case key == idMark:
			v = new(string)
		case key == stoppedMark, key == unnamedMark, key == persistentMark:
			v = new([]string)
		case strings.HasPrefix(key, overwriteMark):
			v = new(erase.Overwrite)
		default:
			return nil // an entry of a newer agent, or the form
		}
		_, err := get(marks, string(k), v)
		return err
	})
}

// FormIn returns the form of the ledger in a state directory; 1 if there is no ledger yet. No agent
// may run.
func FormIn(dir string) (form int, err error) {
	there, err := inspect(dir, false, func(db *bolt.DB, _ string) error {
		return wrap(db.View(func(tx *bolt.Tx) error {
			form, err = formOf(tx)
			return err
		}))
	})
	if err == nil && !there {
		form = 1
	}
	return form, err
}

// idMark holds the ledger's id: random text from the ledger's creation, so that a recreated ledger
// is recognised as another ledger.
const idMark = "id"

// ID returns the id of the ledger in a state directory; empty: there is no ledger, or no agent has
// opened it since ledgers have an id. No agent may run.
func ID(dir string) (id string, err error) {
	_, err = inspect(dir, false, func(db *bolt.DB, _ string) error {
		return wrap(db.View(func(tx *bolt.Tx) error {
			b := tx.Bucket(marksBucket)
			if b == nil {
				return nil
			}
			_, err := get(b, idMark, &id)
			return err
		}))
	})
	return id, err
}
