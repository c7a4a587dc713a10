package release

import (
	"bytes"
	"encoding/hex"
	"time"

	"github.com/hostler/hostler/taskcatalog"
	"github.com/hostler/hostler/taskcatalog/lazyregexp"
)

// Schema is the form of a statement.
const Schema = "hostler.agent-release/v1"

// The only platform of releases.
const (
	OS   = "linux"
	Arch = "amd64"
)

// Protocol is the protocol version of this tree's agent. A change of the agent's own state (ledger,
// configuration) that an older agent cannot read raises State.Writes; the newer agent continues to
// read the older forms.
const Protocol = 1

// State is the state schema of this tree's agent.
var State = StateSchema{ReadsMin: 1, ReadsMax: 1, Writes: 1}

// MaxStatement and MaxBinary bound a statement and a program, in bytes.
const (
	MaxStatement = 16 << 10
	MaxBinary    = 256 << 20
)

// Statement describes a release.
type Statement struct {
	Schema      string      `json:"schema"`
	Version     string      `json:"version"` // semver, without v and without build metadata
	Commit      string      `json:"commit"`
	OS          string      `json:"os"`
	Arch        string      `json:"arch"`
	Binary      Binary      `json:"binary"`
	StateSchema StateSchema `json:"state_schema"`
	Protocol    int         `json:"protocol"` // of the agent's API
	BuiltAt     time.Time   `json:"built_at"` // whole seconds, UTC
}

// Self is a program's description of itself (hostler-agent version -o json). A release is packed
// from Self, so that the statement describes the program truthfully.
type Self struct {
	Version     string      `json:"version"`
	Commit      string      `json:"commit"`
	OS          string      `json:"os"`
	Arch        string      `json:"arch"`
	StateSchema StateSchema `json:"state_schema"`
	Protocol    int         `json:"protocol"`
}

// Statement returns the statement of a release of the program, without Binary.
func (s Self) Statement(builtAt time.Time) Statement {
	return Statement{
		Schema: Schema, Version: s.Version, Commit: s.Commit, OS: s.OS, Arch: s.Arch,
		StateSchema: s.StateSchema, Protocol: s.Protocol, BuiltAt: builtAt.UTC(),
	}
}

// Binary is the program of a release, unpacked.
type Binary struct {
	SHA256 string `json:"sha256"` // hex
	Size   int64  `json:"size"`
}

// StateSchema names the forms of the agent's state that a program reads, and the form that it
// writes.
type StateSchema struct {
	ReadsMin int `json:"reads_min"`
	ReadsMax int `json:"reads_max"`
	Writes   int `json:"writes"`
}

// Reads reports whether the program reads state of a form.
func (s StateSchema) Reads(form int) bool { return s.ReadsMin <= form && form <= s.ReadsMax }

var commitForm = lazyregexp.New(`^[0-9a-z][0-9a-z-]{0,63}$`)

// Encode returns the canonical form of a statement. Code: release_statement_invalid.
func (s *Statement) Encode() ([]byte, error) {
	if err := s.check(); err != nil {
		return nil, err
	}
	return taskcatalog.Encode(s)
}

// ParseStatement reads the output of Encode, and nothing else. ParseStatement does not prove the
// origin of the bytes. Code: release_statement_invalid.
func ParseStatement(raw []byte) (*Statement, error) {
	if len(raw) > MaxStatement {
		return nil, badStatement("it has %d bytes, at most %d", len(raw), MaxStatement)
	}
	s := new(Statement)
	if err := taskcatalog.DecodeStrict(raw, s); err != nil {
		return nil, badStatement("%v", err)
	}
	own, err := s.Encode()
	if err != nil {
		return nil, err
	}
	if !bytes.Equal(own, raw) {
		return nil, badStatement("it is not in its one form")
	}
	return s, nil
}

func (s *Statement) check() error {
	sum, err := hex.DecodeString(s.Binary.SHA256)
	r := s.StateSchema
	switch {
	case s.Schema != Schema:
		return badStatement("its schema is %s, not %s", quote(s.Schema), Schema)
	case !ValidVersion(s.Version):
		return badStatement("%s is no version (semver without v, such as 1.4.0 or 1.4.0-rc.1)", quote(s.Version))
	case !commitForm.MatchString(s.Commit):
		return badStatement("%s is no commit", quote(s.Commit))
	case !word.MatchString(s.OS) || !word.MatchString(s.Arch):
		return badStatement("%s/%s is no platform", quote(s.OS), quote(s.Arch))
	case err != nil || len(sum) != 32 || hex.EncodeToString(sum) != s.Binary.SHA256:
		return badStatement("%s is no hex SHA-256 of a program", quote(s.Binary.SHA256))
	case s.Binary.Size < 1 || s.Binary.Size > MaxBinary:
		return badStatement("a program of %d bytes (at most %d)", s.Binary.Size, MaxBinary)
	case r.ReadsMin < 1 || r.ReadsMin > r.Writes || r.Writes > r.ReadsMax || r.ReadsMax > maxForm:
		return badStatement("it reads state of forms %d to %d and writes %d", r.ReadsMin, r.ReadsMax, r.Writes)
	case s.Protocol < 1 || s.Protocol > maxForm:
		return badStatement("%d is no protocol", s.Protocol)
	case s.BuiltAt.Unix() <= 0 || s.BuiltAt.Year() > 9999 || !s.BuiltAt.Equal(s.BuiltAt.Truncate(time.Second)) ||
		s.BuiltAt.Location() != time.UTC:
		return badStatement("it was not built at a whole second, UTC")
	}
	return nil
}

const maxForm = 1 << 20

var word = lazyregexp.New(`^[a-z0-9]{1,16}$`)

func badStatement(format string, args ...any) error {
	return refuse(CodeStatementInvalid, "cannot use the release's statement: "+format, args...)
}
