package ledger

import (
	bolt "go.etcd.io/bbolt"

	"github.com/hostler/hostler/agent/erase"
)

var _ erase.Overwrites = (*Ledger)(nil)

const overwriteMark = "overwrite/" // and the disk

// Overwrite returns the progress of a disk's unfinished overwrite.
func (l *Ledger) Overwrite(disk string) (o erase.Overwrite, ok bool, err error) {
	err = l.view(func(tx *bolt.Tx) error {
		ok, err = get(tx.Bucket(marksBucket), overwriteMark+disk, &o)
		return err
	})
	return o, ok, err
}

// PutOverwrite records an overwrite's progress.
func (l *Ledger) PutOverwrite(disk string, o erase.Overwrite) error {
	return l.update(func(tx *bolt.Tx) error { return put(tx.Bucket(marksBucket), overwriteMark+disk, o) })
}

// DeleteOverwrite deletes the record of an overwrite; a missing record is no error.
func (l *Ledger) DeleteOverwrite(disk string) error {
	return l.update(func(tx *bolt.Tx) error { return tx.Bucket(marksBucket).Delete([]byte(overwriteMark + disk)) })
}
