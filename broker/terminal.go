package broker

import (
	"slices"
	"time"
)

// TerminalStatus is where a terminal session stands.
type TerminalStatus string

// The statuses: opening → open ⇄ detached → closing → closed. Every one of them but the
// last may lead to closing, and to closed.
const (
	TerminalOpening  TerminalStatus = "opening"  // the node has not come yet
	TerminalOpen     TerminalStatus = "open"     // node and operator are there
	TerminalDetached TerminalStatus = "detached" // one of them is gone, and may come back
	TerminalClosing  TerminalStatus = "closing"  // its recording is being ended
	TerminalClosed   TerminalStatus = "closed"
)

var terminalMoves = map[TerminalStatus][]TerminalStatus{
	TerminalOpening:  {TerminalOpen, TerminalDetached, TerminalClosing, TerminalClosed},
	TerminalOpen:     {TerminalDetached, TerminalClosing, TerminalClosed},
	TerminalDetached: {TerminalOpen, TerminalClosing, TerminalClosed},
	TerminalClosing:  {TerminalClosed},
}

// MayBecome reports whether a session may go from one status to another.
func (s TerminalStatus) MayBecome(to TerminalStatus) bool {
	return slices.Contains(terminalMoves[s], to)
}

// Over reports whether nobody is let into the session any more.
func (s TerminalStatus) Over() bool { return s == TerminalClosing || s == TerminalClosed }

// TerminalSession is one session of one operator on one node.
type TerminalSession struct {
	ID           string // ts-…
	NodeID       string
	NodeEpoch    int64  // a node that enrolled anew is not let in
	Site         string // the node's when the session was made
	AllocationID string // empty: for none
	Username     string // on the node
	OpenedBy     string
	Reason       string
	Limits       TerminalLimits
	RecordInput  bool
	Replica      string // address of the relay that has it

	Status     TerminalStatus
	EndCode    string
	ExitStatus *int // of the program; nil: it has not ended, or nobody knows
	CreatedAt  time.Time
	StatusAt   time.Time
	ClosedAt   time.Time
}

// TerminalLimits end a session. Zero is no limit.
type TerminalLimits struct {
	Max    time.Duration // since it was made
	Idle   time.Duration // without a key pressed
	Detach time.Duration // without its operator, or without its node
}
