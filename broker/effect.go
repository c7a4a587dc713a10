package broker

// Effect is what an accepted result changes at the broker. Effects are plain
// data: they are worked out before the transaction that records the result and
// applied inside it, so that a result and what follows from it never part.
type Effect interface{ effect() }

// SetStatus moves the node. A node that has left From by then stays where it
// is; a transition that the table refuses is audited, and the result stands.
type SetStatus struct {
	From, To NodeStatus
	By       Owner
	Reason   string
}

// SetReason says why a node is still in a status. A node that has left it by
// then keeps the reason it has.
type SetReason struct {
	Status NodeStatus
	Reason string
}

// SaveBaseline keeps a baseline under its digest and makes it the node's, unless
// the node is past its enrolment and has one: then an operator accepts it first.
type SaveBaseline struct {
	Digest   string // sha256:… of Baseline
	Baseline []byte // JSON
}

// ConfirmTrust records the version of the trust bundle that the node has in
// force. It never goes back within one enrolment.
type ConfirmTrust struct{ Version int64 }

// ConfirmResolver records the resolver profiles that the node has in force, by
// digest.
type ConfirmResolver struct{ Digest string }

// LetIn makes an enrolling node active, if it has all that an active node must
// have: a baseline, and the resolver profiles it shall have.
type LetIn struct{}

// EndAllocation notes that the node has no user of an allocation any more.
type EndAllocation struct{ AllocationID string }

// VoidRotation is for a rotation that its task did not come to the end of: the
// certificate that it was given never comes into force, if it is not by now.
type VoidRotation struct{}

// NoteLate keeps what a probe found of a task that ended outcome_unknown.
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
