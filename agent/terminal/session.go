package terminal

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v5"

	"github.com/hostler/hostler/agent/machine"
	"github.com/hostler/hostler/taskcatalog"
	"github.com/hostler/hostler/taskcatalog/wire/frame"
)

// Limits of the buffers of each direction, whatever the other side would allow.
const (
	inputWindow = 64 << 10
	outputKept  = 1 << 20
)

// Options are the parameters of a session.
type Options struct {
	SessionID string
	Pass      Pass        // for the first connection
	Passes    <-chan Pass // each sends the session to another relay
	Dial      DialFunc

	Root      string   // of the machine with the accounts: "/" in the field
	User      string   //
	Command   []string // empty: the user's login shell
	Term      string
	Locale    map[string]string // LANG and LC_ of the operator
	AllowRoot bool
	Sudo      bool // the user was given sudo, and may become root with it
	// OnStart is called when the program runs. May be nil.
	OnStart func(ProgramInfo)

	ConnectTimeout time.Duration // for the first Welcome
	DetachTimeout  time.Duration // for an absent relay, or for delivering the end
	MaxTime        time.Duration // total; zero: no limit
	Grace          time.Duration // between SIGHUP and SIGKILL
}

// ProgramInfo describes the program of a session.
type ProgramInfo struct {
	PID  int
	User machine.User
	TTY  string // the terminal's file, such as /dev/pts/3
}

// Result is how a session ended.
type Result struct {
	Exit *frame.Exit // the program's end; nil: it never ran, or cannot be ended
	Code taskcatalog.Code
}

// session is the state that outlasts connections. mu guards the fields below it. changed wakes
// senders; given wakes goroutines that wait for the relay.
type session struct {
	Options
	begin func() (program, error)

	mu         sync.Mutex
	changed    *sync.Cond
	given      *sync.Cond
	program    program
	in         *frame.Inflow
	inputEnded bool   // input ended over an earlier connection
	queue      []byte // received input that waits for the program
	last       byte   // of the input
	out        frame.Outflow
	size       *frame.Resize // to be set on the program's terminal
	exit       *frame.Exit   // set once all output is in out
	pass       *Pass         // nil: no dialing before the next pass arrives
	before     *Pass         // fallback for the same relay if pass is refused; nil: none
	way        way

	pause *backoff.ExponentialBackOff
	wait  time.Duration // before the next connection
}

func newSession(o Options, begin func() (program, error)) *session {
	s := &session{Options: o, begin: begin, in: frame.NewInflow(0), pass: &o.Pass, way: way{moved: make(chan struct{})}, pause: newPause()}
	s.changed, s.given = sync.NewCond(&s.mu), sync.NewCond(&s.mu)
	s.in.Allow(inputWindow) // before anything is read; the first Ack announces it
	return s
}

// Run holds a session until it is over, and returns when no process of it is left. Codes: all of
// this package, those of package frame, and the code of the relay's Bye.
func Run(ctx context.Context, o Options) (Result, error) {
	live, err := machine.Open("/")
	if err != nil {
		return Result{}, err
	}
	defer live.Close()
	return newSession(o, func() (program, error) { return o.start(live) }).run(ctx)
}

// Check judges the options as the program's start would, and starts nothing. Codes: those of a
// user, a shell, a command and an environment.
func (o Options) Check() error {
	_, err := o.judge()
	return err
}

// judge returns the user and the program to start. It is called again at the start, because an
// account may have ended meanwhile.
func (o Options) judge() (start, error) {
	m, err := machine.Open(o.Root)
	if err != nil {
		return start{}, err
	}
	defer m.Close()
	who, err := findAccount(m, o.User, o.AllowRoot, o.Sudo)
	if err != nil {
		return start{}, err
	}
	env, err := environ(who.User, o.Term, o.Locale)
	if err != nil {
		return start{}, err
	}
	file, argv, err := argv(m, who.Shell, o.Command)
	return start{account: who, file: file, argv: argv, env: env, size: frame.Resize{Columns: 80, Rows: 24}}, err
}

// start starts the program.
func (o Options) start(live *machine.Machine) (program, error) {
	st, err := o.judge()
	if err != nil {
		return nil, err
	}
	sh, err := startShell(live, st, o.Grace)
	if err != nil {
		return nil, err
	}
	if o.OnStart != nil {
		o.OnStart(ProgramInfo{PID: sh.cmd.Process.Pid, User: st.User, TTY: sh.slave.Name()})
	}
	return sh, nil
}

// run goes from connection to connection. The program starts with the first Welcome: without a
// possible operator there is no shell.
func (s *session) run(ctx context.Context) (Result, error) {
	if s.MaxTime > 0 {
		timed, done := context.WithTimeoutCause(ctx, s.MaxTime,
			taskcatalog.Errorf(CodeTimeOver, "the terminal session reached its time limit: %s", s.MaxTime))
		defer done()
		ctx = timed
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var own, ways sync.WaitGroup
	ways.Go(func() { s.takePasses(ctx) })
	defer ways.Wait()
	defer cancel(nil)
	limit, code := s.ConnectTimeout, CodeRelayUnreachable
	var err error
	for err == nil {
		var l *link
		if l, err = s.attach(ctx, limit, code); err != nil {
			break
		}
		limit, code = s.DetachTimeout, CodeDetached
		if s.program == nil {
			program, failed := s.begin()
			if err = failed; err != nil {
				l.refuse(err)
				break
			}
			s.mu.Lock()
			s.program = program
			s.mu.Unlock()
			s.serveProgram(ctx, cancel, &own)
		}
		since := time.Now()
		err = l.serve(ctx)
		// If the connection broke at once, wait before dialing this relay again; another relay is
		// dialed at once.
		if time.Since(since) > pingAfter || s.currentWay().turn != l.way.turn {
			s.pause.Reset()
			s.wait = 0
		}
	}
	cancel(nil)
	return s.end(&own, err)
}

// end removes everything left of the session.
func (s *session) end(own *sync.WaitGroup, err error) (Result, error) {
	res := Result{Code: taskcatalog.CodeOf(err, CodeStartFailed)}
	if errors.Is(err, errEnded) {
		res.Code, err = "", nil
	}
	if s.program != nil {
		s.program.HangUp(s.Grace)
		left := make(chan struct{})
		go func() { own.Wait(); close(left) }()
		select {
		case <-left:
		case <-time.After(killTime):
			res.Code = CodeStuck
			return res, errors.Join(taskcatalog.Errorf(CodeStuck, "a process of the terminal of %s does not end after SIGKILL", s.User),
				err)
		}
		err = errors.Join(err, s.program.Close())
	}
	s.mu.Lock()
	res.Exit = s.exit
	s.mu.Unlock()
	return res, err
}

// errEnded is the regular end, after the program's own end.
var errEnded = errors.New("the session is over")

// serveProgram starts the goroutines that outlast connections.
func (s *session) serveProgram(ctx context.Context, stop context.CancelCauseFunc, own *sync.WaitGroup) {
	var output sync.WaitGroup
	output.Go(func() { s.pumpOutput(ctx) })
	own.Go(func() { s.pumpInput(ctx) })
	own.Go(func() { s.resize(ctx) })
	own.Go(func() {
		exit := s.program.Wait()
		// The relay has DetachTimeout to take the remaining output and the Exit.
		late := time.AfterFunc(s.DetachTimeout, func() { stop(errEnded) })
		defer late.Stop()
		output.Wait()
		s.mu.Lock()
		s.exit = &exit
		s.mu.Unlock()
		s.changed.Broadcast()
		<-ctx.Done()
	})
}

// await blocks until ready, which is checked under mu at each signal of told, or until the context
// ends.
func (s *session) await(ctx context.Context, told *sync.Cond, ready func() bool) bool {
	if ctx.Err() == nil && ready() {
		return true
	}
	stop := context.AfterFunc(ctx, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		told.Broadcast()
	})
	defer stop()
	for ctx.Err() == nil {
		told.Wait()
		if ctx.Err() == nil && ready() {
			return true
		}
	}
	return false
}

// room is how many bytes of output may be read from the program.
func (s *session) room() int {
	return min(s.out.Room(), int(s.out.From()+outputKept-s.out.Sent()))
}

// pumpOutput reads no more from the program than the other side has room for: the rest waits in the
// terminal, and the program with it.
func (s *session) pumpOutput(ctx context.Context) {
	buf := make([]byte, frame.MaxData)
	for {
		s.mu.Lock()
		ok := s.await(ctx, s.given, func() bool { return s.room() > 0 })
		n := s.room()
		s.mu.Unlock()
		if !ok {
			return
		}
		n, err := s.program.Read(buf[:n])
		s.mu.Lock()
		if n > 0 {
			s.out.Add(buf[:n])
		}
		s.mu.Unlock()
		s.changed.Broadcast()
		if err != nil {
			return
		}
	}
}

// pumpInput writes the received input to the program. If the program has ended, the rest is
// discarded.
func (s *session) pumpInput(ctx context.Context) {
	for told := false; ; {
		s.mu.Lock()
		ok := s.await(ctx, s.given, func() bool { return len(s.queue) > 0 || (s.inputEnded || s.in.Ended()) && !told })
		chunk := append([]byte(nil), s.queue[:min(len(s.queue), 4<<10)]...)
		s.mu.Unlock()
		if !ok {
			return
		}
		if len(chunk) == 0 {
			told = true
			_ = s.program.EndInput(s.eofCount())
			continue
		}
		n, err := s.program.Write(chunk)
		if err != nil {
			n = len(chunk)
		}
		s.mu.Lock()
		s.last = chunk[n-1]
		s.queue = append(s.queue[:0], s.queue[n:]...)
		s.mu.Unlock()
		s.changed.Broadcast()
	}
}

// eofCount is how often the end-of-input character must be typed: on an unfinished line the first
// only submits the line.
func (s *session) eofCount() int {
	if s.last == 0 || s.last == '\n' || s.last == '\r' {
		return 1
	}
	return 2
}

// resizePause merges a burst of sizes into a single resize.
const resizePause = 50 * time.Millisecond

func (s *session) resize(ctx context.Context) {
	for {
		s.mu.Lock()
		ok := s.await(ctx, s.given, func() bool { return s.size != nil })
		size := s.size
		s.size = nil
		s.mu.Unlock()
		if !ok {
			return
		}
		_ = s.program.Resize(*size)
		if sleep(ctx, resizePause) {
			return
		}
	}
}
