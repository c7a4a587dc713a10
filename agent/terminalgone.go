package agent

import (
	"context"
	"os"

	"github.com/hostler/hostler/agent/identity"
	"github.com/hostler/hostler/agent/uplink"
	"github.com/hostler/hostler/taskcatalog"
	"github.com/hostler/hostler/taskcatalog/wire"
)

// ReportTerminalGone reports to the node's broker that the process of a terminal session was
// killed, and how, with the machine's present identity. It is for the program that runs after the
// session's process has ended, and needs no running agent. Codes: no_identity_source if the machine
// is not enrolled, and the codes of uplink.
func ReportTerminalGone(ctx context.Context, c Config, sessionID, how string) error {
	if _, err := os.Stat(c.StateDir); err != nil { // identity.Open would create the directory
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
