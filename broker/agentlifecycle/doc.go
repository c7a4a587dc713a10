// Package agentlifecycle is what becomes of a node's agent: an update where it stands, the
// repair of its certificate or of its configuration, and what a person or MAAS does in
// its place. Each is a list of stages; none runs anything on a node but typed tasks.
//
// # Model
//
// A run has a mode (how the agent comes to the node), a scenario (what for) and a
// safety policy (when). Out of these and of how the node stands follows its list:
//
//	update       rebootstrap, of an agent that answers: node.self_update
//	certificate  rebootstrap, of an agent that answers: a new key and certificate
//	config       rebootstrap, of an agent that answers: trust bundle and resolver profiles
//	install      manual_install; and rebootstrap of an agent that cannot do it itself:
//	             the run says what a person is to do, waits, and looks
//	reimage      MAAS gives the node a fresh system; the run follows that turnover
//
// A list is never wider than its scenario: a stale certificate costs no new program,
// and a stale configuration neither.
//
// # When it may begin
//
// The run has the node: nobody is let in while it is under way. By policy idle the first
// stage refuses a node that somebody is on, by the name of the allocation and of the
// tenant; by after_drain it waits for them; forced asks nobody, and is a platform
// admin's, with a reason. The policy is in the run's state, and what it waits for is
// what the run shows.
//
// # When it is done
//
// Not when the task says so. What the node reports of its program must be the release;
// the agent must answer a task; it must have renewed its certificate since; and the node
// must be as fit to be handed out as it was before. Only then the run is completed.
//
// # Taking back
//
// A program that does not come up is put back by the node's own watcher, without a
// broker. That is the truth that the task's result tells, and this package repeats
// (agent.rollback.completed). A cancelled run takes back what was not begun: tasks that
// no agent has taken yet.
package agentlifecycle
