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

// Bounds of what is kept of each direction, whatever the other side would allow.
const (
	inputWindow = 64 << 10
	outputKept  = 1 << 20
)

// Options is what a session is made of.
type Options struct {
	SessionID string
	Pass      Pass        // for the first connection
	Passes    <-chan Pass // each sends the session to another relay
	Dial      DialFunc

	Root      string   // of the machine whose accounts are meant: "/" in the field
	User      string   //
	Command   []string // empty: the user's login shell
	Term      string
	Locale    map[string]string // LANG and LC_ of the operator
	AllowRoot bool
	Sudo      bool // the user was given it, and may be root by way of it
	// Began is told of the program when it runs. Nil: nobody wants to know.
	Began func(Began)

	ConnectTimeout time.Duration // for the first Welcome
	DetachTimeout  time.Duration // for the relay to be away, or to take the end
	MaxTime        time.Duration // in all; zero: no end
	Grace          time.Duration // between SIGHUP and SIGKILL
}

// Began is the program of a session.
type Began struct {
	PID  int
	User machine.User
	TTY  string // the terminal's file, such as /dev/pts/3
}

// Result is how a session ended.
type Result struct {
	Exit *frame.Exit // how its program did; nil: it never ran, or cannot be ended
	Code taskcatalog.Code
}

// session is the state that outlasts connections. Everything below mu is under it. Whoever
// waits for something to be sent is told by changed, and who waits for the relay by given.
type session struct {
	Options
	begin func() (program, error)

	mu      sync.Mutex
	changed *sync.Cond
	given   *sync.Cond
	program program
	in      *frame.Inflow
	inOver  bool   // it has ended over a connection before
	queue   []byte // input that was taken and waits for the program
	last    byte   // of the input
	out     frame.Outflow
	size    *frame.Resize // to be told to the program
	exit    *frame.Exit   // and all of its output is in out
	pass    *Pass         // nil: nothing is dialed before somebody sends the session on
	before  *Pass         // for the same relay, should the pass be of no use; nil: none
	way     way

	pause *backoff.ExponentialBackOff
	wait  time.Duration // before the next connection
}

func newSession(o Options, begin func() (program, error)) *session {
	s := &session{Options: o, begin: begin, in: frame.NewInflow(0), pass: &o.Pass, way: way{moved: make(chan struct{})}, pause: newPause()}
	s.changed, s.given = sync.NewCond(&s.mu), sync.NewCond(&s.mu)
	s.in.Allow(inputWindow) // before anything is read; the first Ack tells it
	return s
}

// Run holds a session until it is over, and returns when nothing of it is left. Codes: all
// of this package, those of package frame, and what the relay says in its Bye.
func Run(ctx context.Context, o Options) (Result, error) {
	live, err := machine.Open("/")
	if err != nil {
		return Result{}, err
	}
	defer live.Close()
	return newSession(o, func() (program, error) { return o.start(live) }).run(ctx)
}

// Check judges what was asked for, as it would be when the program starts, and starts
// nothing. Codes: those of a user, a shell, a command and an environment.
func (o Options) Check() error {
	_, err := o.judge()
	return err
}

// judge says whom and what to start. It is asked again for each: an account may have ended.
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

// start starts it.
func (o Options) start(live *machine.Machine) (program, error) {
	st, err := o.judge()
	if err != nil {
		return nil, err
	}
	sh, err := startShell(live, st, o.Grace)
	if err != nil {
		return nil, err
	}
	if o.Began != nil {
		o.Began(Began{PID: sh.cmd.Process.Pid, User: st.User, TTY: sh.slave.Name()})
	}
	return sh, nil
}

// run goes from connection to connection. The program starts with the first Welcome: where
// no operator can be, no shell is.
func (s *session) run(ctx context.Context) (Result, error) {
	if s.MaxTime > 0 {
		timed, done := context.WithTimeoutCause(ctx, s.MaxTime, taskcatalog.Errorf(CodeTimeOver, "the terminal lasted as long as a session may: %s", s.MaxTime))
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
		// One that breaks at once is not dialed at once; another relay is.
		if time.Since(since) > pingAfter || s.currentWay().turn != l.way.turn {
			s.pause.Reset()
			s.wait = 0
		}
	}
	cancel(nil)
	return s.end(&own, err)
}

// end has nothing left of the session.
func (s *session) end(own *sync.WaitGroup, err error) (Result, error) {
	res := Result{Code: taskcatalog.CodeOf(err, CodeStartFailed)}
	if errors.Is(err, errOver) {
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
			return res, errors.Join(taskcatalog.Errorf(CodeStuck, "a process of the terminal of %s does not die", s.User), err)
		}
		err = errors.Join(err, s.program.Close())
	}
	s.mu.Lock()
	res.Exit = s.exit
	s.mu.Unlock()
	return res, err
}

// errOver is the end that the program's own was.
var errOver = errors.New("the session is over")

// serveProgram starts what goes on beside all connections.
func (s *session) serveProgram(ctx context.Context, stop context.CancelCauseFunc, own *sync.WaitGroup) {
	var output sync.WaitGroup
	output.Go(func() { s.pumpOutput(ctx) })
	own.Go(func() { s.pumpInput(ctx) })
	own.Go(func() { s.resize(ctx) })
	own.Go(func() {
		exit := s.program.Wait()
		// The relay has that long to take the rest, and the end.
		late := time.AfterFunc(s.DetachTimeout, func() { stop(errOver) })
		defer late.Stop()
		output.Wait()
		s.mu.Lock()
		s.exit = &exit
		s.mu.Unlock()
		s.changed.Broadcast()
		<-ctx.Done()
	})
}

// await holds until ready, which is asked under mu whenever told is, or the context ends.
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

// room is how much output may be read of the program.
func (s *session) room() int {
	return min(s.out.Room(), int(s.out.From()+outputKept-s.out.Sent()))
}

// pumpOutput reads of the program what the other side has room for, and not a byte more:
// the rest waits in the terminal, and the program with it.
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

// pumpInput writes to the program what was taken. One that ended takes no more: what is
// left is for nobody.
func (s *session) pumpInput(ctx context.Context) {
	for told := false; ; {
		s.mu.Lock()
		ok := s.await(ctx, s.given, func() bool { return len(s.queue) > 0 || (s.inOver || s.in.Ended()) && !told })
		chunk := append([]byte(nil), s.queue[:min(len(s.queue), 4<<10)]...)
		s.mu.Unlock()
		if !ok {
			return
		}
		if len(chunk) == 0 {
			told = true
			_ = s.program.EndInput(s.endings())
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

// endings is how often the end must be typed: the first only hands over a line that is not
// finished.
func (s *session) endings() int {
	if s.last == 0 || s.last == '\n' || s.last == '\r' {
		return 1
	}
	return 2
}

// resizePause has a storm of sizes come to one.
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
