package process

import (
	"crypto/tls"
	"os"
	"time"

	"github.com/hostler/hostler/agent/identity"
	"github.com/hostler/hostler/pki"
	"github.com/hostler/hostler/taskcatalog"
)

// Member is the node's present identity for a relay.
type Member struct {
	NodeID string
	Config *tls.Config
}

// CodeNoMember is the code of a node without a usable identity for a relay.
const CodeNoMember taskcatalog.Code = "terminal_no_identity"

// ReadMember reads the identity from the agent's state directory, and creates nothing there. Codes:
// terminal_no_identity.
func ReadMember(stateDir string) (Member, error) {
	if _, err := os.Stat(stateDir); err != nil { // identity.Open would create the directory
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
		return Member{}, taskcatalog.Errorf(CodeNoMember, "cannot dial a relay: this machine is not enrolled (hostler-agent enroll)")
	case m.Expired(time.Now()):
		return Member{},
			taskcatalog.Errorf(CodeNoMember,
				"cannot dial a relay: the node's certificate expired on %s, and the agent has no newer certificate yet",
				m.Cert.Leaf.NotAfter.UTC().Format(time.RFC3339))
	}
	return Member{NodeID: m.NodeID, Config: pki.ClientConfig(m.Trust.Roots(time.Now()), &m.Cert, time.Now)}, nil
}
