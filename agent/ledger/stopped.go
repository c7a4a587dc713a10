package ledger

import (
	"slices"

	bolt "go.etcd.io/bbolt"

	"github.com/hostler/hostler/agent/scrub"
)

var _ scrub.Stopped = (*Ledger)(nil)

const stoppedMark = "stopped_units"

// PutStopped records a unit before it is stopped.
func (l *Ledger) PutStopped(unit string) error {
	return l.changeStopped(func(units []string) []string {
		if slices.Contains(units, unit) {
			return units
		}
		return append(units, unit)
	})
}

// DeleteStopped forgets a unit that runs again.
func (l *Ledger) DeleteStopped(unit string) error {
	return l.changeStopped(func(units []string) []string {
		return slices.DeleteFunc(units, func(u string) bool { return u == unit })
	})
}

// StoppedUnits are those that are to be started again, in the order in which they
// were stopped.
func (l *Ledger) StoppedUnits() (units []string, err error) {
	err = l.view(func(tx *bolt.Tx) error {
		_, err := get(tx.Bucket(marksBucket), stoppedMark, &units)
		return err
	})
	return units, err
}

func (l *Ledger) changeStopped(change func([]string) []string) error {
	return l.update(func(tx *bolt.Tx) error {
		var units []string
		if _, err := get(tx.Bucket(marksBucket), stoppedMark, &units); err != nil {
			return err
		}
		return put(tx.Bucket(marksBucket), stoppedMark, change(units))
	})
}
