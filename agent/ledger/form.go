package ledger

import (
	"os"
	"path/filepath"

	bolt "go.etcd.io/bbolt"

	"github.com/hostler/hostler/taskcatalog"
	"github.com/hostler/hostler/taskcatalog/release"
)

// CodeTooNew is the code of a ledger that a newer agent has written.
const CodeTooNew taskcatalog.Code = "state_too_new"

const formMark = "form"

// Form is the form of the ledger: that of the state in a release's statement. It is
// raised by whoever changes what older agents read, once it is known that this version
// stays.
func (l *Ledger) Form() (form int, err error) {
	err = l.view(func(tx *bolt.Tx) error {
		form, err = formOf(tx)
		return err
	})
	return form, err
}

// formOf reads the form. A ledger from before it was written is of the first.
func formOf(tx *bolt.Tx) (int, error) {
	form := 1
	b := tx.Bucket(marksBucket)
	if b == nil {
		return form, nil
	}
	_, err := get(b, formMark, &form)
	return form, err
}

// readable refuses a ledger whose form this agent does not read, before anything in it
// is changed.
func readable(db *bolt.DB, name string) error {
	return wrap(db.View(func(tx *bolt.Tx) error {
		form, err := formOf(tx)
		if err == nil && !release.State.Reads(form) {
			err = taskcatalog.Errorf(CodeTooNew, "cannot use %s: it is of form %d, and this agent reads %d to %d (run the version that wrote it, or a newer one)",
				name, form, release.State.ReadsMin, release.State.ReadsMax)
		}
		return err
	}))
}

// Check returns why the ledger in a state directory cannot be used, and changes
// nothing. One that is not there can be. No agent may run.
func Check(dir string) (err error) {
	name := filepath.Join(dir, "ledger.db")
	if _, err := os.Stat(name); os.IsNotExist(err) {
		return nil
	}
	defer func() {
		// bbolt does not expect that its pages were overwritten.
		if p := recover(); p != nil {
			err = unavailable("cannot read %s: it is damaged: %v", name, p)
		}
	}()
	db, err := bolt.Open(name, 0o600, &bolt.Options{Timeout: lockWait, ReadOnly: true, PreLoadFreelist: true, NoStatistics: true})
	if err != nil {
		return unavailable("cannot open %s: %v", name, err)
	}
	defer func() { _ = db.Close() }()
	if err := readable(db, name); err != nil {
		return err
	}
	return wrap(db.View(func(tx *bolt.Tx) error {
		for damage := range tx.Check() {
			return damage
		}
		for _, bucket := range [][]byte{tasksBucket, accountsBucket, marksBucket, openBucket} {
			if tx.Bucket(bucket) == nil {
				return unavailable("it has no %s", bucket)
			}
		}
		return nil
	}))
}

// FormIn is the form of the ledger in a state directory; 1 where there is none yet. No
// agent may run: it keeps the file to itself.
func FormIn(dir string) (form int, err error) {
	name := filepath.Join(dir, "ledger.db")
	if _, err := os.Stat(name); os.IsNotExist(err) {
		return 1, nil
	}
	db, err := bolt.Open(name, 0o600, &bolt.Options{Timeout: lockWait, ReadOnly: true, NoStatistics: true})
	if err != nil {
		return 0, unavailable("cannot open %s: %v", name, err)
	}
	defer func() { _ = db.Close() }()
	return form, wrap(db.View(func(tx *bolt.Tx) error {
		form, err = formOf(tx)
		return err
	}))
}
