package unit

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/hostler/hostler/taskcatalog"
	"github.com/hostler/hostler/taskcatalog/lazyregexp"
)

// RuntimeDir holds the sessions' own directories, each named after its session.
const RuntimeDir = "/run/hostler-terminal"

// Names in systemd.
const (
	Slice  = "hostler-terminal.slice"
	prefix = "hostler-terminal-"
	suffix = ".service"
	// Pattern matches the units of all sessions.
	Pattern = prefix + "ts-*" + suffix
)

// margin is how much longer than its session a unit may run; normally the session ends itself.
const margin = time.Minute

var sessionID = lazyregexp.New(`^ts-[a-z0-9]{8,40}$`)

// CodeSessionInvalid is the code of an invalid session name.
const CodeSessionInvalid taskcatalog.Code = "terminal_session_invalid"

// CheckID refuses an invalid session name, because units and directories are named after it.
func CheckID(id string) error {
	if !sessionID.MatchString(id) {
		return taskcatalog.Errorf(CodeSessionInvalid, "%q is not a terminal session", taskcatalog.Clean(id, 60))
	}
	return nil
}

// Name is the unit of a session.
func Name(id string) string { return prefix + id + suffix }

// IsSession reports whether a unit belongs to a session.
func IsSession(unit string) bool {
	id, cut := strings.CutPrefix(unit, prefix)
	id, also := strings.CutSuffix(id, suffix)
	return cut && also && sessionID.MatchString(id)
}

// Dir is the runtime directory of a session.
func Dir(id string) string { return filepath.Join(RuntimeDir, id) }

// Here returns the sessions whose units run, according to their runtime directories in dir: systemd
// makes a directory with each unit, and removes it afterwards. It is for callers that may have no
// systemd to ask.
func Here(dir string) ([]string, error) {
	all, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("cannot list terminal sessions: %w", err)
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
	After       []string      // argv of the post-stop program, run however the process ended
	Directory   string        // below /run, root's alone, gone with the unit
	Longest     time.Duration // how long it may run
	SessionID   string        // for the journal
}

// State is systemd's state of a unit.
type State struct {
	Unit        string
	Description string
	Active      string // systemd's word: active, activating, deactivating, failed, inactive
}

// runs reports whether the unit's process runs, or is starting.
func (s State) runs() bool { return s.Active == "active" || s.Active == "activating" }

// Systemd is the part of systemd that sessions need.
type Systemd interface {
	// StartTerminal starts a unit and returns once its process is ready. It returns ErrExists if a
	// unit of the name exists.
	StartTerminal(ctx context.Context, s Spec) error
	// Terminals are the loaded units of sessions.
	Terminals(ctx context.Context) ([]State, error)
	// Stop returns when no process of a unit runs any more; a missing unit is no error.
	Stop(ctx context.Context, unit string) error
}

// describe returns the description of a session's unit, which names the user.
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
