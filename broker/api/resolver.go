package api

import (
	"encoding/json"
	"time"

	"github.com/hostler/hostler/taskcatalog"
)

// ResolverPush is a set of resolver profiles under a name.
type ResolverPush struct {
	Version  string          `json:"version" pattern:"^[a-z0-9][a-z0-9._-]{0,63}$" patternDescription:"a name such as 2026-11-21"`
	Profiles json.RawMessage `json:"profiles" doc:"set of hardware_profiles and command_profiles, as hostler resolver push sends it"`
}

// ResolverSet is a profile set that the broker keeps.
type ResolverSet struct {
	Version  string    `json:"version"`
	Digest   string    `json:"digest"`
	PushedBy string    `json:"pushed_by"`
	PushedAt time.Time `json:"pushed_at"`
	Had      bool      `json:"had,omitempty" doc:"the set was stored already"`
}

// ResolverSetList is every set, newest first.
type ResolverSetList struct {
	Standing
	Items []ResolverSet `json:"items"`
	Next  string        `json:"next" doc:"cursor of the next page; empty: there is no next page"`
}

// ResolverWantPut assigns a profile set to the nodes of a selector.
type ResolverWantPut struct {
	Selector string `json:"selector" minLength:"1" maxLength:"4000" doc:"all, nodes, or key=value terms over facts and labels"`
	Version  string `json:"version" minLength:"1" maxLength:"128" doc:"a version or a digest"`
	Reason   string `json:"reason,omitempty" maxLength:"500"`
}

// ResolverWant is an assignment of a profile set to nodes, with its progress.
type ResolverWant struct {
	Selector   string    `json:"selector"`
	Version    string    `json:"version"`
	Digest     string    `json:"digest"`
	WantedBy   string    `json:"wanted_by"`
	WantedAt   time.Time `json:"wanted_at"`
	Nodes      int       `json:"nodes" doc:"number of nodes to which this assignment applies"`
	Confirmed  int       `json:"confirmed" doc:"number of these nodes that have the set"`
	StoppedAt  time.Time `json:"stopped_at,omitzero"`
	StopReason string    `json:"stop_reason,omitempty"`
}

// ResolverWantList lists every assignment, the highest precedence first.
type ResolverWantList struct {
	Standing
	Items []ResolverWant `json:"items"`
	Next  string         `json:"next" doc:"cursor of the next page; empty: there is no next page"`
}

// NodeResolver is a node's assigned profile set, its set in force, and the set before.
type NodeResolver struct {
	NodeID    string        `json:"node_id"`
	Hostname  string        `json:"hostname"`
	Wanted    string        `json:"wanted,omitempty" doc:"assigned version; empty: none"`
	InForce   string        `json:"in_force,omitempty" doc:"version, or digest if the broker does not know the set; empty: the profiles compiled into the agent"`
	Before    string        `json:"before,omitempty"`
	Confirmed bool          `json:"confirmed"`
	Want      *ResolverWant `json:"want,omitempty" doc:"the assignment that applies"`
}

// ResolverRollback asks for an earlier profile set.
type ResolverRollback struct {
	To     string `json:"to,omitempty" maxLength:"128" doc:"a version; default: the preceding one"`
	Reason string `json:"reason,omitempty" maxLength:"500"`
}

// ResolverExplanation says why a step resolves as it does on a node.
type ResolverExplanation struct {
	NodeID   string           `json:"node_id"`
	Hostname string           `json:"hostname"`
	Step     string           `json:"step"`
	Version  string           `json:"version" doc:"version of the set in force on the node"`
	Digest   string           `json:"digest"`
	Rules    []ResolverRule   `json:"rules"`
	Rule     string           `json:"rule,omitempty" doc:"the rule that applies"`
	Profile  string           `json:"resolved_profile,omitempty" doc:"a command profile, or builtin:NAME"`
	Argv     []string         `json:"argv,omitempty" doc:"arguments without those that the step adds"`
	Code     taskcatalog.Code `json:"code,omitempty" doc:"profile_missing if the rule has no command for the step"`
}

// ResolverRule is one rule: whether the rule matched, and the facts that each condition saw.
type ResolverRule struct {
	Name       string              `json:"name"`
	At         string              `json:"at,omitempty" doc:"file and line"`
	Matched    bool                `json:"matched"`
	Won        bool                `json:"won"`
	Conditions []ResolverCondition `json:"conditions,omitempty"`
}

// ResolverCondition is one key of a rule's match beside the node's fact.
type ResolverCondition struct {
	Key   string   `json:"key"`
	Want  []string `json:"want"`
	Have  string   `json:"have,omitempty"`
	Holds bool     `json:"holds"`
}
