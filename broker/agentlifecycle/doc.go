// Package agentlifecycle holds the runs on a node's agent: an update in place, the repair of its
// certificate or of its configuration, a manual installation, and a reimage by MAAS. Each is a
// list of stages (Chains) over one state (Work). The package reaches a node only through typed
// tasks, and reads the broker's records through Nodes.
//
// # Model
//
// A run has a mode (how the agent comes to the node), a scenario (the purpose) and a safety
// policy (when). Its list follows from these three and from the state of the node:
//
//	update       rebootstrap, of an agent that answers: node.self_update
//	certificate  rebootstrap, of an agent that answers: a new key and certificate
//	config       rebootstrap, of an agent that answers: trust bundle and resolver profiles
//	install      manual_install; and rebootstrap of an agent that cannot update itself:
//	             the run tells a person what to do, waits, and looks
//	reimage      MAAS gives the node a fresh system; the run follows that turnover
//
// A list is never wider than its scenario: neither a stale certificate nor a stale configuration
// costs a new program.
//
// # When a run may begin
//
// The run has the node: no tenant is let in while the run is under way. Under policy idle the
// first stage refuses a node with a live allocation, and names allocation and tenant. Under
// after_drain the stage waits for the tenants. forced ignores tenants, and needs a platform admin
// with a reason. The policy is in the run's state, and the run shows the reason for waiting.
//
// # When a run is done
//
// A successful task is not enough. The node must report the program of the release; the agent
// must answer a task; the agent must have renewed its certificate since; and the node must be as
// fit to be handed out as before. Only then the run is completed.
//
// # Undo
//
// A program that does not come up is rolled back by the node's own watcher, without a broker. The
// task's result reports the rollback, and this package announces it (agent.rollback.completed).
// The undo of a cancelled run withdraws tasks that no agent has taken yet.
package agentlifecycle
