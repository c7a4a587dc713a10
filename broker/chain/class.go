package chain

// Class is the kind of a failure. The package's user defines classes, with their handling, in
// Classes; two classes are the engine's own.
type Class string

// The engine's own classes.
const (
	UpstreamTransient Class = "upstream_transient" // an unclassified error
	StateAmbiguity    Class = "state_ambiguity"    // a person must look
)

// CodeMarked is the code of an operator's stop, which is no real failure.
const CodeMarked = "marked_by_operator"

// CodeRestored is the code of a run that was stopped because its database was restored.
const CodeRestored = "restored_from_backup"

// Handling says how a class of failures is handled.
type Handling struct {
	Retry      bool   // within the stage's policy
	Rescue     bool   // by the stage's rescue, if it has one
	Ends       Status // failed_retryable or failed_manual_intervention, after retry and rescue
	NextAction string // advice to the operator
	UndoAction string // advice after a failed undo, which can only be retried
}

// Classes is the table. A class outside the table stops the run for a person.
type Classes map[Class]Handling

func (c Classes) of(class Class) Handling {
	h, ok := c[class]
	if !ok || h.Ends != FailedRetryable {
		h.Ends = FailedManual
	}
	return h
}
