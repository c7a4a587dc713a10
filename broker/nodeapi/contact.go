package nodeapi

import (
	"context"
	"strconv"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/pki"
	"github.com/hostler/hostler/taskcatalog/wire"
)

const (
	recheckEvery = time.Minute // how long a node's record in memory is valid
	askEvery     = time.Minute // how often a node is asked for its report
	maxPolls     = 4           // of one node at a time
)

// contact is the broker's memory of a node that it has heard.
type contact struct {
	serial  string // of the certificate in use
	epoch   int64
	readAt  time.Time // when its record was read
	heardAt time.Time
	trust   int64     // bundle version that the node claims
	report  string    // digest of the report on record
	askedAt time.Time // when the node was last asked for its report
	sentAt  time.Time // when the node was last sent the trust bundle
	sent    int64     // the bundle version that was sent
	polls   int       // waiting polls
	// instance is the running agent that polled last. told says that the database confirmed the
	// instance since the record was read.
	instance string
	told     bool
}

// contacts holds all contacts, and the times when nodes were heard since the last write.
type contacts struct {
	mu    sync.Mutex
	nodes map[string]*contact
	heard map[string]time.Time
}

func newContacts() contacts {
	return contacts{nodes: map[string]*contact{}, heard: map[string]time.Time{}}
}

func (s *contacts) touch(n *contact, nodeID string, at time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n.heardAt, s.heard[nodeID] = at, at
}

// beginPoll counts a node's waiting polls. A node that opens many polls only harms itself.
func (s *contacts) beginPoll(n *contact) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n.polls >= maxPolls {
		return false
	}
	n.polls++
	return true
}

func (s *contacts) endPoll(n *contact, nodeID string, at time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n.polls--
	n.heardAt, s.heard[nodeID] = at, at
}

// known returns the contact if its record is still valid, or nil, and whether the enrolment was
// heard before.
func (s *contacts) known(p *pki.Peer, now time.Time) (n *contact, heard bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n = s.nodes[p.NodeID]
	heard = n != nil && n.epoch == p.Epoch
	if heard && n.serial == p.Serial && broker.Elapsed(now, n.readAt) < recheckEvery {
		return n, true
	}
	return nil, heard
}

// contactOf returns the contact of the peer's node and notes that the node was heard. On the first
// request with a certificate contactOf reads the node's record and does the work of a first
// contact.
func (a *API) contactOf(c *call, who admit) (*contact, error) {
	now, p := a.c.Now(), c.peer
	n, _ := a.contacts.known(p, now)
	if n == nil {
		var err error
		if n, err = a.admitContact(c.r.Context(), p, who != polling); err != nil {
			return nil, err
		}
	}
	a.contacts.touch(n, p.NodeID, now)
	return n, a.followTrust(c.r, p, n)
}

func supersededError(p *pki.Peer) error {
	return broker.Errorf(broker.Forbidden, "epoch_superseded",
		"cannot act for node %s: certificate %s belongs to enrolment %d, and the node has enrolled again since", p.NodeID, p.Serial,
		p.Epoch)
}

// firstContact reads the record of a node that shows a certificate here for the first time, or
// again after a while. heard says that the broker has heard this enrolment before.
func (a *API) firstContact(ctx context.Context, p *pki.Peer, heard bool) (*contact, error) {
	node, err := a.c.DB.Node(ctx, p.NodeID)
	if err != nil {
		return nil, err
	}
	if node.Status == broker.Deleted {
		return nil, broker.Errorf(broker.Forbidden, "node_deleted", "cannot act for node %s: the node was removed (create a new node)",
			p.NodeID)
	}
	if p.Epoch < node.Epoch {
		return nil, supersededError(p)
	}
	if !heard {
		if _, err := a.c.DB.FirstContact(ctx, p.NodeID, p.Epoch, p.Serial); err != nil {
			return nil, err
		}
	}
	if _, err := a.c.DB.RotationUsed(ctx, p.NodeID, p.Epoch, p.Serial); err != nil {
		return nil, err
	}
	if node.Status == broker.Enrolling {
		if err := a.requestBaseline(ctx, p); err != nil {
			// The node stays as it is. The next reading of its record asks for the baseline again.
			a.c.Log.Warn("cannot ask a new node for its baseline", zap.String("node", p.NodeID), zap.Error(err))
		}
	}
	a.contacts.mu.Lock()
	defer a.contacts.mu.Unlock()
	n := a.contacts.nodes[p.NodeID]
	if n == nil {
		n = new(contact)
		a.contacts.nodes[p.NodeID] = n
	}
	n.serial, n.epoch, n.readAt, n.told = p.Serial, p.Epoch, a.c.Now(), false
	n.trust, n.report = node.TrustVersion, node.ReportDigest
	return n, nil
}

// wantsReport reports whether a node must be asked for a renewal: its report has changed, or a CA
// that is being phased out signed its certificate. A node is asked at most once every askEvery.
func (a *API) wantsReport(c *call) bool {
	digest := c.r.Header.Get(wire.HeaderReport)
	now := a.c.Now()
	a.contacts.mu.Lock()
	defer a.contacts.mu.Unlock()
	changed := digest != "" && digest != c.node.report
	if !changed && a.c.Trust.ByNewestCA(c.peer.Cert) || now.Sub(c.node.askedAt) < askEvery {
		return false
	}
	c.node.askedAt = now
	return true
}

// trustHeader returns the bundle version that a request claims, or 0.
func trustHeader(value string) int64 {
	v, err := strconv.ParseInt(value, 10, 64)
	if err != nil || v < 1 {
		return 0
	}
	return v
}

// reported notes the report that came with a renewal.
func (s *contacts) reported(n *contact, digest string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n.report = digest
}
