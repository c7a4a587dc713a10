package broker

import (
	"slices"
	"time"

	"github.com/hostler/hostler/taskcatalog"
)

// TerminalStatus is the status of a terminal session.
type TerminalStatus string

// The statuses: opening → open ⇄ detached → closing → closed. Every status but closed may lead to
// closed, and every status before closing to closing.
const (
	TerminalOpening  TerminalStatus = "opening"  // the node has not connected yet
	TerminalOpen     TerminalStatus = "open"     // node and operator are connected
	TerminalDetached TerminalStatus = "detached" // node or operator is gone and may come back
	TerminalClosing  TerminalStatus = "closing"  // the recording is being closed
	TerminalClosed   TerminalStatus = "closed"
)

var terminalMoves = map[TerminalStatus][]TerminalStatus{
	TerminalOpening:  {TerminalOpen, TerminalDetached, TerminalClosing, TerminalClosed},
	TerminalOpen:     {TerminalDetached, TerminalClosing, TerminalClosed},
	TerminalDetached: {TerminalOpen, TerminalClosing, TerminalClosed},
	TerminalClosing:  {TerminalClosed},
}

// MayBecome reports whether a session may change from one status to another.
func (s TerminalStatus) MayBecome(to TerminalStatus) bool {
	return slices.Contains(terminalMoves[s], to)
}

// TerminalNotFound is the answer about a session that does not exist, or that the caller may not know.
func TerminalNotFound(id string) *Error {
	return Errorf(NotFound, "terminal_session_not_found", "there is no terminal session %q (see hostler terminal list)",
		taskcatalog.Clean(id, 60))
}

// Over reports whether nobody is admitted to the session any more.
func (s TerminalStatus) Over() bool { return s == TerminalClosing || s == TerminalClosed }

// MostTerminalsOfProject bounds the simultaneous sessions of a project, so that a project leaves room
// on its nodes and at the relay to operators.
const MostTerminalsOfProject = 16

// What the members of a project may show in terminals. Everything shown is recorded in the brokers'
// database, and a tenant alone decides how much a program writes.
const (
	MostOutputOfMember = 256 << 20 // bytes of one session
	MostOutputADay     = 2 << 30   // bytes of the sessions that a project opened within a day
	MostTerminalsADay  = 1000      // sessions that a project opened within a day
)

// TerminalSession is one session on one node, of one operator or of one member of a project.
type TerminalSession struct {
	ID           string // ts-…
	NodeID       string
	NodeEpoch    int64  // a node that has enrolled again is not admitted
	Site         string // the node's site when the session was created
	AllocationID string // empty: no allocation
	ProjectID    string // of the member who opened the session for a tenant; empty: an operator's session
	Username     string // on the node
	OpenedBy     string
	Reason       string
	Limits       TerminalLimits
	RecordInput  bool
	Replica      string // address of the relay that has the session
	// SignIn is of an opener who signed in by OIDC. It is not read back: TerminalAccess has it.
	SignIn SignIn

	Status     TerminalStatus
	EndCode    string
	ExitStatus *int // of the program; nil: not ended, or unknown
	CreatedAt  time.Time
	StatusAt   time.Time
	ClosedAt   time.Time
}

// SignIn is the role at a place that an ID token gave, and the end of the token. Zero: none was shown.
type SignIn struct {
	Role  Role
	Place Place
	Until time.Time
}

// TerminalLimits end a session. Zero is no limit.
type TerminalLimits struct {
	Max    time.Duration // since the session was created
	Idle   time.Duration // without a key pressed
	Detach time.Duration // without the operator, or without the node
}
