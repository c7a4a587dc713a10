package ledger

import (
	"slices"

	bolt "go.etcd.io/bbolt"

	"github.com/hostler/hostler/agent/scrub"
)

var _ scrub.Stopped = (*Ledger)(nil)

const (
	stoppedMark = "stopped_units"
	unnamedMark = "unnamed_units"

	persistentMark = "persistence_off"
)

// PutStopped records a unit before it is stopped.
func (l *Ledger) PutStopped(unit string) error { return l.putUnit(stoppedMark, unit) }

// DeleteStopped removes a unit that runs again.
func (l *Ledger) DeleteStopped(unit string) error { return l.deleteUnit(stoppedMark, unit) }

// StoppedUnits are the units to be started again, in the order in which they were stopped.
func (l *Ledger) StoppedUnits() ([]string, error) { return l.units(stoppedMark) }

// PutUnnamed records a unit before it is stopped for good.
func (l *Ledger) PutUnnamed(unit string) error { return l.putUnit(unnamedMark, unit) }

// UnnamedUnits are the units that the last scrub stopped for good.
func (l *Ledger) UnnamedUnits() ([]string, error) { return l.units(unnamedMark) }

// ForgetUnnamed removes the unnamed units, because a new scrub has begun.
func (l *Ledger) ForgetUnnamed() error {
	return l.changeUnits(unnamedMark, func([]string) []string { return nil })
}

// PutPersistent records a GPU before its persistence mode is switched off.
func (l *Ledger) PutPersistent(uuid string) error { return l.putUnit(persistentMark, uuid) }

// PersistentGPUs are the GPUs whose persistence mode is to be switched on again.
func (l *Ledger) PersistentGPUs() ([]string, error) { return l.units(persistentMark) }

// DeletePersistent removes a GPU whose persistence mode is on again.
func (l *Ledger) DeletePersistent(uuid string) error { return l.deleteUnit(persistentMark, uuid) }

func (l *Ledger) units(mark string) (units []string, err error) {
	err = l.view(func(tx *bolt.Tx) error {
		_, err := get(tx.Bucket(marksBucket), mark, &units)
		return err
	})
	return units, err
}

func (l *Ledger) putUnit(mark, unit string) error {
	return l.changeUnits(mark, func(units []string) []string {
		if slices.Contains(units, unit) {
			return units
		}
		return append(units, unit)
	})
}

func (l *Ledger) deleteUnit(mark, unit string) error {
	return l.changeUnits(mark, func(units []string) []string {
		return slices.DeleteFunc(units, func(u string) bool { return u == unit })
	})
}

func (l *Ledger) changeUnits(mark string, change func([]string) []string) error {
	return l.update(func(tx *bolt.Tx) error {
		var units []string
		if _, err := get(tx.Bucket(marksBucket), mark, &units); err != nil {
			return err
		}
		return put(tx.Bucket(marksBucket), mark, change(units))
	})
}
