package rollout

import (
	"context"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/chain"
)

// Nodes are the broker's own records of nodes, releases and runs, as far as a rollout
// needs them. A method may be called again with the same arguments and then changes
// nothing more. An error of kind Unavailable is waited out.
type Nodes interface {
	// Members are the rows of a rollout's members, by their places.
	Members(ctx context.Context, rollout string) ([]broker.RolloutMember, error)
	// Release reads a release that nodes may be given. Codes: agent_release_unknown,
	// release_revoked, release_below_floor.
	Release(ctx context.Context, version string, allowRollback bool) (Release, error)
	// Busy are the nodes that somebody is on.
	Busy(ctx context.Context) (map[string]bool, error)
	// Candidate is a node as it is by now; of who is on it, and of rollouts, nothing is
	// said. Code: node_not_found.
	Candidate(ctx context.Context, nodeID string) (Candidate, error)
	// Begin starts the run of a node under its id, once. Codes: those of the start of an agent's run,
	// node_in_run, agent_unreachable.
	Begin(ctx context.Context, o Order) error
	// Run is a run that was begun. Code: run_not_found.
	Run(ctx context.Context, id string) (chain.Record, error)
	// Cancel asks for the end of a run; one that has ended, or is taking back, stays as
	// it is.
	Cancel(ctx context.Context, id, reason string) error
	// Heard is what the agents of nodes said last, in one look at all of them; one that is
	// gone is not in it.
	Heard(ctx context.Context, nodeIDs []string) (map[string]Heard, error)
	// PollsStopped reports whether nobody at all is heard any more, which is more likely
	// the broker's doing, or the network's, than that of agents.
	PollsStopped(ctx context.Context) (bool, error)
	// Look is all that nodes are just now, at the cost of a look at each; one that is gone
	// is not in it.
	Look(ctx context.Context, nodeIDs []string) (map[string]Seen, error)
	// Asked reports whether a run has asked the node for something that has not ended.
	Asked(ctx context.Context, nodeID, runID string) (bool, error)
}

// Release is the one that is rolled out.
type Release struct {
	Version string              `json:"version"`
	Digest  string              `json:"digest"`
	Channel broker.AgentChannel `json:"channel"`
	// What a node reports that runs it.
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

// Heard is what an agent said last.
type Heard struct {
	Version string
	At      time.Time // its last authenticated contact
}

// Seen is what a node is just now.
type Seen struct {
	Heard
	Delivered string   // the last delivery of an agent to it: a run, or an update of its own; empty: none is known
	PutBack   string   // why the node has put back the version before that delivery; a code; empty: it has not
	Unfit     []string // why it could not be handed out, but for runs and tenants; codes
	InRun     string   // the run that has it; empty: none
	Busy      bool     // a tenant is on it
	Aside     bool     // it is not in service, or is owed a turnover: no word on its agent
}

// Actor is who cancels what a rollout has begun: no token is called that.
var Actor = chain.Actor{Name: "system:rollout"}
