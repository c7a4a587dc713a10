package broker

// Effect is a change that an accepted result makes at the broker. Effects are plain data. They
// are computed before the transaction that records the result and are applied inside that
// transaction, so that a result and its effects are stored together or not at all.
type Effect interface{ effect() }

// SetStatus moves the node. If the node has already left From, its status stays. A transition
// that the table refuses is audited, and the result stands.
type SetStatus struct {
	From, To NodeStatus
	By       Owner
	Reason   string
}

// SetReason says why a node is still in Status. If the node has already left Status, its reason
// stays.
type SetReason struct {
	Status NodeStatus
	Reason string
}

// SaveBaseline stores a baseline under its digest and makes it the node's baseline. A node that
// is past its enrolment and already has a baseline keeps the old one until an operator accepts
// the new one.
type SaveBaseline struct {
	Digest   string // sha256:… of Baseline
	Baseline []byte // JSON
}

// ConfirmTrust records the version of the trust bundle in force on the node. The recorded version
// never goes back within one enrolment.
type ConfirmTrust struct{ Version int64 }

// ConfirmResolver records the digest of the resolver profiles in force on the node.
type ConfirmResolver struct{ Digest string }

// LetIn makes an enrolling node active if the node has a baseline and its assigned resolver
// profiles.
type LetIn struct{}

// EndAllocation records the removal of an allocation's user from the node.
type EndAllocation struct{ AllocationID string }

// VoidRotation ends a rotation whose task did not finish. The certificate issued for the rotation
// never comes into force, unless it is in force already.
type VoidRotation struct{}

// NoteLate stores a probe's finding about a task that ended outcome_unknown.
type NoteLate struct {
	TaskID string
	Word   LateWord
}

func (NoteLate) effect()        {}
func (SetStatus) effect()       {}
func (SetReason) effect()       {}
func (SaveBaseline) effect()    {}
func (ConfirmTrust) effect()    {}
func (ConfirmResolver) effect() {}
func (LetIn) effect()           {}
func (EndAllocation) effect()   {}
func (VoidRotation) effect()    {}
