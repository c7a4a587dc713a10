package broker

import "time"

// Minted is a secret for one task of one node.
type Minted struct {
	Secret  string
	Expires time.Time
	Opens   string // what it is good for, for the audit log; empty: what its type says
}
