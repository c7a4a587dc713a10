package profiles

import (
	"crypto/sha256"
	"encoding/hex"

	"github.com/hostler/hostler/taskcatalog"
)

// MaxSize bounds a set, as files and as JSON, in bytes.
const MaxSize = 256 << 10

// Set is a complete, valid set of profiles. Parse and Decode return only valid sets.
type Set struct {
	HardwareProfiles []HardwareProfile `json:"hardware_profiles" jsonschema:"minItems=1,maxItems=128"`
	CommandProfiles  []CommandProfile  `json:"command_profiles" jsonschema:"maxItems=256"`
	Health           *Health           `json:"health,omitempty"`
	// Version is the operator's name for the set. Version is not part of the set's content.
	Version string `json:"-" jsonschema:"-"`
}

// HardwareProfile is one rule. An empty match makes it the fallback.
type HardwareProfile struct {
	Name  string            `json:"name" jsonschema:"pattern=^[a-z0-9][a-z0-9._-]{0\\,63}$"`
	Match map[string]Values `json:"match"` // fact key → wanted values, any of them
	// Overrides map the rule's steps: step kind → id of a command profile, or builtin:NAME.
	Overrides map[string]string `json:"overrides"`
	// At is the place of the rule when the set was read: nvidia.yaml:12.
	At string `json:"at,omitempty" jsonschema:"-"`
}

// fallback reports whether the rule matches every machine.
func (h *HardwareProfile) fallback() bool { return len(h.Match) == 0 }

// Values are the wanted values of a fact. A file may give a single value instead of a list.
type Values []string

// CommandProfile is one program and how it is run.
type CommandProfile struct {
	ID       string   `json:"id" jsonschema:"pattern=^[a-z0-9][a-z0-9_-]{0\\,63}$"`
	Command  string   `json:"command" jsonschema:"pattern=^/[A-Za-z0-9._+/-]+$,maxLength=255"` // absolute path
	BaseArgs []string `json:"base_args,omitempty" jsonschema:"maxItems=64"`
	// ArgSchema lists the arguments that a step may add, in their order in argv.
	ArgSchema []Arg `json:"arg_schema,omitempty" jsonschema:"maxItems=16"`
	// EnvPassthrough names the variables of the agent's environment that the program inherits. It
	// inherits no others.
	EnvPassthrough []string `json:"env_passthrough,omitempty" jsonschema:"maxItems=16"`
	User           string   `json:"user" jsonschema:"pattern=^[a-z_][a-z0-9_-]{0\\,30}$"` // root or a service account
	TimeoutSeconds int      `json:"timeout_seconds" jsonschema:"minimum=1,maximum=3600"`  // of one attempt
	Retries        int      `json:"retries,omitempty" jsonschema:"minimum=0,maximum=5"`   // after the first attempt
	// ExpectedExitCodes count as success; an empty list means 0.
	ExpectedExitCodes []int   `json:"expected_exit_codes,omitempty" jsonschema:"maxItems=16"`
	CaptureStdout     Capture `json:"capture_stdout,omitempty"`
	CaptureStderr     Capture `json:"capture_stderr,omitempty"`
	At                string  `json:"at,omitempty" jsonschema:"-"`

	own bool // compiled in: see DiskTools, BMCTools, PackageTools
}

// Expects reports whether an exit code counts as success.
func (c *CommandProfile) Expects(code int) bool {
	for _, want := range c.ExpectedExitCodes {
		if code == want {
			return true
		}
	}
	return len(c.ExpectedExitCodes) == 0 && code == 0
}

// Capture is the number of output bytes that are kept; further bytes are only counted. In a file,
// true means DefaultCapture and false nothing.
type Capture int

// The bounds of a capture, in bytes.
const (
	DefaultCapture Capture = 64 << 10
	MaxCapture     Capture = 1 << 20
)

// Encode returns the set's canonical JSON.
func (s *Set) Encode() ([]byte, error) { return taskcatalog.Encode(s) }

// Digest returns sha256:… of the canonical JSON.
func (s *Set) Digest() string {
	raw, err := s.Encode()
	if err != nil {
		panic("a set of strings and numbers does not encode: " + err.Error())
	}
	sum := sha256.Sum256(raw)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// Command returns the command profile with an id.
func (s *Set) Command(id string) (*CommandProfile, bool) {
	for i := range s.CommandProfiles {
		if s.CommandProfiles[i].ID == id {
			return &s.CommandProfiles[i], true
		}
	}
	return nil, false
}
