package fleet

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"
)

// processEnv turns a program into a fleet.
const processEnv = "HOSTLER_TEST_FLEET"

// tellEvery is the interval of a fleet's reports.
const tellEvery = 50 * time.Millisecond

// order is a line of input of a fleet's process, and told a line of its output.
type (
	order struct {
		Site *Site     `json:"site,omitempty"` // in the first order
		Join []Joining `json:"join,omitempty"`
		Cut  bool      `json:"cut,omitempty"`
		Play *Script   `json:"play,omitempty"`
		// Events is the file for the events of tasks; with Site.
		Events string `json:"events,omitempty"`
	}
	told struct {
		Counts Counts `json:"counts"`
		Played int64  `json:"played"`          // scripts so far, the first one included
		Error  string `json:"error,omitempty"` // the last error
	}
)

// Serve turns this program into a fleet if Start started it, and then does not return. main or
// TestMain calls Serve first.
func Serve() {
	if os.Getenv(processEnv) == "" {
		return
	}
	if err := serve(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "fleet:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// serve carries out orders until in ends.
func serve(in io.Reader, out io.Writer) error {
	orders := json.NewDecoder(in)
	var first order
	if err := orders.Decode(&first); err != nil {
		return err
	}
	if first.Site == nil {
		return errors.New("the first order names no site")
	}
	f := New(*first.Site)
	if first.Events != "" {
		done, err := f.writeEvents(first.Events)
		if err != nil {
			return err
		}
		defer done()
	}
	ctx, end := context.WithCancel(context.Background())
	defer f.Wait()
	defer end()
	go f.tell(ctx, out)
	for {
		var o order
		switch err := orders.Decode(&o); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
		for _, j := range o.Join {
			f.JoinMachine(ctx, j.Token, j.Machine)
		}
		if o.Cut {
			f.Cut()
		}
		if o.Play != nil {
			f.Play(*o.Play)
		}
	}
}

func (f *Fleet) tell(ctx context.Context, out io.Writer) {
	say := json.NewEncoder(out)
	for sleep(ctx, tellEvery) {
		t := told{Counts: f.Counts(), Played: f.played.Load()}
		if err := f.LastError(); err != nil {
			t.Error = err.Error()
		}
		if say.Encode(t) != nil {
			return
		}
	}
}

// writeEvents appends the events of tasks to a file, one event a line, until done is called.
func (f *Fleet) writeEvents(path string) (done func(), err error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	var mu sync.Mutex
	say := json.NewEncoder(file)
	f.Saw = func(e Event) {
		mu.Lock()
		defer mu.Unlock()
		_ = say.Encode(e) // unbuffered: what was written survives a kill of this process
	}
	return func() { _ = file.Close() }, nil
}

// Process is a fleet in a process of its own, which ends with the process that started it.
type Process struct {
	cmd   *exec.Cmd
	in    io.WriteCloser
	say   *json.Encoder
	ended chan struct{} // closed at the end of the output
	plays int64         // scripts that Play has sent

	mu   sync.Mutex
	last told
	next chan struct{} // closed at the next report
}

// Start starts this program again as a fleet (see Serve). Events of tasks are appended to the file
// events, unless events is empty.
func Start(s Site, events string) (*Process, error) {
	p := &Process{cmd: exec.Command("/proc/self/exe"), ended: make(chan struct{}), next: make(chan struct{})}
	p.cmd.Env = append(os.Environ(), processEnv+"=1")
	p.cmd.Stderr = os.Stderr
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	p.say = json.NewEncoder(p.in)
	go p.listen(out)
	return p, p.say.Encode(order{Site: &s, Events: events})
}

func (p *Process) listen(out io.Reader) {
	defer close(p.ended)
	for lines := bufio.NewScanner(out); lines.Scan(); {
		var t told
		if json.Unmarshal(lines.Bytes(), &t) != nil {
			continue
		}
		p.mu.Lock()
		p.last = t
		close(p.next)
		p.next = make(chan struct{})
		p.mu.Unlock()
	}
}

// PID is the process id of the fleet.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Join has nodes join by tokens.
func (p *Process) Join(tokens []string) error {
	var all []Joining
	for _, token := range tokens {
		all = append(all, Joining{Token: token})
	}
	return p.JoinMachines(all)
}

// JoinMachines has nodes join with the tokens of deployed machines.
func (p *Process) JoinMachines(all []Joining) error { return p.say.Encode(order{Join: all}) }

// Cut breaks every connection once, even in the middle of a request.
func (p *Process) Cut() error { return p.say.Encode(order{Cut: true}) }

// Play applies another script to all tasks that begin from now on. It returns when the fleet has the script.
func (p *Process) Play(s Script) error {
	if err := p.say.Encode(order{Play: &s}); err != nil {
		return err
	}
	p.plays++
	for {
		p.mu.Lock()
		last, next := p.last, p.next
		p.mu.Unlock()
		if last.Played > p.plays { // the fleet began with a script
			return nil
		}
		select {
		case <-next:
		case <-p.ended:
			return errors.New("the fleet ended before it had another script")
		}
	}
}

// Counts returns the fleet's last report.
func (p *Process) Counts() Counts {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.last.Counts
}

// Until returns when the fleet's report satisfies ok. The error contains the last counts before ctx
// ended, and the fleet's last error.
func (p *Process) Until(ctx context.Context, what string, ok func(Counts) bool) error {
	for {
		p.mu.Lock()
		last, next := p.last, p.next
		p.mu.Unlock()
		if ok(last.Counts) {
			return nil
		}
		select {
		case <-next:
		case <-p.ended:
			return fmt.Errorf("the fleet ended before %s", what)
		case <-ctx.Done():
			return fmt.Errorf("waited in vain for %s: %+v (the last error: %s)", what, last.Counts, last.Error)
		}
	}
}

// Close ends the fleet.
func (p *Process) Close() error {
	err := p.in.Close()
	<-p.ended
	return errors.Join(err, p.cmd.Wait())
}
