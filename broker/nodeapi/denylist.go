package nodeapi

import (
	"context"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/hostler/hostler/broker/store"
)

const (
	denyListReread = 2 * time.Second
	denyListGrace  = 10 * time.Second // unread for longer, it is not known any more
)

// denyList is the certificates that are refused, as they were last read.
type denyList struct {
	mu      sync.RWMutex
	serials map[string]string // to the reason
	readAt  time.Time
}

func (d *denyList) denied(serial string) bool {
	d.mu.RLock()
	defer d.mu.RUnlock()
	_, ok := d.serials[serial]
	return ok
}

// unknown reports whether the list was last read too long ago.
func (d *denyList) unknown(now time.Time) bool {
	d.mu.RLock()
	defer d.mu.RUnlock()
	return now.Sub(d.readAt) > denyListGrace
}

func (d *denyList) replace(serials map[string]string, readAt time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.serials, d.readAt = serials, readAt
}

// readDenyList takes the list as the database has it now, and ends the polls of
// those on it.
func (a *API) readDenyList(ctx context.Context) error {
	at := a.c.Now()                                               // before the reading: what changes during it may be missed
	serials, err := a.c.DB.DenyList(ctx, at.Add(-a.c.RenewGrace)) // one from before that may not even renew
	if err != nil {
		return err
	}
	a.deny.replace(serials, at)
	a.polls.endDenied(serials) // after replacing: a poll that joins now looks itself
	return nil
}

// followDenyList reads the list on each hint and every two seconds.
func (a *API) followDenyList(ctx context.Context) {
	hints := a.c.DB.Hints(ctx)
	tick := time.NewTicker(denyListReread)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case h, open := <-hints:
			if !open {
				hints = nil // the database was closed
			}
			if h.Kind != store.HintDeny {
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
