package agenttest

import (
	"crypto/x509"
	"net/http"

	"github.com/hostler/hostler/pki"
	"github.com/hostler/hostler/taskcatalog"
	"github.com/hostler/hostler/taskcatalog/wire"
)

// rotation is a new key for a node, requested by a task.
type rotation struct {
	task, nodeID string
	key          string
	cert, serial string
	used, void   bool
}

// openRotation returns the node's rotation whose certificate was not shown yet.
func (b *Broker) openRotation(nodeID string) *rotation {
	for _, r := range b.rotations {
		if r.nodeID == nodeID && !r.used && !r.void {
			return r
		}
	}
	return nil
}

// rotate answers a request for another key as a broker does.
func (b *Broker) rotate(csr *x509.CertificateRequest, peer *pki.Peer, task, key string) (any, *wire.Problem) {
	q, r := b.find(peer.NodeID, task), b.rotations[task]
	switch {
	case q == nil:
		return nil, problem(http.StatusNotFound, "task_not_found", "no such task")
	case q.Payload.Type != "node.rotate_identity":
		return nil, problem(http.StatusConflict, "not_a_rotation", "it is another task")
	case r != nil && (r.used || r.void):
		return nil, problem(http.StatusConflict, "rotation_over", "it is over")
	case r != nil && r.key != key:
		b.t.Errorf("node %s asks for a second key with task %s", peer.NodeID, task)
		return nil, problem(http.StatusForbidden, "identity_conflict", "another key")
	case q.Result != nil:
		if r != nil {
			b.void(r)
		}
		return nil, problem(http.StatusConflict, "rotation_over", "the task has ended")
	case r == nil && !b.Clock().Before(q.leaseUntil):
		return nil, problem(http.StatusConflict, "lease_lost", "the lease is over")
	case r == nil:
		r = &rotation{task: task, nodeID: peer.NodeID, key: key, cert: b.issue(csr, peer.NodeIdentity)}
		certs, err := pki.ParseCerts([]byte(r.cert))
		if err != nil {
			b.t.Error(err)
			return nil, problem(http.StatusInternalServerError, taskcatalog.CodeMalformed, err.Error())
		}
		r.serial = pki.Serial(certs[0])
		b.rotations[task] = r
	}
	return wire.RenewReply{Certificate: r.cert, Now: b.Clock()}, nil
}

// heard puts a new key in force at the first request with it, and denies the node's other
// certificates.
func (b *Broker) heard(peer *pki.Peer) {
	r := b.openRotation(peer.NodeID)
	if r == nil || r.serial != peer.Serial {
		return
	}
	r.used = true
	b.Rotations++
	for serial, nodeID := range b.issued {
		if nodeID == peer.NodeID && serial != peer.Serial {
			b.Denied[serial] = true
		}
	}
	b.changed() // their polls end
}

// ended voids a new key whose task did not succeed.
func (b *Broker) ended(q *Task) {
	if r := b.rotations[q.ID]; r != nil && !r.used && q.Result.Outcome != taskcatalog.OutcomeSucceeded {
		b.void(r)
	}
}

func (b *Broker) void(r *rotation) {
	r.void = true
	b.Denied[r.serial] = true
}
