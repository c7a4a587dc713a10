package ledger

import (
	bolt "go.etcd.io/bbolt"

	"github.com/hostler/hostler/taskcatalog"
)

const factsKey = "facts"

// Facts returns the facts seen last, if any: while a tenant is on the node the GPUs are not
// queried.
func (l *Ledger) Facts() (f taskcatalog.Facts, ok bool, err error) {
	err = l.view(func(tx *bolt.Tx) error {
		ok, err = get(tx.Bucket(marksBucket), factsKey, &f)
		return err
	})
	return f, ok, err
}

// SetFacts stores the facts for the time of a tenant.
func (l *Ledger) SetFacts(f taskcatalog.Facts) error {
	return l.update(func(tx *bolt.Tx) error { return put(tx.Bucket(marksBucket), factsKey, f) })
}
