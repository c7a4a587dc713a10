package rollout

import "github.com/hostler/hostler/broker/chain"

// Nodes is the port to the broker's records of nodes, releases and runs. A method may be called
// again with the same arguments and then changes nothing more. A stage waits out an error of kind
// Unavailable.
type Nodes interface {
	Rows
	Candidates
	Runs
	Soaks
}

// NodeState is the present state of a node.
type NodeState struct {
	Heard
	Delivered string   // the last delivery: a run, or the node's own update; empty: none known
	PutBack   string   // why the node undid that delivery; a code; empty: it did not
	Unfit     []string // why it could not be handed out, apart from runs and tenants; codes
	InRun     string   // the run that has the node; empty: none
	Busy      bool     // a tenant is on the node
	OutOfUse  bool     // out of service or owed a turnover: proves nothing about its agent
}

// Actor is the actor for a rollout's cancels: no token has this name.
var Actor = chain.Actor{Name: "system:rollout"}
