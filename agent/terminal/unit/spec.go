package unit

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/hostler/hostler/taskcatalog"
)

// RuntimeDir is where the sessions' own directories are made, each named after its session.
const RuntimeDir = "/run/hostler-terminal"

// Names of what systemd has.
const (
	Slice  = "hostler-terminal.slice"
	prefix = "hostler-terminal-"
	suffix = ".service"
	// Pattern is that of all sessions' units.
	Pattern = prefix + "ts-*" + suffix
)

// margin is how much longer than its session a unit may run, which ends itself.
const margin = time.Minute

var sessionID = regexp.MustCompile(`^ts-[a-z0-9]{8,40}$`)

// CodeSessionInvalid is the code of what is no name of a session.
const CodeSessionInvalid taskcatalog.Code = "terminal_session_invalid"

// CheckID refuses what is no name of a session: units and directories are named after it.
func CheckID(id string) error {
	if !sessionID.MatchString(id) {
		return taskcatalog.Errorf(CodeSessionInvalid, "%q is no terminal session", taskcatalog.Clean(id, 60))
	}
	return nil
}

// Name is the unit of a session.
func Name(id string) string { return prefix + id + suffix }

// IsSession reports whether a unit is one of a session.
func IsSession(unit string) bool {
	id, cut := strings.CutPrefix(unit, prefix)
	id, also := strings.CutSuffix(id, suffix)
	return cut && also && sessionID.MatchString(id)
}

// Dir is the runtime directory of a session.
func Dir(id string) string { return filepath.Join(RuntimeDir, id) }

// Here are the sessions whose units run, as their runtime directories in dir say: systemd makes
// one with each unit, and removes it after. It is for who may find no systemd to ask.
func Here(dir string) ([]string, error) {
	all, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("cannot look for terminal sessions: %w", err)
	}
	ids := []string{}
	for _, d := range all {
		if d.IsDir() && CheckID(d.Name()) == nil {
			ids = append(ids, d.Name())
		}
	}
	return ids, nil
}

// Spec is a session's unit to be started.
type Spec struct {
	Unit        string
	Description string
	Slice       string
	Start       []string      // argv of the session's process
	After       []string      // argv of who comes after it, however it ended
	Directory   string        // below /run, root's alone, gone with the unit
	Longest     time.Duration // that it may run
	SessionID   string        // for the journal
}

// State is how systemd has one of the units.
type State struct {
	Unit        string
	Description string
	Active      string // as systemd says: active, activating, deactivating, failed, inactive
}

// runs reports whether its process is there, or on its way.
func (s State) runs() bool { return s.Active == "active" || s.Active == "activating" }

// Systemd is what is asked of it.
type Systemd interface {
	// StartTerminal starts a unit and returns once its process is ready. It is
	// ErrExists where there is one of that name.
	StartTerminal(ctx context.Context, s Spec) error
	// Terminals are the sessions' units that are loaded.
	Terminals(ctx context.Context) ([]State, error)
	// Stop returns when nothing of a unit runs any more; one that is not there is no
	// error.
	Stop(ctx context.Context, unit string) error
}

// describe says of whom a session is, as its unit's description.
func describe(id, user string) string { return "Hostler terminal session " + id + " of user " + user }

func (s State) isOf(user string) bool {
	id := strings.TrimSuffix(strings.TrimPrefix(s.Unit, prefix), suffix)
	return s.Description == describe(id, user)
}

func (s *Sessions) spec(p *taskcatalog.TerminalOpenParams) Spec {
	after := []string{s.After, "session-ended", p.SessionID}
	if s.Config != "" {
		after = append(after, "--config", s.Config)
	}
	return Spec{
		Unit: Name(p.SessionID), Description: describe(p.SessionID, p.Username), Slice: Slice, SessionID: p.SessionID,
		Start: []string{s.Program, "session", p.SessionID}, After: after,
		Directory: filepath.Join(filepath.Base(RuntimeDir), p.SessionID), Longest: time.Duration(p.MaxSeconds)*time.Second + margin,
	}
}
