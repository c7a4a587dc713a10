// Package asking is a task of a node as a stage of a run: it is asked for once an attempt,
// waited for, and judged when it has ended.
//
// Await and Judge are the whole of it. Tasks is what a run needs of the task queue
// (taskqueue.Queue is one). A task that the agent refused, or failed, is a failure of the
// class that the stage names; one of which the agent never said how it ended is the
// agent's silence; one that the node's new enrolment ended is an ambiguity. Unknown is
// never success.
//
// The package knows neither what a task does nor which run asks for it.
package asking
