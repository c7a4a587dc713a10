package ledger

import (
	bolt "go.etcd.io/bbolt"

	"github.com/hostler/hostler/taskcatalog"
)

const factsKey = "facts"

// Facts are those seen last, and whether there are any: while a tenant is on the
// node nobody asks the GPUs.
func (l *Ledger) Facts() (f taskcatalog.Facts, ok bool, err error) {
	err = l.view(func(tx *bolt.Tx) error {
		ok, err = get(tx.Bucket(marksBucket), factsKey, &f)
		return err
	})
	return f, ok, err
}

// SetFacts keeps them for the time of a tenant.
func (l *Ledger) SetFacts(f taskcatalog.Facts) error {
	return l.update(func(tx *bolt.Tx) error { return put(tx.Bucket(marksBucket), factsKey, f) })
}
