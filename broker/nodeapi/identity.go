package nodeapi

import (
	"crypto/tls"
	"net"
	"net/http"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/store"
	"github.com/hostler/hostler/broker/strangers"
	"github.com/hostler/hostler/pki"
	"github.com/hostler/hostler/taskcatalog"
)

// verifyConnection refuses invalid certificates before any request. It sees every connection,
// resumed sessions too. A connection without a certificate may enrol and fetch packages.
func (a *API) verifyConnection(cs tls.ConnectionState, from net.Addr) error {
	if len(cs.PeerCertificates) == 0 {
		return nil
	}
	_, err := a.verifyPeer(cs)
	if err != nil {
		code := string(taskcatalog.CodeOf(err, pki.CodeCertificateInvalid))
		a.c.Refused("connect", code)
		r := refusal{code: code, action: "connection.refused", subject: "certificate", reason: err.Error()}
		if from != nil {
			r.remote = hostOf(from.String())
		}
		if id, idErr := pki.NodeIdentityOf(cs.PeerCertificates[0]); idErr == nil {
			r.subject = "node/" + id.NodeID
			if code == string(pki.CodeCertificateDenied) { // the chain was valid
				r.actor = "node:" + id.NodeID
			}
		}
		a.refusals.record(a, r)
	}
	return err
}

func (a *API) verifyPeer(cs tls.ConnectionState) (*pki.Peer, error) {
	return pki.VerifyNodePeer(cs, a.c.Trust.Roots(), a.c.Now(), a.deny.refuses)
}

// identify makes the checks of the package's documentation, in their order.
func (a *API) identify(c *call, who admit) (any, error) {
	if a.deny.unknown(a.c.Now()) {
		return nil, denyListUnknownError()
	}
	if who == anyone {
		return nil, nil
	}
	peer, err := a.peer(c.r)
	if err != nil {
		return nil, forbidden(err)
	}
	c.peer = peer
	if a.deny.denied(peer.Serial) {
		return nil, a.deniedPeer(c, who)
	}
	if id := c.r.PathValue("id"); id != peer.NodeID {
		return nil, broker.Errorf(broker.Forbidden, string(taskcatalog.CodeWrongNode),
			"cannot act for node %s: the certificate belongs to node %s", taskcatalog.Clean(id, 40), peer.NodeID)
	}
	if a.c.Now().After(peer.Cert.NotAfter) && who != renewing {
		return nil, expiredError(peer)
	}
	if err := a.limitNode(c.w, peer.NodeID, who); err != nil {
		return nil, err
	}
	strangers.Vouch(c.r.Context(), peer.NodeID)
	restoredAt := a.deny.restored()
	if c.before, err = a.beforeRestore(c, who); err != nil || c.before {
		return nil, err
	}
	if c.node, err = a.contactOf(c, who); err != nil {
		return nil, err
	}
	if !a.deny.restored().Equal(restoredAt) { // restored meanwhile: the node may have been met as a current one
		a.contacts.forget()
		return nil, broker.Errorf(broker.Unavailable, "deny_list_unknown",
			"cannot answer: the broker's database has just been marked as restored from a backup (try again)")
	}
	return nil, nil
}

// peer returns the node at the other end. The chain is verified once per connection and again when
// the roots change. Checks whose result changes faster are made for each request.
func (a *API) peer(r *http.Request) (*pki.Peer, error) {
	if r.TLS == nil || len(r.TLS.PeerCertificates) == 0 {
		return nil, broker.Errorf(broker.Unauthorized, string(pki.CodeCertificateRequired),
			"cannot answer: the request came without a client certificate")
	}
	conn, _ := r.Context().Value(connectionKey{}).(*connection)
	roots := a.c.Trust.Roots()
	if conn != nil && conn.peer != nil && conn.roots == roots {
		return conn.peer, nil
	}
	peer, err := a.verifyPeer(*r.TLS)
	if err == nil && conn != nil {
		conn.peer, conn.roots = peer, roots
	}
	return peer, err
}

// deniedPeer is the refusal of a denied certificate. A certificate from before the machine was given
// back is also recorded as a previous system's.
func (a *API) deniedPeer(c *call, who admit) error {
	p := c.peer
	switch reason, _ := a.deny.reason(p.Serial); reason {
	case store.DenyRotated:
		return a.refuseOldKey(c, who)
	case store.DenyReleased:
		if !a.requests.allow(p.Serial, a.c.Now()) { // a share apart from the node's own
			return deniedError(p)
		}
		if err := a.c.DB.PreviousSystem(c.r.Context(), p.NodeID, p.Serial, remoteHost(c.r)); err != nil {
			return err
		}
	}
	return deniedError(p)
}

// recheck repeats the checks of identify whose result may have changed while a poll waited.
func (a *API) recheck(p *pki.Peer) error {
	now := a.c.Now()
	switch {
	case a.deny.unknown(now):
		return denyListUnknownError()
	case a.deny.denied(p.Serial):
		return deniedError(p)
	case now.After(p.Cert.NotAfter):
		return expiredError(p)
	}
	return nil
}

func denyListUnknownError() error {
	e := broker.Errorf(broker.Unavailable, "deny_list_unknown",
		"cannot answer: the deny list could not be read for %v (check the database)", denyListGrace)
	e.RetryAfter = 5 * time.Second
	return e
}

func expiredError(p *pki.Peer) error {
	return broker.Errorf(broker.Forbidden, string(pki.CodeCertificateExpired),
		"cannot act for node %s: its certificate expired at %s (renew it)", p.NodeID, stamp(p.Cert.NotAfter))
}

func deniedError(p *pki.Peer) error {
	return broker.Errorf(broker.Forbidden, string(pki.CodeCertificateDenied),
		"cannot act for node %s: certificate %s is denied (enrol the node again)", p.NodeID, p.Serial)
}

// forbidden turns a refusal of package pki into a *broker.Error of kind Forbidden.
func forbidden(err error) error {
	if code := taskcatalog.CodeOf(err, ""); code != "" {
		return broker.Errorf(broker.Forbidden, string(code), "%v", err)
	}
	return err
}
