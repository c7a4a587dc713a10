package rollout

import (
	"context"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/chain"
)

// Nodes is the port to the broker's records of nodes, releases and runs. A method may be called
// again with the same arguments and then changes nothing more. A stage waits out an error of kind
// Unavailable.
type Nodes interface {
	// Members are the rows of a rollout's members, by their places.
	Members(ctx context.Context, rollout string) ([]broker.RolloutMember, error)
	// Release reads a release that nodes may get. Codes: agent_release_unknown,
	// release_revoked, release_below_floor.
	Release(ctx context.Context, version string, allowRollback bool) (Release, error)
	// Busy are the nodes with tenants.
	Busy(ctx context.Context) (map[string]bool, error)
	// Candidate is a node's present state, without Region, Busy and Rollout. Code: node_not_found.
	Candidate(ctx context.Context, nodeID string) (Candidate, error)
	// Begin starts the run of a node under its id, once. Codes: those of the start of an agent's
	// run, node_in_run, agent_unreachable.
	Begin(ctx context.Context, o Order) error
	// Run is a begun run. Code: run_not_found.
	Run(ctx context.Context, id string) (chain.Record, error)
	// Cancel requests the end of a run; an ended run, or a run in undo, stays unchanged.
	Cancel(ctx context.Context, id, reason string) error
	// Heard are the last reports of nodes' agents, in one query for all; a deleted node is
	// missing.
	Heard(ctx context.Context, nodeIDs []string) (map[string]Heard, error)
	// PollsStopped reports whether no agent at all is heard any more: the cause is then more
	// likely the broker or the network than the agents.
	PollsStopped(ctx context.Context) (bool, error)
	// Look is the full present state of nodes, with a query for each; a deleted node is missing.
	Look(ctx context.Context, nodeIDs []string) (map[string]Seen, error)
	// Asked reports whether a run has an open task on the node.
	Asked(ctx context.Context, nodeID, runID string) (bool, error)
}

// Release is the release of a rollout.
type Release struct {
	Version string              `json:"version"`
	Digest  string              `json:"digest"`
	Channel broker.AgentChannel `json:"channel"`
	// Values that a node with the release reports.
	Commit string `json:"commit,omitempty"`
	SHA256 string `json:"sha256,omitempty"`
}

// Order is a run to begin on a node.
type Order struct {
	ID, Rollout   string
	NodeID        string
	Version       string
	Safety        broker.SafetyPolicy
	AllowRollback bool
	Force         bool
	Reason        string
	RequestedBy   string
}

// Heard is an agent's last report.
type Heard struct {
	Version string
	At      time.Time // its last authenticated contact
}

// Seen is the present state of a node.
type Seen struct {
	Heard
	Delivered string   // the last delivery: a run, or the node's own update; empty: none known
	PutBack   string   // why the node undid that delivery; a code; empty: it did not
	Unfit     []string // why it could not be handed out, apart from runs and tenants; codes
	InRun     string   // the run that has the node; empty: none
	Busy      bool     // a tenant is on the node
	Aside     bool     // out of service or owed a turnover: proves nothing about its agent
}

// Actor is the actor for a rollout's cancels: no token has this name.
var Actor = chain.Actor{Name: "system:rollout"}
