package process

import (
	"context"
	"errors"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/hostler/hostler/agent/terminal"
	"github.com/hostler/hostler/agent/terminal/handover"
	"github.com/hostler/hostler/agent/terminal/logins"
	"github.com/hostler/hostler/taskcatalog"
)

// Codes of a session's process.
const (
	CodeNotHandedOver taskcatalog.Code = "terminal_not_handed_over" // no handover came
	CodeOver          taskcatalog.Code = "terminal_over"            // the session has ended
)

// Time limits: for the agent, for the first relay, for a program after a hang-up; and the lifetime
// of a token minted just now.
const (
	handoverWithin = time.Minute
	connectWithin  = time.Minute
	grace          = 5 * time.Second
	tokenLife      = 30 * time.Second
)

// Config is the parameters of a process.
type Config struct {
	SessionID string
	Dir       string // for its socket, root's alone
	Root      string // of the machine with the accounts: "/" in the field
	Members   func(stateDir string) (Member, error)
	Logins    logins.Book
	Log       *zap.Logger
	Notify    func(state string) // systemd
	Within    time.Duration      // for the first handover; zero means a minute
	OwnScore  string             // the kernel's out-of-memory score file of this process
}

// process is the process of a session.
type process struct {
	Config
	first   chan takenSession // used once
	passes  chan terminal.Pass
	endedCh chan struct{} // closed when the session is over
	failed  chan error    // the first handover failed

	mu          sync.Mutex
	began       bool
	tasks       []string // whose handovers were taken
	creatorTask string   // the task that began the session
}

// takenSession is a session after its handover.
type takenSession struct {
	terminal.Options
	log *zap.Logger
}

// Run holds a session until it is over. An error is an error of the process; the session's own
// outcome is in the log. Codes: terminal_not_handed_over, terminal_stuck, terminal_start_failed.
func Run(ctx context.Context, c Config) error {
	c.Log = c.Log.With(zap.String("session", c.SessionID))
	p := &process{
		Config: c, first: make(chan takenSession, 1), passes: make(chan terminal.Pass), endedCh: make(chan struct{}),
		failed: make(chan error, 1),
	}
	socket, err := handover.Open(c.Dir)
	if err != nil {
		return err
	}
	serving, stop := context.WithCancel(context.WithoutCancel(ctx))
	var server sync.WaitGroup
	server.Go(func() {
		socket.Answer(serving, p.answer, func(err error) { p.Log.Warn("a handover is refused", zap.Error(err)) })
	})
	defer server.Wait()
	defer stop()
	defer close(p.endedCh)
	c.Notify("READY=1")
	late := time.NewTimer(orDefault(c.Within))
	defer late.Stop()
	select {
	case h := <-p.first:
		res, err := terminal.Run(ctx, h.Options)
		return p.ended(h.log, res, err)
	case err := <-p.failed:
		return p.ended(p.Log, terminal.Result{Code: taskcatalog.CodeOf(err, terminal.CodeStartFailed)}, err)
	case <-late.C:
		return taskcatalog.Errorf(CodeNotHandedOver, "terminal session %s received no handover within %s", c.SessionID, orDefault(c.Within))
	case <-ctx.Done():
		return p.ended(p.Log, terminal.Result{Code: terminal.CodeClosed}, nil)
	}
}

func orDefault(d time.Duration) time.Duration {
	if d > 0 {
		return d
	}
	return handoverWithin
}

// ended logs how the session ended. Expected outcomes, such as an unreachable relay or a refused
// user, are no failure of this process. A failure is reported by its code only, because its text
// may have words of the command and would go to the journal.
func (p *process) ended(log *zap.Logger, res terminal.Result, err error) error {
	fields := []zap.Field{zap.String("code", string(res.Code))}
	if res.Exit != nil {
		fields = append(fields, zap.Int32("status", res.Exit.Status), zap.String("signal", res.Exit.Signal))
	}
	if strings.HasPrefix(string(res.Code), "frame_") { // from the relay's frames, without words of a command
		fields = append(fields, zap.Error(err))
	}
	log.Info("the terminal session is over", fields...)
	p.Notify("STOPPING=1")
	if err == nil {
		return nil
	}
	switch code := taskcatalog.CodeOf(err, ""); code {
	case "":
		return err
	case terminal.CodeStuck, terminal.CodeStartFailed:
		return taskcatalog.Errorf(code, "terminal session %s failed; its relay has the reason", p.SessionID)
	}
	return nil
}

// answer answers the agent.
func (p *process) answer(r handover.Request) handover.Reply {
	if r.SessionID != p.SessionID {
		return handover.Refuse(taskcatalog.Errorf(handover.CodeInvalid,
			"this process serves session %s, and the handover is for another session", p.SessionID))
	}
	if r.Handover == nil {
		p.mu.Lock()
		defer p.mu.Unlock()
		return handover.Reply{Resumed: p.began && r.TaskID != p.creatorTask, Taken: slices.Contains(p.tasks, r.TaskID)}
	}
	resumed, err := p.take(r)
	if err != nil {
		p.Log.Warn("the handover is refused", zap.String("task", taskcatalog.Clean(r.TaskID, 80)),
			zap.String("code", string(taskcatalog.CodeOf(err, handover.CodeInvalid))))
		return handover.Refuse(err)
	}
	p.mu.Lock()
	if !resumed {
		p.creatorTask = r.TaskID
	}
	p.tasks = append(p.tasks[max(0, len(p.tasks)-keptTasks+1):], r.TaskID)
	p.mu.Unlock()
	return handover.Reply{Resumed: resumed, Taken: true}
}

// keptTasks is how many tasks with taken handovers are remembered.
const keptTasks = 64

// take begins the session, or sends it to another relay.
func (p *process) take(r handover.Request) (resumed bool, err error) {
	h := r.Handover
	if host, port, err := net.SplitHostPort(h.Params.Relay); err != nil || host == "" || invalidPort(port) || h.Token == "" {
		return false, taskcatalog.Errorf(handover.CodeInvalid, "the handover names no relay, or has no token for the relay")
	}
	pass := terminal.Pass{Relay: h.Params.Relay, Token: h.Token, Until: time.Now().Add(tokenLife)}
	p.mu.Lock()
	resumed, p.began = p.began, true
	p.mu.Unlock()
	if resumed {
		select {
		case p.passes <- pass:
			p.Log.Info("the terminal session is sent to a relay", zap.String("task", r.TaskID), zap.String("relay", pass.Relay))
			return true, nil
		case <-p.endedCh:
		case <-time.After(passTime):
		}
		return true, taskcatalog.Errorf(CodeOver, "terminal session %s has ended", p.SessionID)
	}
	o, err := p.session(r, pass)
	if err == nil {
		err = o.Check()
	}
	if err != nil {
		p.failed <- err
		return false, err
	}
	o.log.Info("the terminal session begins", zap.String("task", r.TaskID), zap.String("relay", pass.Relay), zap.String("user", o.User))
	p.first <- o
	return false, nil
}

// passTime is how long a handover waits for a session that is ending.
const passTime = 5 * time.Second

func invalidPort(port string) bool {
	n, err := strconv.ParseUint(port, 10, 16)
	return err != nil || n == 0
}

// session builds the session requested by a task.
func (p *process) session(r handover.Request, pass terminal.Pass) (takenSession, error) {
	stateDir, q := r.Handover.StateDir, r.Handover.Params
	member, err := p.Members(stateDir)
	if err != nil {
		return takenSession{}, err
	}
	log := p.Log.With(zap.String("node", member.NodeID))
	// With the node's identity at the moment of the dial.
	dial := func(ctx context.Context, relay string) (terminal.Conn, error) {
		m, err := p.Members(stateDir)
		if err != nil {
			return nil, err
		}
		return terminal.Dial(ctx, relay, m.Config)
	}
	return takenSession{log: log, Options: terminal.Options{
		SessionID: p.SessionID, Pass: pass, Passes: p.passes, Dial: dial,
		Root: p.Root, User: q.Username, Command: q.Command, Term: q.Term, Locale: q.Locale, AllowRoot: q.AllowRoot, Sudo: r.Handover.Sudo,
		OnStart:        func(b terminal.ProgramInfo) { p.logIn(log, b) },
		ConnectTimeout: connectWithin, DetachTimeout: time.Duration(q.DetachSeconds) * time.Second,
		MaxTime: time.Duration(q.MaxSeconds) * time.Second, Grace: grace,
	}}, nil
}

// logIn records the started program. A login that cannot be recorded does not turn its user away:
// the log has it.
func (p *process) logIn(log *zap.Logger, b terminal.ProgramInfo) {
	login := logins.Login{TTY: b.TTY, PID: b.PID, User: b.User.Name, From: "hostler:" + p.SessionID}
	err := errors.Join(HideMemory(), keep(p.Dir, login), p.Logins.Begin(login))
	log.Info("a user is logged in", zap.String("user", b.User.Name), zap.Uint32("uid", b.User.UID), zap.String("tty", b.TTY),
		zap.Int("pid", b.PID))
	if err != nil {
		log.Error("the login could not be recorded", zap.Error(err))
	}
	if err := setOOMScore(p.OwnScore); err != nil {
		log.Warn("cannot protect the session when memory runs out: a user who takes all memory may end it", zap.Error(err))
	}
}
