package unit

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hostler/hostler/agent/machine"
	"github.com/hostler/hostler/agent/terminal/handover"
	"github.com/hostler/hostler/taskcatalog"
)

// Codes of sessions on a node.
const (
	CodeEnding taskcatalog.Code = "terminal_ending" // the process has ended, and the unit is stopping
	CodeGone   taskcatalog.Code = "terminal_gone"   // the process is gone
	CodeLeft   taskcatalog.Code = "terminal_left"   // a process of the session does not end
)

// ErrExists: a unit of this name exists.
var ErrExists = errors.New("the unit exists already")

// Time limits: for reaching a session's process, and for stopping a session after a failed
// handover.
const (
	reachTime = 20 * time.Second
	reachPoll = 100 * time.Millisecond
	stopTime  = 40 * time.Second
)

// Sessions are the terminal sessions of a node.
type Sessions struct {
	Systemd Systemd
	Machine *machine.Machine
	Program string // this agent's own file, which runs a session's process
	// After is the file of whichever agent is installed when a session ends.
	After    string
	Config   string // the agent's config file, for After; empty: the default
	StateDir string // of the agent: sessions dial with its key
	// Ask sends a request to a session's process: handover.Ask.
	Ask func(ctx context.Context, dir string, r handover.Request) (handover.Reply, error)
}

// Order is a task's request to open a session, or to send it to a relay.
type Order struct {
	TaskID string
	Params *taskcatalog.TerminalOpenParams
	// Sudo: the user was given sudo when the account was made.
	Sudo bool
	// Allowed is called once the session can be found: a caller that ends sessions first forbids
	// new ones, and then looks for sessions.
	Allowed func() error
	// Mint gets the token. It is called once the process can take the token.
	Mint func(ctx context.Context) ([]byte, error)
}

// Open starts the session unless the session runs or is to be resumed, and hands over. Codes: those
// of Order's functions, of package handover, and of the session's process; terminal_ending,
// terminal_gone.
func (s *Sessions) Open(ctx context.Context, o Order) (*taskcatalog.TerminalOpenResult, error) {
	id := o.Params.SessionID
	if err := CheckID(id); err != nil {
		return nil, err
	}
	ran, err := s.start(ctx, o.Params)
	if err != nil {
		return nil, err
	}
	resumed, err := s.handOver(ctx, o)
	if err == nil {
		return &taskcatalog.TerminalOpenResult{Unit: Name(id), Resumed: resumed}, nil
	}
	if !ran {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTime)
		defer cancel()
		err = errors.Join(err, s.Systemd.Stop(ctx, Name(id)))
	}
	return nil, err
}

// start starts the session unless the session runs. A session that has begun is never started again,
// because the program would run twice.
func (s *Sessions) start(ctx context.Context, p *taskcatalog.TerminalOpenParams) (ran bool, err error) {
	if p.Resume {
		st, there, err := s.find(ctx, p.SessionID)
		if err == nil && (!there || !st.runs()) {
			err = taskcatalog.Errorf(CodeGone,
				"terminal session %s has no process on the node any more: the process was killed, or the node was restarted (open another session)", p.SessionID)
		}
		return true, err
	}
	err = s.Systemd.StartTerminal(ctx, s.spec(p))
	if errors.Is(err, ErrExists) {
		return true, nil
	}
	if err != nil {
		err = fmt.Errorf("cannot start terminal session %s: %w", p.SessionID, err)
	}
	return false, err
}

func (s *Sessions) handOver(ctx context.Context, o Order) (resumed bool, err error) {
	id := o.Params.SessionID
	if err := o.Allowed(); err != nil {
		return false, err
	}
	begun, err := s.reach(ctx, id, o.TaskID)
	if err != nil {
		return false, err
	}
	token, err := o.Mint(ctx)
	if err != nil {
		return false, err
	}
	defer clear(token)
	h := handover.Handover{Token: string(token), StateDir: s.StateDir, Params: *o.Params, Sudo: o.Sudo}
	if begun { // perhaps begun by an older agent: send only fields known to every version
		h.Params, h.Sudo = taskcatalog.TerminalOpenParams{SessionID: id, Relay: o.Params.Relay}, false
	}
	reply, err := s.Ask(ctx, Dir(id), handover.Request{SessionID: id, TaskID: o.TaskID, Handover: &h})
	if err == nil {
		err = reply.Err()
	}
	return reply.Resumed, err
}

// reach returns when the process of a session answers: another task may have started it just now.
// begun reports whether another task has begun the session.
func (s *Sessions) reach(ctx context.Context, id, task string) (begun bool, err error) {
	within, cancel := context.WithTimeout(ctx, reachTime)
	defer cancel()
	for {
		reply, err := s.Ask(within, Dir(id), handover.Request{SessionID: id, TaskID: task})
		if taskcatalog.CodeOf(err, "") != handover.CodeNobody {
			if err == nil {
				err = reply.Err()
			}
			return reply.Resumed, err
		}
		switch st, there, failed := s.find(within, id); {
		case failed != nil:
			return false, failed
		case !there || !st.runs():
			return false, taskcatalog.Errorf(CodeEnding, "terminal session %s has ended on the node (open another session)", id)
		}
		select {
		case <-time.After(reachPoll):
		case <-within.Done():
			return false, errors.Join(err, context.Cause(ctx))
		}
	}
}

func (s *Sessions) find(ctx context.Context, id string) (State, bool, error) {
	all, err := s.Systemd.Terminals(ctx)
	i := slices.IndexFunc(all, func(st State) bool { return st.Unit == Name(id) })
	if i < 0 {
		return State{}, false, err
	}
	return all[i], true, err
}

// Look returns the state of a session: its unit's state, "" without a unit; whether its process has
// taken a task's handover; and whether the session ran already at this handover.
func (s *Sessions) Look(ctx context.Context, id, task string) (active string, taken, resumed bool, err error) {
	if err := CheckID(id); err != nil {
		return "", false, false, err
	}
	st, there, err := s.find(ctx, id)
	if err != nil || !there {
		return "", false, false, err
	}
	reply, err := s.Ask(ctx, Dir(id), handover.Request{SessionID: id, TaskID: task})
	if taskcatalog.CodeOf(err, "") == handover.CodeNobody {
		return st.Active, false, false, nil
	}
	return st.Active, reply.Taken, reply.Taken && reply.Resumed, err
}

// Close ends a session and waits until no process of it is left. Codes: terminal_left.
func (s *Sessions) Close(ctx context.Context, id string) (existed bool, err error) {
	if err := CheckID(id); err != nil {
		return false, err
	}
	_, existed, err = s.find(ctx, id)
	if err != nil {
		return false, err
	}
	return existed, s.stop(ctx, Name(id))
}

// stop stops a unit, even a unit no longer known to systemd: processes left in its cgroup are found
// in any case.
func (s *Sessions) stop(ctx context.Context, unit string) error {
	if err := s.Systemd.Stop(ctx, unit); err != nil {
		return err
	}
	left, err := s.countProcesses(unit)
	if left > 0 {
		err = taskcatalog.Errorf(CodeLeft, "%d processes of %s outlived SIGKILL (reimage the node)", left, unit)
	}
	return err
}

// countProcesses counts the processes in a unit's cgroup. With an error there may be more.
func (s *Sessions) countProcesses(unit string) (count int, err error) {
	all, err := s.Machine.Processes()
	if err != nil {
		return 0, err
	}
	var unsure error
	for _, p := range all {
		cgroup, err := s.Machine.Cgroup(p.PID)
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ESRCH) || p.Ended() {
			continue
		}
		if err != nil { // the owner is unknown; the other processes are checked all the same
			unsure = fmt.Errorf("cannot tell whether process %d belongs to %s: %w (end the process)", p.PID, unit, err)
			continue
		}
		for at := cgroup; at != "/" && at != "." && at != ""; at = path.Dir(at) {
			if path.Base(at) == unit {
				count++
				break
			}
		}
	}
	return count, unsure
}

// EndUser ends all sessions of a user, or of all users for "", and returns how many there were. A
// failure does not keep the others from being stopped.
func (s *Sessions) EndUser(ctx context.Context, user string) (ended int, err error) {
	all, err := s.Systemd.Terminals(ctx)
	if err != nil {
		return 0, err
	}
	var stopping sync.WaitGroup
	errs := make([]error, len(all))
	for i, st := range all {
		if user == "" || st.isOf(user) {
			ended++
			stopping.Go(func() { errs[i] = s.stop(ctx, st.Unit) })
		}
	}
	stopping.Wait()
	return ended, errors.Join(errs...)
}
