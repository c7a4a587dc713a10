package agent

import (
	"context"
	"os"

	"github.com/hostler/hostler/agent/identity"
	"github.com/hostler/hostler/agent/uplink"
	"github.com/hostler/hostler/taskcatalog"
	"github.com/hostler/hostler/taskcatalog/wire"
)

// TellTerminalGone tells the node's broker that the process of a terminal session was killed,
// and how, as the member that this machine is now. It is for who comes after that process: no
// agent need run. Codes: no_identity_source where it is no node, and those of uplink.
func TellTerminalGone(ctx context.Context, c Config, sessionID, how string) error {
	if _, err := os.Stat(c.StateDir); err != nil { // it would be made
		return taskcatalog.Errorf(identity.CodeNoIdentitySource, "this node is not enrolled: %v", err)
	}
	state, err := identity.Open(c.StateDir, c.Now)
	if err != nil {
		return err
	}
	defer func() { _ = state.Close() }()
	if err := state.Load(); err != nil {
		return err
	}
	m := state.Member()
	if m == nil {
		return taskcatalog.Errorf(identity.CodeNoIdentitySource, "this node is not enrolled")
	}
	client, err := uplink.New(uplink.Options{
		Broker: c.brokerOf(m), CASHA256: m.CASHA256, Cert: &m.Cert, Trust: m.Trust, NodeID: m.NodeID,
		Version: c.Version, Report: func() string { return "" }, Now: c.Now, Dial: c.Dial,
	})
	if err != nil {
		return err
	}
	defer client.Close()
	return client.TerminalGone(ctx, sessionID, wire.TerminalGone{How: how})
}
