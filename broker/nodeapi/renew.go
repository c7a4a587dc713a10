package nodeapi

import (
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/store"
	"github.com/hostler/hostler/pki"
	"github.com/hostler/hostler/taskcatalog"
	"github.com/hostler/hostler/taskcatalog/wire"
)

const maxTaskID = 64

// renew gives a node a new certificate for its present key, or for another key if a task of the
// node orders a new key. An expired certificate may renew within the grace, so that a node that was
// off for a while comes back by itself.
func (a *API) renew(c *call) (any, error) {
	var req wire.RenewRequest
	if err := c.decode(&req); err != nil {
		return nil, err
	}
	csr, err := pki.ParseCSR([]byte(req.CSR))
	if err != nil {
		return nil, err
	}
	report, err := reportOf(req.AgentVersion, req.TaskTypes, req.Capabilities, req.Facts, req.Agent)
	if err != nil {
		return nil, err
	}
	if req.TrustVersion < 0 {
		return nil, taskcatalog.Errorf(taskcatalog.CodeMalformed, "cannot renew: %d is not a version of a trust bundle", req.TrustVersion)
	}
	now, old := a.c.Now(), c.peer.Cert
	late := now.After(old.NotAfter)
	if end := old.NotAfter.Add(a.c.RenewGrace); now.After(end) {
		return nil, broker.Errorf(broker.Forbidden, "renew_grace_over",
			"cannot renew the certificate of node %s: the certificate expired at %s and could be renewed until %s (enrol the node again)",
			c.peer.NodeID, stamp(old.NotAfter), stamp(end))
	}
	digest, err := pki.PublicKeyDigest(csr.PublicKey)
	if err != nil {
		return nil, err
	}
	if len(req.RotationTask) > maxTaskID {
		return nil, taskcatalog.Errorf(taskcatalog.CodeMalformed, "cannot renew: not a task id")
	}
	if certified, err := pki.PublicKeyDigest(old.PublicKey); (req.RotationTask == "" || c.before) && (err != nil || digest != certified) {
		return nil, broker.Errorf(broker.Forbidden, "renew_key_changed",
			"cannot renew the certificate of node %s: the request is for another key (renew with the certified key, or enrol again)",
			c.peer.NodeID)
	}
	issued, err := a.issue(csr, c.peer.NodeIdentity, renewalDate(now, old.NotBefore.Add(pki.Backdate)))
	if err != nil {
		return nil, err
	}
	asked := store.Renewal{
		NodeID: c.peer.NodeID, Epoch: c.peer.Epoch, OldSerial: c.peer.Serial, PublicKeyDigest: digest, Cert: issued,
		Report: report, TrustVersion: min(req.TrustVersion, a.c.Trust.Version()), Late: late, Remote: remoteHost(c.r),
	}
	if c.before {
		return a.renewRestored(c, asked, req.TrustVersion)
	}
	if req.RotationTask != "" {
		issued, err = a.c.DB.Rotate(c.r.Context(), req.RotationTask, asked)
	} else {
		_, err = a.c.DB.RecordRenewal(c.r.Context(), asked)
	}
	if err != nil {
		return nil, inAudit(err)
	}
	a.contacts.reported(c.node, report.Digest)
	return wire.RenewReply{Certificate: issued.PEM, Late: late, Now: now.UTC()}, nil
}

// renewalDate is the date of a renewal, never earlier than the date of the certificate being
// renewed. A broker whose clock is ahead may have issued the old certificate, and a certificate
// dated before the node's identity signs no evidence.
func renewalDate(now, before time.Time) time.Time {
	if before.After(now) {
		return before
	}
	return now
}
