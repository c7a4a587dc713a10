package nodeapi

import (
	"fmt"
	"net/http"
	"time"

	"go.uber.org/zap"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/taskqueue"
	"github.com/hostler/hostler/pki"
	"github.com/hostler/hostler/taskcatalog/wire"
)

// resendAfter is how long a node has to confirm a trust bundle before the bundle is sent again: as
// long as a task of that class may start.
const resendAfter = time.Hour

// followTrust notes which trust bundle a node claims to have, and sends the node the bundle in
// force if that is newer. Only connected nodes get the task, so that no node finds many of these
// tasks when it comes back.
func (a *API) followTrust(r *http.Request, p *pki.Peer, n *contact) error {
	said, newest, now := trustHeader(r.Header.Get(wire.HeaderTrustVersion)), a.c.Trust.Version(), a.c.Now()
	a.contacts.mu.Lock()
	confirm := said > n.trust && said <= newest
	if confirm {
		n.trust = said
	}
	send := n.trust < newest && (n.sent != newest || now.Sub(n.sentAt) >= resendAfter)
	if send {
		n.sent, n.sentAt = newest, now
	}
	a.contacts.mu.Unlock()

	if confirm {
		if err := a.c.DB.ConfirmTrust(r.Context(), p.NodeID, said); err != nil {
			return err
		}
	}
	if !send {
		return nil
	}
	_, _, err := a.c.Queue.Enqueue(r.Context(), broker.System, taskqueue.Request{
		NodeID: p.NodeID, Type: "node.trust_update",
		IdempotencyKey: fmt.Sprintf("trust-%d-%d-%d", newest, p.Epoch, now.Unix()/int64(resendAfter/time.Second)),
	})
	if err != nil {
		// The node's request succeeds all the same: another try follows after resendAfter.
		a.c.Log.Warn("cannot send the trust bundle", zap.String("node", p.NodeID), zap.Int64("version", newest), zap.Error(err))
	}
	return nil
}
