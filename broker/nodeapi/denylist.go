package nodeapi

import (
	"context"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/store"
)

const (
	denyListReread = 2 * time.Second
	denyListGrace  = 10 * time.Second // a list unread for longer is unknown
)

// denyList holds the refused certificates, as last read.
type denyList struct {
	mu      sync.RWMutex
	serials map[string]string // to the reason
	readAt  time.Time
	// restoredAt is the time of the database's last restore from a backup, read together with the
	// list: certificates may be older than the restore. Zero: never.
	restoredAt time.Time
}

// Denied reports whether a certificate is on the deny list, as last read.
func (a *API) Denied(serial string) bool { return a.deny.denied(serial) }

func (d *denyList) denied(serial string) bool {
	_, ok := d.reason(serial)
	return ok
}

func (d *denyList) reason(serial string) (string, bool) {
	d.mu.RLock()
	defer d.mu.RUnlock()
	reason, ok := d.serials[serial]
	return reason, ok
}

// refuses reports whether a certificate gets no connection.
func (d *denyList) refuses(serial string) bool {
	reason, ok := d.reason(serial)
	return ok && !store.DeniedButAnswered(reason)
}

// unknown reports whether the last reading of the list is too old.
func (d *denyList) unknown(now time.Time) bool {
	d.mu.RLock()
	defer d.mu.RUnlock()
	return broker.Elapsed(now, d.readAt) > denyListGrace
}

// restored is the time of the database's last restore from a backup; zero: never.
func (d *denyList) restored() time.Time {
	d.mu.RLock()
	defer d.mu.RUnlock()
	return d.restoredAt
}

// replace takes a reading of the list, unless a later reading is already there. replace reports
// whether a restore happened since the previous reading.
func (d *denyList) replace(serials map[string]string, restoredAt, readAt time.Time) (restored bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if readAt.Before(d.readAt) {
		return false
	}
	restored = !d.readAt.IsZero() && !restoredAt.Equal(d.restoredAt)
	d.serials, d.restoredAt, d.readAt = serials, restoredAt, readAt
	return restored
}

// readDenyList reads the list from the database, and ends the polls of the denied certificates.
func (a *API) readDenyList(ctx context.Context) error {
	at := a.c.Now()                                               // before the reading: changes during the reading may be missed
	serials, err := a.c.DB.DenyList(ctx, at.Add(-a.c.RenewGrace)) // an older certificate may not even renew
	if err != nil {
		return err
	}
	last, err := a.c.DB.LastRestore(ctx)
	if err != nil {
		return err
	}
	if a.deny.replace(serials, last.RestoredAt, at) {
		a.contacts.forget() // the contacts are from before the restore
		a.polls.endAll()
	}
	a.polls.endDenied(serials) // after replace: a poll that joins now checks the list itself
	return nil
}

// followDenyList reads the list on each hint and every Reread, which is two seconds by default.
func (a *API) followDenyList(ctx context.Context) {
	hints := a.c.DB.Hints(ctx)
	tick := time.NewTicker(a.c.Reread)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case h, open := <-hints:
			if !open {
				hints = nil // the database was closed
			}
			if !h.Is(store.HintDeny) {
				continue
			}
		case <-tick.C:
		}
		reading, done := context.WithTimeout(ctx, denyListReread)
		if err := a.readDenyList(reading); err != nil && ctx.Err() == nil {
			a.c.Log.Warn("cannot read the deny list", zap.Error(err))
		}
		done()
	}
}
