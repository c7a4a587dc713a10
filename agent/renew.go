package agent

import (
	"context"
	"math/rand/v2"
	"time"

	"go.uber.org/zap"

	"github.com/hostler/hostler/pki"
)

// minRenewal is the least time between two tries to renew.
const minRenewal = time.Minute

// planRenewal sets the time of the next renewal: two thirds of the certificate's life, plus up to a
// twentieth of the life so that the nodes of a fleet do not renew at once.
func (a *Agent) planRenewal() {
	m := a.state.Member()
	a.planned = m.Cert.Leaf
	life := m.Cert.Leaf.NotAfter.Sub(m.Cert.Leaf.NotBefore)
	a.renewAt = m.RenewAt().Add(rand.N(life/20 + 1))
}

// renew gets a new certificate. If renew fails, the old certificate stays in use while valid, and
// the next try is scheduled.
func (a *Agent) renew(ctx context.Context) error {
	client, err := a.uplink()
	if err != nil {
		return err
	}
	m, err := a.state.Renew(ctx, a.nodeReport.Load().report, client.Renew)
	if err != nil {
		a.renewAt = a.Now().Round(0).Add(minRenewal + rand.N(minRenewal)) // Round(0) drops the monotonic clock: certificates go by the date
		return err
	}
	a.planRenewal()
	if earliest := a.Now().Round(0).Add(minRenewal); a.renewAt.Before(earliest) {
		a.renewAt = earliest
	}
	a.Log.Info("renewed the certificate", zap.String("node", m.NodeID), zap.String("serial", pki.Serial(m.Cert.Leaf)),
		zap.Time("until", m.Cert.Leaf.NotAfter))
	if a.state.Unsaved() {
		a.Log.Warn("cannot write the new certificate; the agent uses it from memory", zap.String("node", m.NodeID))
	}
	return nil
}
