package store

import "time"

// Rotation is the replacement of one key or root by another.
type Rotation struct {
	Use        string // task, trust, statement, root …
	OldID      string
	NewID      string
	Version    int64 // of the bundle that every node must confirm
	StartedAt  time.Time
	FinishedAt time.Time // zero: nodes are still to confirm it
	LeftBehind []string  // nodes it was finished without
}
