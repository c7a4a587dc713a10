package terminal

import (
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hostler/hostler/agent/machine"
	"github.com/hostler/hostler/taskcatalog/wire/frame"
)

// box is a machine's root in which the test's own user is called alice and has the test binary as
// shell.
func box(t *testing.T) (root, self string) {
	t.Helper()
	root = t.TempDir()
	self, err := os.Executable()
	ok(t, err)
	me, err := user.Current()
	ok(t, err)
	ok(t, os.MkdirAll(filepath.Join(root, "etc"), 0o755))
	write(t, root, "etc/passwd", fmt.Sprintf("root:x:0:0::/root:/bin/bash\nalice:x:%s:%s:Alice:%s:%s\n", me.Uid, me.Gid, root, self))
	write(t, root, "etc/group", "root:x:0:\nvideo:x:44:bob,alice\nothers:x:45:bob\n")
	write(t, root, "etc/shadow", "alice:!:20000:0:99999:7:::\n")
	write(t, root, "etc/shells", "# what may be\n/bin/bash\n"+self+"\n")
	return root, self
}

func write(t *testing.T, root, name, text string) {
	t.Helper()
	ok(t, os.WriteFile(filepath.Join(root, name), []byte(text), 0o644))
}

// runs begins a real session of the test binary with the given behaviour.
func runs(t *testing.T, what string) (*running, *relay) {
	t.Helper()
	leavesNothing(t)
	root, self := box(t)
	r := newRelay()
	live, err := machine.Open("/")
	ok(t, err)
	t.Cleanup(func() { live.Close() })
	o := Options{
		SessionID: "s-1", Dial: r.dial, Root: root, User: "alice", Command: []string{self, "be", what}, AllowRoot: true,
		Locale: map[string]string{"LC_TIME": "de_DE.UTF-8"}, ConnectTimeout: time.Minute, DetachTimeout: time.Minute, Grace: 100 * time.Millisecond,
	}
	run := begin(newSession(o, func() (program, error) { return o.start(live) }))
	t.Cleanup(func() {
		run.stop()
		<-run.over
	})
	return run, r
}

// hears takes output from its beginning.
func hears(limit uint64) *frame.Inflow {
	in := frame.NewInflow(0)
	in.Allow(limit)
	return in
}

func TestAProgramHasATerminalOfItsOwnAndInheritsNothing(t *testing.T) {
	t.Setenv("SECRET", "s3cret")
	t.Setenv("LD_PRELOAD", "")
	inherited, err := unix.Dup(2) // a descriptor that every program would inherit
	ok(t, err)
	defer unix.Close(inherited)
	run, r := runs(t, "surroundings")
	p, _ := r.welcome(t, frame.Welcome{Limit: window})
	got := p.until(t, hears(window), "end\r\n")
	uid, gid := os.Getuid(), os.Getgid()
	groups := "[44]"
	if uid != 0 {
		groups = "[" // without root the groups stay
	}
	for _, want := range []string{
		"leads true controls true\r\n", fmt.Sprintf("who %d %d %s", uid, gid, groups), fmt.Sprintf("tty <nil> %d 600\r\n", uid),
		"env USER=alice\r\n", "env LOGNAME=alice\r\n", "env TERM=xterm\r\n", "env LC_TIME=de_DE.UTF-8\r\n", "env SHELL=", "env HOME=/", "env PATH=/usr",
		"dir " + filepath.Dir(t.TempDir()),
	} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is not in\n%s", want, got)
		}
	}
	if n := strings.Count(got, "\r\nenv "); n != 7 {
		t.Errorf("the environment has %d", n)
	}
	if strings.Contains(got, "\r\nopen ") {
		t.Errorf("there is more open:\n%s", got)
	}
	await[frame.Exit](t, p)
	p.send(t, frame.Bye{})
	if res := run.end(t, ""); res.Exit == nil || *res.Exit != (frame.Exit{}) {
		t.Errorf("the result is %+v", res)
	}
}

func TestAFloodIsHeldUpAtTheTerminalAndAnInterruptPasses(t *testing.T) {
	for name, interrupt := range map[string]frame.Frame{
		"typed": frame.Data{Bytes: []byte{3}}, "as a signal": frame.Signal{Name: "INT"},
	} {
		t.Run(name, func(t *testing.T) {
			run, r := runs(t, "flood")
			p, _ := r.welcome(t, frame.Welcome{Limit: 40 << 10})
			for got := 0; got < 40<<10; { // then the reader stops
				got += len(await[frame.Data](t, p).Bytes)
			}
			start := time.Now()
			p.send(t, interrupt)
			if name == "typed" {
				await[frame.Ack](t, p) // the input was taken, and the flood is still unread
			}
			go func() { // now it reads on: the rest, and the end
				_, _ = p.Write(mustAppend(frame.Ack{Taken: 40 << 10, Limit: 1 << 30}))
			}()
			rest := 0
			for {
				f := p.next(t)
				if d, is := f.(frame.Data); is {
					rest += len(d.Bytes)
				}
				if exit, is := f.(frame.Exit); is {
					if exit.Signal != "INT" || exit.Status != 130 {
						t.Errorf("the end is %+v", exit)
					}
					break
				}
			}
			if rest > 1<<20 || time.Since(start) > 20*time.Second {
				t.Errorf("after the interrupt came %d bytes, in %s", rest, time.Since(start))
			}
			p.send(t, frame.Bye{})
			run.end(t, "")
		})
	}
}

func mustAppend(f frame.Frame) []byte {
	raw, err := frame.Append(nil, f)
	if err != nil {
		panic(err)
	}
	return raw
}

// The kernel returns little of a terminal at a time, and each piece costs a frame.
func TestAllThatATerminalHasIsReadTogether(t *testing.T) {
	leavesNothing(t)
	root, self := box(t)
	live, err := machine.Open("/")
	ok(t, err)
	defer live.Close()
	p, err := Options{Root: root, User: "alice", Command: []string{self, "be", "flood"}, AllowRoot: true, Grace: 100 * time.Millisecond}.start(live)
	ok(t, err)
	buf := make([]byte, frame.MaxData)
	reads := func(read func([]byte) (int, error)) (n int) {
		for total := 0; total < 2<<20; n++ {
			some, err := read(buf)
			ok(t, err)
			total += some
		}
		return n
	}
	for deadline := time.Now().Add(time.Minute); ; {
		together, single := reads(p.Read), reads(p.(*shell).master.Read)
		if together < single*2/3 {
			break
		}
		if time.Now().After(deadline) {
			t.Errorf("%d reads of what is there together, and %d of single ones", together, single)
			break
		}
	}
	p.HangUp(0)
	p.Wait()
	ok(t, p.Close())
}

func TestWhatAProgramWroteBeforeItsEndIsReadToTheEnd(t *testing.T) {
	run, r := runs(t, "lines")
	p, _ := r.welcome(t, frame.Welcome{Limit: 1000})
	in := hears(1000)
	got := p.until(t, in, fmt.Sprintf("%06d\r\n", lines-1))
	if want := lines * 8; len(got) != want {
		t.Errorf("%d bytes came, want %d", len(got), want)
	}
	if f := await[frame.EOF](t, p); f.Offset != lines*8 {
		t.Errorf("the end is at %d", f.Offset)
	}
	await[frame.Exit](t, p)
	p.send(t, frame.Bye{})
	run.end(t, "")
}

func TestTheEndOfInputReachesAProgramInTheMiddleOfALine(t *testing.T) {
	run, r := runs(t, "cat")
	p, _ := r.welcome(t, frame.Welcome{Limit: window})
	p.send(t, frame.Data{Bytes: []byte("one\ntwo")}, frame.EOF{Offset: 7})
	p.until(t, hears(window), "<two>")
	if exit := await[frame.Exit](t, p); exit.Status != 0 {
		t.Errorf("the end is %+v", exit)
	}
	p.send(t, frame.Bye{})
	run.end(t, "")
}

func TestAProgramLearnsTheSizeOfItsTerminal(t *testing.T) {
	run, r := runs(t, "sizes")
	p, _ := r.welcome(t, frame.Welcome{Limit: window})
	in := hears(window)
	p.until(t, in, "size &{24 80 0 0} <nil>")
	p.send(t, frame.Resize{Columns: 132, Rows: 50})
	p.until(t, in, "size &{50 132 0 0} <nil>")
	p.send(t, frame.Signal{Name: "KILL"})
	if exit := await[frame.Exit](t, p); exit != (frame.Exit{Status: 137, Signal: "KILL"}) {
		t.Errorf("the end is %+v", exit)
	}
	p.send(t, frame.Bye{})
	run.end(t, "")
}

func TestASignalReachesTheForegroundAndNobodyElse(t *testing.T) {
	run, r := runs(t, "pair")
	p, _ := r.welcome(t, frame.Welcome{Limit: window})
	in := hears(window)
	p.until(t, in, "listens\r\nlistens\r\n") // possibly in one frame
	p.send(t, frame.Signal{Name: "USR1"})
	p.until(t, in, "heard user defined signal 1\r\n")
	p.send(t, frame.Signal{Name: "TERM"})
	var rest []byte
	for {
		f := p.next(t)
		if d, is := f.(frame.Data); is {
			rest = append(rest, d.Bytes...)
		}
		if exit, is := f.(frame.Exit); is {
			if exit != (frame.Exit{Status: 7}) || string(rest) != "heard terminated\r\n" {
				t.Errorf("the end is %+v, after %q", exit, rest)
			}
			break
		}
	}
	p.send(t, frame.Bye{})
	run.end(t, "")
}

func TestAProgramThatHearsNoHangUpIsKilled(t *testing.T) {
	run, r := runs(t, "deaf")
	p, _ := r.welcome(t, frame.Welcome{Limit: window})
	p.until(t, hears(window), "is deaf")
	p.send(t, frame.Bye{Code: "node_drained"})
	if res := run.end(t, "node_drained"); res.Exit == nil || res.Exit.Signal != "KILL" {
		t.Errorf("the result is %+v", res)
	}
}

func TestWhoIsLeftInASessionDoesNotOutliveItsProgram(t *testing.T) {
	run, r := runs(t, "parent")
	p, _ := r.welcome(t, frame.Welcome{Limit: window})
	got := p.until(t, hears(window), "<nil>")
	var pid int
	_, err := fmt.Sscanf(got[strings.Index(got, "child"):], "child %d", &pid)
	ok(t, err)
	await[frame.Exit](t, p)
	if err := syscall.Kill(pid, 0); err == nil {
		if raw, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat"); !strings.Contains(string(raw), ") Z ") {
			t.Errorf("process %d is still there: %s", pid, raw)
		}
	}
	p.send(t, frame.Bye{})
	run.end(t, "")
}

func TestAShellIsALoginShell(t *testing.T) {
	root, self := box(t)
	m, err := machine.Open(root)
	ok(t, err)
	defer m.Close()
	a, err := findAccount(m, "alice", true, false)
	ok(t, err)
	file, args, err := argv(m, a.Shell, nil)
	ok(t, err)
	if file != self || len(args) != 1 || args[0] != "-"+filepath.Base(self) {
		t.Errorf("%s is run as %q", file, args)
	}
}

// An operator who comes back has an empty screen of the same size.
func TestAProgramHearsOfASizeThatIsTheOneBefore(t *testing.T) {
	run, r := runs(t, "sizes")
	p, _ := r.welcome(t, frame.Welcome{Limit: window})
	in := hears(window)
	p.until(t, in, "size &{24 80 0 0} <nil>")
	for range 2 {
		p.send(t, frame.Resize{Columns: 80, Rows: 24})
		p.until(t, in, "size &{24 80 0 0} <nil>")
	}
	p.send(t, frame.Bye{Code: "done"})
	run.end(t, "done")
}

// The break goes unnoticed, and the returning operator sends a size.
func TestASizeIsToldAfterABreak(t *testing.T) {
	run, r := runs(t, "sizes")
	p, _ := r.welcome(t, frame.Welcome{Limit: window})
	in := hears(window)
	p.until(t, in, "size &{24 80 0 0} <nil>")
	p.Close()
	p, _ = r.welcome(t, frame.Welcome{Limit: in.Allow(window).Limit, Taken: in.Taken()})
	p.send(t, frame.Resize{Columns: 100, Rows: 40})
	p.until(t, in, "size &{40 100 0 0} <nil>")
	p.send(t, frame.Bye{Code: "done"})
	run.end(t, "done")
}
