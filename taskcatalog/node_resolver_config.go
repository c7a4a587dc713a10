package taskcatalog

import (
	"encoding/json"
	"fmt"
	"time"
)

var nodeResolverConfig = define[ResolverConfigParams, ResolverConfigResult](Type{
	Name: "node.resolver_config", Version: 1,
	Summary: "put a set of resolver profiles in force, or return to an earlier set",
	Class:   ClassMutating, Lane: LaneExclusive, Deadline: 5 * time.Minute,
	BrokerFills: []string{"digest", "profiles"},
	Example:     `{"version":"2026-11-21"}`,
})

// ResolverConfigParams names the profile set.
type ResolverConfigParams struct {
	// Action is apply, the default, or rollback. A rollback goes to Version, or to the previous
	// version if Version is empty. A rollback carries no profiles: the node has kept them.
	Action   string          `json:"action,omitempty" jsonschema:"enum=apply,enum=rollback"`
	Version  string          `json:"version,omitempty" jsonschema:"pattern=^[a-z0-9][a-z0-9._-]{0\\,63}$"`
	Digest   string          `json:"digest,omitempty" jsonschema:"pattern=^sha256:[0-9a-f]{64}$"`
	Profiles json.RawMessage `json:"profiles,omitempty"` // the set's canonical JSON
}

// ResolverConfigResult reports the profile set in force after the task.
type ResolverConfigResult struct {
	Version  string           `json:"version"`
	Digest   string           `json:"digest"`
	Changed  bool             `json:"changed"`
	Kept     []ProfileVersion `json:"kept,omitempty"`
	Problems []ProfileProblem `json:"problems,omitempty"` // why the set was refused on this machine
}

// ProfileProblem is one fault of a set of resolver profiles, either in the set itself or on this
// machine.
type ProfileProblem struct {
	File    string `json:"file,omitempty"`
	Line    int    `json:"line,omitempty"`
	Code    Code   `json:"code"`
	Message string `json:"message"`
}

// String formats the problem as compilers do: file:line: code: message.
func (p ProfileProblem) String() string {
	switch {
	case p.File == "":
		return fmt.Sprintf("%s: %s", p.Code, p.Message)
	case p.Line == 0:
		return fmt.Sprintf("%s: %s: %s", p.File, p.Code, p.Message)
	}
	return fmt.Sprintf("%s:%d: %s: %s", p.File, p.Line, p.Code, p.Message)
}

// ProfileVersion is one version of the resolver profiles on a node.
type ProfileVersion struct {
	Version string `json:"version"`
	Digest  string `json:"digest"` // sha256:… of the set's canonical JSON
}
