// Package taskstage makes a task of a node a stage of a run: the stage requests the task once an
// attempt, waits for its end, and judges the outcome.
//
// Await and Judge are the whole package. Tasks is the port to the task queue (taskqueue.Queue
// implements it). A refused or failed task is a failure of the stage's class. A task whose end
// the agent never reported counts as the agent's silence. A task ended by a new enrolment of the
// node is an ambiguity. An unknown outcome is never success.
//
// The package knows neither the work of a task nor the run that asks for it.
package taskstage
