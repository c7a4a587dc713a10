package process

import (
	"context"
	"crypto/tls"
	"os"
	"time"

	"github.com/hostler/hostler/agent/identity"
	"github.com/hostler/hostler/agent/terminal"
	"github.com/hostler/hostler/pki"
	"github.com/hostler/hostler/taskcatalog"
)

// Member is who the node is now, to a relay.
type Member struct {
	NodeID string
	Key    string // its digest
	Config *tls.Config
}

// CodeNoMember is the code of a node whose identity is of no use to a relay.
const CodeNoMember taskcatalog.Code = "terminal_no_identity"

// ReadMember reads it from the agent's state directory, and makes nothing there. Codes:
// terminal_no_identity.
func ReadMember(stateDir string) (Member, error) {
	if _, err := os.Stat(stateDir); err != nil { // it would be made
		return Member{}, taskcatalog.Errorf(CodeNoMember, "cannot dial a relay: the node's identity cannot be read: %v", err)
	}
	state, err := identity.Open(stateDir, time.Now)
	if err != nil {
		return Member{}, err
	}
	defer state.Close()
	if err := state.Load(); err != nil {
		return Member{}, err
	}
	m := state.Member()
	switch {
	case m == nil:
		return Member{}, taskcatalog.Errorf(CodeNoMember, "cannot dial a relay: this machine is no node (hostler-agent enroll)")
	case m.Expired(time.Now()):
		return Member{}, taskcatalog.Errorf(CodeNoMember, "cannot dial a relay: the node's certificate ran out on %s, and the agent has none that is newer yet", m.Cert.Leaf.NotAfter.UTC().Format(time.RFC3339))
	}
	key, err := pki.PublicKeyDigest(m.Key.Public())
	if err != nil {
		return Member{}, err
	}
	return Member{NodeID: m.NodeID, Key: key, Config: pki.ClientConfig(m.Trust.Roots(time.Now()), &m.Cert, time.Now)}, nil
}

// dialer dials as who the node is at that moment.
type dialer struct {
	member func() (Member, error)
	key    string // that was shown last: a relay's next token is for it
}

func (d *dialer) dial(ctx context.Context, to terminal.Pass) (terminal.Conn, error) {
	m, err := d.member()
	if err != nil {
		return nil, err
	}
	if to.Again && m.Key != d.key {
		return nil, taskcatalog.Errorf(terminal.CodeKeyChanged, "cannot dial the relay again: the node has another key by now, and the token is for the one before")
	}
	conn, err := terminal.Dial(ctx, to.Relay, m.Config)
	if err == nil {
		d.key = m.Key
	}
	return conn, err
}
