package identity

import (
	"context"
	"time"

	"github.com/hostler/hostler/pki"
	"github.com/hostler/hostler/taskcatalog"
	"github.com/hostler/hostler/taskcatalog/wire"
)

// RenewAt is when two thirds of the certificate's life are over.
func (m *Member) RenewAt() time.Time {
	from, to := m.Cert.Leaf.NotBefore, m.Cert.Leaf.NotAfter
	return from.Add(to.Sub(from) * 2 / 3)
}

// Renew gets a new certificate for the node's key. If the disk takes no writes, the certificate is
// used from memory.
func (s *State) Renew(
	ctx context.Context, r Report, send func(context.Context, wire.RenewRequest) (*wire.RenewReply, error),
) (*Member, error) {
	s.change.Lock()
	defer s.change.Unlock()
	if task := s.Rotating(); task != "" {
		// The broker may have heard of the new key: a renewal by the old key would look like a
		// thief's.
		return nil, taskcatalog.Errorf(CodeRotationPending, "cannot renew the certificate: task %s changes the key", task)
	}
	old := s.Member()
	csr, err := pki.NewCSR(old.Key)
	if err != nil {
		return nil, err
	}
	reply, err := send(ctx, wire.RenewRequest{
		CSR: string(csr), AgentVersion: r.AgentVersion, TaskTypes: r.TaskTypes,
		Capabilities: r.Capabilities, Facts: r.Facts, Agent: r.Agent, TrustVersion: old.Trust.Version,
	})
	if err != nil {
		return nil, err
	}
	m := *old
	if m.Cert, err = certificateFor(old.Key, reply.Certificate, old.NodeIdentity); err != nil {
		return nil, answerError("its certificate: %v", err)
	}
	return &m, s.save(&m, true)
}
