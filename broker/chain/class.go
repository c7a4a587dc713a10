package chain

// Class says what kind of failure it was. The classes are the user's, see
// Classes; two are the engine's own.
type Class string

// The classes that the engine gives by itself.
const (
	UpstreamTransient Class = "upstream_transient" // what nobody classified
	StateAmbiguity    Class = "state_ambiguity"    // what a person must look at
)

// CodeMarked is the code of a failure that is none: an operator stopped the run.
const CodeMarked = "marked_by_operator"

// CodeRestored is the code of a run that was stopped since its database was restored.
const CodeRestored = "restored_from_backup"

// Handling is what a class of failures leads to.
type Handling struct {
	Retry      bool   // within the stage's policy
	Rescue     bool   // by the stage's rescue, if it has one
	Ends       Status // failed_retryable or failed_manual_intervention, when nothing of that helped
	NextAction string // what the operator is told to do
	UndoAction string // and what where taking back failed, which only a retry goes on with
}

// Classes is the table. A class that is not in it stops the run for a person.
type Classes map[Class]Handling

func (c Classes) of(class Class) Handling {
	h, ok := c[class]
	if !ok || h.Ends != FailedRetryable {
		h.Ends = FailedManual
	}
	return h
}
