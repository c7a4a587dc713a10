package nodeapi

import (
	"context"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/store"
	"github.com/hostler/hostler/pki"
	"github.com/hostler/hostler/taskcatalog/wire"
)

const (
	restoredUndecided = "restored_undecided"
	// undecidedAgain is the number of seconds after which an undecided node asks again.
	undecidedAgain = "30"
)

// beforeRestore reports whether a certificate is from before the last restore of the database. To
// its node such a certificate counts as expired, and agents answer an expired certificate with a
// renewal.
func (a *API) beforeRestore(c *call, who admit) (bool, error) {
	if a.deny.restored().IsZero() || a.recentlySeen(c.peer) {
		return false, nil
	}
	before, err := a.c.DB.BeforeRestore(c.r.Context(), c.peer.Serial)
	if err != nil || !before || who == renewing {
		return before, err
	}
	return true, broker.Errorf(broker.Forbidden, string(pki.CodeCertificateExpired),
		"cannot act for node %s: its certificate was issued before the broker's database was restored from a backup (renew the certificate)", c.peer.NodeID)
}

// BeforeRestore reports whether a certificate is from before the last restore of the database.
// Without any restore the database is not asked.
func (a *API) BeforeRestore(ctx context.Context, serial string) (bool, error) {
	if a.deny.restored().IsZero() {
		return false, nil
	}
	return a.c.DB.BeforeRestore(ctx, serial)
}

// recentlySeen reports whether the certificate's node was let in with this certificate a moment
// ago.
func (a *API) recentlySeen(p *pki.Peer) bool {
	a.contacts.mu.Lock()
	defer a.contacts.mu.Unlock()
	n := a.contacts.nodes[p.NodeID]
	return n != nil && n.serial == p.Serial && broker.Elapsed(a.c.Now(), n.readAt) < recheckEvery
}

// forget makes the broker look at every node anew.
func (s *contacts) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.nodes = map[string]*contact{}
}

// renewRestored answers a renewal with a certificate from before the restore.
func (a *API) renewRestored(c *call, asked store.Renewal, said int64) (any, error) {
	_, err := a.c.DB.RenewRestored(c.r.Context(), store.RestoredRenewal{
		Renewal: asked, Since: c.peer.Cert.NotBefore.Add(pki.Backdate),
		Said: said,
	})
	if err != nil {
		if broker.AsError(err).Code == restoredUndecided {
			c.w.Header().Set("Retry-After", undecidedAgain)
		}
		return nil, err
	}
	return wire.RenewReply{Certificate: asked.Cert.PEM, Late: asked.Late, Now: a.c.Now().UTC()}, nil
}

// held reports whether the database was restored and is not yet released.
func (a *API) held(ctx context.Context) (bool, error) {
	if a.deny.restored().IsZero() {
		return false, nil
	}
	last, err := a.c.DB.LastRestore(ctx)
	return last.Held(), err
}
