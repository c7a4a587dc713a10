package store

// HintKind says what a hint is about.
type HintKind string

// The kinds.
const (
	HintTask   HintKind = "task"   // ID is a node: it has a task to fetch
	HintCancel HintKind = "cancel" // ID is a node: it has a task to stop
	HintEnded  HintKind = "ended"  // ID is a task that has ended
	HintDeny   HintKind = "deny"   // ID is a certificate's serial
	HintToken  HintKind = "token"  // ID is the name of an operator token that changed
	HintTrust  HintKind = "trust"  // ID is a bundle version
)

// Hint tells whoever waits that there may be something to look at. Hints may
// be lost and may come twice; what counts is in the tables.
type Hint struct {
	Kind HintKind
	ID   string
}
