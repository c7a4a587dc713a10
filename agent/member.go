package agent

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"net/url"

	"go.uber.org/zap"

	"github.com/hostler/hostler/agent/identity"
	"github.com/hostler/hostler/agent/uplink"
	"github.com/hostler/hostler/pki"
	"github.com/hostler/hostler/taskcatalog"
)

// sources are the possible places of an enrolment token, in order of precedence.
func (a *Agent) sources() []identity.Source {
	return []identity.Source{
		identity.Provided("the config file", identity.Bootstrap{
			Broker: a.File.Broker, CASHA256: a.File.CASHA256, MAASSystemID: a.File.MAASSystemID,
		}, a.File.TokenFile),
		identity.Seed(a.Machine), identity.Cmdline(a.Machine), identity.FwCfg(a.Machine),
	}
}

// enroll tries once to enrol the node.
func (a *Agent) enroll(ctx context.Context) error {
	if err := a.state.Lock(); err != nil {
		return err
	}
	if a.state.Member() != nil { // the command hostler-agent enroll was faster
		a.adoptMembership()
		return nil
	}
	b, err := identity.Find(a.sources())
	if err == nil {
		_, err = enrollWith(ctx, &a.Config, a.state, b, a.nodeReport.Load().report)
	}
	if err != nil {
		a.state.Unlock()
		return err
	}
	a.adoptMembership()
	return nil
}

// Enroll tries once to enrol this machine with the token of b. The running or the next agent finds
// the identity in the state directory, and executes the task carried by the answer.
func Enroll(ctx context.Context, c Config, b identity.Source) (*identity.Member, error) {
	state, err := identity.Open(c.StateDir, c.Now)
	if err != nil {
		return nil, err
	}
	defer func() { _ = state.Close() }()
	if err := state.Lock(); err != nil {
		return nil, err
	}
	found, err := identity.Find([]identity.Source{b})
	if err != nil {
		return nil, err
	}
	// A first boot that is interrupted after the agent's first contact enrols again with a token
	// already used. The identity from this token is already here.
	if m := state.Member(); m != nil && m.TokenHash == pki.HashToken(found.Token.Reveal()) {
		c.Log.Info("already enrolled with this token", zap.String("node", m.NodeID), zap.Int64("epoch", m.Epoch))
		return m, nil
	}
	var facts *taskcatalog.Facts
	if c.Facts != nil {
		if seen, err := c.Facts(ctx); err == nil {
			facts = &seen
		}
	}
	return enrollWith(ctx, &c, state, found, c.report(facts))
}

func enrollWith(
	ctx context.Context, c *Config, state *identity.State, b *identity.Bootstrap, report identity.Report,
) (*identity.Member, error) {
	client, err := uplink.New(uplink.Options{Broker: b.Broker, CASHA256: b.CASHA256, Version: c.Version, Now: c.Now, Dial: c.Dial})
	if err != nil {
		return nil, err
	}
	defer client.Close()
	m, err := state.Enroll(ctx, b, c.Key, report, client.Enroll)
	if err != nil {
		return nil, err
	}
	c.Log.Info("enrolled", zap.String("node", m.NodeID), zap.Int64("epoch", m.Epoch), zap.String("source", b.Source),
		zap.String("broker", b.Broker))
	return m, nil
}

// rejoin enrols again a member that the broker refuses, if an operator has left a token that the
// node has not used yet.
func (a *Agent) rejoin(ctx context.Context, why error) error {
	b, err := identity.Find(a.sources())
	if err != nil || b.Token == "" || pki.HashToken(b.Token.Reveal()) == a.state.Member().TokenHash {
		return why
	}
	a.Log.Warn("the broker refuses this node; enrolling with a new token", zap.Error(why))
	if _, err := enrollWith(ctx, &a.Config, a.state, b, a.nodeReport.Load().report); err != nil {
		return errors.Join(why, err)
	}
	a.adoptMembership()
	return nil
}

// adoptMembership adopts the membership now in force.
func (a *Agent) adoptMembership() {
	a.planRenewal()
	if a.state.Rotating() == "" { // during a rotation the outcome of its task is not decided yet
		a.recoverTasks()
	}
	a.carried = a.state.Carried()
	m := a.state.Member()
	a.publish(func(s *Status) { s.NodeID, s.Epoch, s.Broker = m.NodeID, m.Epoch, a.brokerOf(m) })
}

// uplink returns the client of the membership in force.
func (a *Agent) uplink() (*uplink.Client, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	m := a.state.Member()
	if m == nil {
		return nil, taskcatalog.Errorf(identity.CodeNoIdentitySource, "this node is not enrolled")
	}
	if a.clientOf == m {
		return a.client, nil
	}
	client, err := a.uplinkAs(m)
	if err != nil {
		return nil, err
	}
	if a.client != nil {
		a.client.Close()
	}
	a.client, a.clientOf = client, m
	return client, nil
}

// uplinkAs returns a client that presents m's certificate.
func (a *Agent) uplinkAs(m *identity.Member) (*uplink.Client, error) {
	return uplink.New(uplink.Options{
		Broker: a.brokerOf(m), CASHA256: m.CASHA256, Cert: &m.Cert, Trust: m.Trust, NodeID: m.NodeID, Instance: a.instance,
		Version: a.Version, Report: func() string { return a.nodeReport.Load().digest }, Now: a.Now, Dial: a.Dial,
	})
}

// brokerOf returns the address of the node's broker. The config file overrides the address of the
// enrolment, for a broker that moved.
func (c *Config) brokerOf(m *identity.Member) string {
	if c.File.Broker != "" {
		return c.File.Broker
	}
	return m.Broker
}

// brokerAddresses looks up the addresses of the node's broker.
func (a *Agent) brokerAddresses(ctx context.Context) ([]netip.Addr, error) {
	u, err := url.Parse(a.brokerOf(a.state.Member()))
	if err != nil {
		return nil, err
	}
	return net.DefaultResolver.LookupNetIP(ctx, "ip", u.Hostname())
}
