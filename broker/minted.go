package broker

import "time"

// Minted is a secret for one task of one node.
type Minted struct {
	Secret  string
	Expires time.Time
	Opens   string // what the secret gives access to, for the audit log; empty: as the secret's type says
}
