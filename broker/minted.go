package broker

import "time"

// Minted is a secret for one task of one node.
type Minted struct {
	Secret  string
	Expires time.Time
	Opens   string // what the secret gives access to, for the audit log; empty: as the secret's type says
}

// MintAsk is a node's request for a secret of one of its tasks.
type MintAsk struct {
	Type      string // of the credential
	Step      string // of an operation's plan; empty: the secret is for the whole task
	KeyDigest string // of the key that the node has shown
}
