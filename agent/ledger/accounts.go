package ledger

import (
	bolt "go.etcd.io/bbolt"

	"github.com/hostler/hostler/agent/host"
	"github.com/hostler/hostler/taskcatalog"
)

var (
	_ host.Accounts = Accounts{}
	_ host.Marks    = (*Ledger)(nil)
)

// CodeNoUIDLeft is the code of a node that has assigned every uid.
const CodeNoUIDLeft taskcatalog.Code = "no_uid_left"

// The marks.
const (
	uidMark     = "last_uid"
	drainedMark = "drained"
)

// Accounts is the part of the ledger that records allocation users.
type Accounts struct{ ledger *Ledger }

// Accounts returns the record of allocation users.
func (l *Ledger) Accounts() Accounts { return Accounts{l} }

// NextUID returns a uid that this node has never assigned. The mark is on disk before NextUID
// returns.
func (a Accounts) NextUID() (uid uint32, err error) {
	err = a.ledger.update(func(tx *bolt.Tx) error {
		b := tx.Bucket(marksBucket)
		uid = host.FirstUID - 1
		if _, err := get(b, uidMark, &uid); err != nil {
			return err
		}
		if uid++; uid > host.LastUID {
			return taskcatalog.Errorf(CodeNoUIDLeft,
				"cannot assign a uid: this node has assigned all uids from %d to %d (reimage the node)", host.FirstUID, host.LastUID)
		}
		return put(b, uidMark, uid)
	})
	if err != nil {
		return 0, err
	}
	return uid, nil
}

// Put records the account of an allocation.
func (a Accounts) Put(account host.Account) error {
	return a.ledger.update(func(tx *bolt.Tx) error {
		return put(tx.Bucket(accountsBucket), account.AllocationID, account)
	})
}

// ByAllocation finds the account of an allocation.
func (a Accounts) ByAllocation(id string) (account host.Account, ok bool, err error) {
	err = a.ledger.view(func(tx *bolt.Tx) (err error) {
		ok, err = get(tx.Bucket(accountsBucket), id, &account)
		return err
	})
	return account, ok, err
}

// List returns every account, sorted by allocation.
func (a Accounts) List() (all []host.Account, err error) {
	err = a.ledger.view(func(tx *bolt.Tx) error {
		b := tx.Bucket(accountsBucket)
		return b.ForEach(func(k, _ []byte) error {
			var account host.Account
			if _, err := get(b, string(k), &account); err != nil {
				return err
			}
			all = append(all, account)
			return nil
		})
	})
	return all, err
}

// Delete removes an account; a missing account is no error. Its uid stays assigned.
func (a Accounts) Delete(allocationID string) error {
	return a.ledger.update(func(tx *bolt.Tx) error {
		return tx.Bucket(accountsBucket).Delete([]byte(allocationID))
	})
}

// Drained reports whether the node lets no new tenant in. An unreadable mark counts as set.
func (l *Ledger) Drained() bool {
	drained := false
	err := l.view(func(tx *bolt.Tx) error {
		_, err := get(tx.Bucket(marksBucket), drainedMark, &drained)
		return err
	})
	return drained || err != nil
}

// SetDrained sets or clears the mark.
func (l *Ledger) SetDrained(drained bool) error {
	return l.update(func(tx *bolt.Tx) error { return put(tx.Bucket(marksBucket), drainedMark, drained) })
}
