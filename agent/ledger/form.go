package ledger

import (
	bolt "go.etcd.io/bbolt"

	"github.com/hostler/hostler/taskcatalog"
	"github.com/hostler/hostler/taskcatalog/release"
)

// CodeTooNew is the code of a ledger written by a newer agent.
const CodeTooNew taskcatalog.Code = "state_too_new"

const formMark = "form"

// Form is the form of the ledger: the form of the state in a release's statement. A change that
// older agents cannot read raises it, once this version is confirmed to stay.
func (l *Ledger) Form() (form int, err error) {
	err = l.view(func(tx *bolt.Tx) error {
		form, err = formOf(tx)
		return err
	})
	return form, err
}

// formOf reads the form. A ledger without a stored form has the first form.
func formOf(tx *bolt.Tx) (int, error) {
	form := 1
	b := tx.Bucket(marksBucket)
	if b == nil {
		return form, nil
	}
	_, err := get(b, formMark, &form)
	return form, err
}

// readable refuses a ledger of a form that this agent does not read, before anything is changed.
func readable(db *bolt.DB, name string) error {
	return wrap(db.View(func(tx *bolt.Tx) error {
		form, err := formOf(tx)
		if err == nil && !release.State.Reads(form) {
			err = taskcatalog.Errorf(CodeTooNew,
				"cannot use %s: the ledger has form %d, and this agent reads %d to %d (run the agent version that wrote the ledger, or a newer one)",
				name, form, release.State.ReadsMin, release.State.ReadsMax)
		}
		return err
	}))
}
