package nodeapi

import (
	"go.uber.org/zap"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/store"
	"github.com/hostler/hostler/pki"
	"github.com/hostler/hostler/taskcatalog/wire"
)

// checkInstance notes which running agent polls. checkInstance asks the database when the instance
// differs from this node's last poll here, and when the node's record is read again, because the
// other instance may poll at another broker. A conflict concerns the node, not the poll: the poll
// continues.
func (a *API) checkInstance(c *call) error {
	id := "" // of an agent that sends no id yet
	if said := c.r.Header.Values(wire.HeaderInstance); len(said) == 1 && wire.ValidInstance(said[0]) {
		id = said[0]
	} else if len(said) > 0 {
		return broker.Errorf(broker.Invalid, "bad_instance",
			"cannot wait for node %s: the header %s must be one id of 32 lower-case hexadecimal digits, or absent", c.peer.NodeID,
			wire.HeaderInstance)
	}
	a.contacts.mu.Lock()
	same := c.node.told && c.node.instance == id
	a.contacts.mu.Unlock()
	if same {
		return nil
	}
	judged, conflict, err := a.c.DB.Polled(c.r.Context(), store.Poll{
		NodeID: c.peer.NodeID, Epoch: c.peer.Epoch, Instance: id, Remote: remoteHost(c.r), Came: c.arrivedAt,
	})
	if err != nil {
		return err
	}
	if conflict {
		a.c.Log.Error("two agents poll with the identity of one node", zap.String("node", c.peer.NodeID),
			zap.String("remote", remoteHost(c.r)))
	}
	a.contacts.mu.Lock()
	defer a.contacts.mu.Unlock()
	c.node.instance, c.node.told = id, judged
	return nil
}

// refuseOldKey is the refusal of a certificate that a rotation has replaced. A renewal with that
// certificate is also an identity conflict: the node itself has no key for it any more.
func (a *API) refuseOldKey(c *call, who admit) error {
	p := c.peer
	if who != renewing || c.r.PathValue("id") != p.NodeID {
		return broker.Errorf(broker.Forbidden, string(pki.CodeCertificateDenied),
			"cannot act for node %s: certificate %s is denied, because a rotation gave the node another key", p.NodeID, p.Serial)
	}
	if err := a.limitNode(c.w, p.NodeID, who); err != nil {
		return err
	}
	return inAudit(a.c.DB.OldKeyRenews(c.r.Context(), p.NodeID, p.Serial, remoteHost(c.r)))
}
