package operation

import "github.com/hostler/hostler/broker"

// Part says how an operation ended on one of its nodes.
type Part string

// The parts.
const (
	PartDone   Part = "done"
	PartFailed Part = "failed" // the node has said so
	PartUnread Part = "unread" // the node never fetched its task, and cannot any more
	PartRuns   Part = "runs"   // the operation may still run there: nobody has said that it ended
)

// PartOf is what a task of an operation says of its node. What the node has not reported is not known to have ended: the
// broker's own end of the task proves nothing, unless the task was never delivered.
func PartOf(k broker.Task) Part {
	switch {
	case k.Status == broker.TaskSucceeded:
		return PartDone
	case k.MayRun():
		return PartRuns
	case k.Attempt == 0 && k.Outcome == "":
		return PartUnread
	}
	return PartFailed
}
