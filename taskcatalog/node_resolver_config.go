package taskcatalog

import (
	"encoding/json"
	"fmt"
	"time"
)

var nodeResolverConfig = define[ResolverConfigParams, ResolverConfigResult](Type{
	Name: "node.resolver_config", Version: 1,
	Summary: "put a set of resolver profiles in force, or one that was before it",
	Class:   ClassMutating, Lane: LaneExclusive, Deadline: 5 * time.Minute,
	BrokerFills: []string{"digest", "profiles"},
	Example:     `{"version":"2026-11-21"}`,
})

// ResolverConfigParams says which set.
type ResolverConfigParams struct {
	// Action is apply, where it is left out, or rollback: to the version, or to
	// the one before where there is no version. A rollback carries no profiles: the
	// node has kept them.
	Action   string          `json:"action,omitempty" jsonschema:"enum=apply,enum=rollback"`
	Version  string          `json:"version,omitempty" jsonschema:"pattern=^[a-z0-9][a-z0-9._-]{0\\,63}$"`
	Digest   string          `json:"digest,omitempty" jsonschema:"pattern=^sha256:[0-9a-f]{64}$"`
	Profiles json.RawMessage `json:"profiles,omitempty"` // the set's canonical JSON
}

// ResolverConfigResult is what is in force now.
type ResolverConfigResult struct {
	Version  string           `json:"version"`
	Digest   string           `json:"digest"`
	Changed  bool             `json:"changed"`
	Kept     []ProfileVersion `json:"kept,omitempty"`
	Problems []ProfileProblem `json:"problems,omitempty"` // why it was refused on this machine
}

// ProfileProblem is one thing that is wrong with a set of resolver profiles, in
// itself or on this machine.
type ProfileProblem struct {
	File    string `json:"file,omitempty"`
	Line    int    `json:"line,omitempty"`
	Code    Code   `json:"code"`
	Message string `json:"message"`
}

// String is the problem as compilers write theirs: file:line: code: message.
func (p ProfileProblem) String() string {
	switch {
	case p.File == "":
		return fmt.Sprintf("%s: %s", p.Code, p.Message)
	case p.Line == 0:
		return fmt.Sprintf("%s: %s: %s", p.File, p.Code, p.Message)
	}
	return fmt.Sprintf("%s:%d: %s: %s", p.File, p.Line, p.Code, p.Message)
}

// ProfileVersion is one version of the resolver profiles that a node keeps.
type ProfileVersion struct {
	Version string `json:"version"`
	Digest  string `json:"digest"` // sha256:… of the set's canonical JSON
}
