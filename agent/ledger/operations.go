package ledger

import (
	"encoding/binary"

	bolt "go.etcd.io/bbolt"

	"github.com/hostler/hostler/agent/host"
	"github.com/hostler/hostler/taskcatalog"
)

var _ host.Operations = (*Ledger)(nil)

var operationsBucket = []byte("operations")

// The bounds of what is kept of operations. Beyond them the operations written longest ago are
// dropped: a later task of such an operation looks at each of its steps anew.
const (
	maxOperations     = 64
	maxOperationBytes = 4 << 20
	maxOperation      = 2 << 20 // bytes of one
)

// writtenLen is the length of the number before each record: when it was written, by the bucket's
// own count.
const writtenLen = 8

// Operation returns the record of an operation; false: there is none.
func (l *Ledger) Operation(id string) (r host.OperationRecord, known bool, err error) {
	err = l.view(func(tx *bolt.Tx) error {
		raw := tx.Bucket(operationsBucket).Get([]byte(id))
		if known = raw != nil; !known {
			return nil
		}
		r, err = operationOf([]byte(id), raw)
		return err
	})
	return r, known, err
}

func operationOf(id, raw []byte) (r host.OperationRecord, err error) {
	if len(raw) < writtenLen {
		return r, unavailable("the record of operation %s is cut off", taskcatalog.Clean(string(id), 80))
	}
	return r, taskcatalog.DecodeLoose(raw[writtenLen:], &r)
}

// PutOperation replaces the record of an operation, and drops records that are too many.
func (l *Ledger) PutOperation(id string, r host.OperationRecord) error {
	raw, err := taskcatalog.Encode(r)
	if err != nil {
		return err
	}
	if len(raw) > maxOperation {
		return taskcatalog.Errorf(taskcatalog.CodeTooLarge, "the record of operation %s is larger than %d bytes",
			taskcatalog.Clean(id, 80), maxOperation)
	}
	return l.update(func(tx *bolt.Tx) error {
		b := tx.Bucket(operationsBucket)
		written, err := b.NextSequence()
		if err != nil {
			return err
		}
		if err := b.Put([]byte(id), append(binary.BigEndian.AppendUint64(nil, written), raw...)); err != nil {
			return err
		}
		for {
			oldest, over := oldestOperation(b)
			if !over {
				return nil
			}
			if err := b.Delete(oldest); err != nil {
				return err
			}
		}
	})
}

// oldestOperation returns the operation that was written longest ago, and whether the records are
// too many. The operation written last is within the bounds alone, so it is never dropped.
func oldestOperation(b *bolt.Bucket) (oldest []byte, over bool) {
	count, size, first := 0, 0, uint64(0)
	c := b.Cursor()
	for k, v := c.First(); k != nil; k, v = c.Next() {
		written := uint64(0)
		if len(v) >= writtenLen {
			written = binary.BigEndian.Uint64(v)
		}
		if count++; count == 1 || written < first {
			oldest, first = k, written
		}
		size += len(v)
	}
	return oldest, count > maxOperations || size > maxOperationBytes
}
