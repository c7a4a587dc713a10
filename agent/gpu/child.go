package gpu

import (
	"bufio"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hostler/hostler/taskcatalog"
)

// Child is the main function of the helper: it reads a request from stdin, answers on stdout and
// returns the exit status. Child ends by itself when stdin ends, because then the agent is gone.
func Child(vendors []Vendor, now func() time.Time, random [32]byte) int {
	// CUDA and HIP bind their state to the calling thread.
	runtime.LockOSThread()
	answers, err := takeStdout()
	if err == nil {
		// A core dump would hold the memory read back: a tenant's data.
		err = unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{})
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "cannot set the helper up:", err)
		return 1
	}
	stdin := bufio.NewReaderSize(os.Stdin, maxLine)
	line, err := stdin.ReadSlice('\n')
	if err != nil {
		fmt.Fprintln(os.Stderr, "cannot read a request from stdin:", err)
		return 1
	}
	// line is a part of the reader's buffer, so copy it.
	line = slices.Clone(line)
	go func() {
		_, _ = io.Copy(io.Discard, stdin)
		os.Exit(1) // also while a driver call does not return
	}()
	c := &child{vendors: vendors, now: now, rand: rand.New(rand.NewChaCha8(random)), out: answers}
	result, err := c.answer(line)
	if err != nil {
		c.say(reply{Error: &replyError{
			Code:    taskcatalog.CodeOf(err, CodeDriverFailed),
			Message: taskcatalog.Clean(err.Error(), taskcatalog.MaxText),
		}})
		return 0
	}
	raw, err := taskcatalog.Encode(result)
	if err != nil {
		c.say(reply{Error: &replyError{
			Code:    CodeDriverFailed,
			Message: "cannot encode the result: " + taskcatalog.Clean(err.Error(), 300),
		}})
		return 0
	}
	c.say(reply{Result: raw})
	return 0
}

// takeStdout keeps stdout for answers: the output of libraries goes to stderr.
func takeStdout() (*os.File, error) {
	fd, err := unix.FcntlInt(1, unix.F_DUPFD_CLOEXEC, 10)
	if err != nil {
		return nil, err
	}
	if err := unix.Dup3(2, 1, 0); err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), "answers"), nil
}

type child struct {
	vendors []Vendor
	now     func() time.Time
	rand    *rand.Rand
	out     io.Writer
}

// say writes a reply. Without a reader there is nothing left to do.
func (c *child) say(r reply) {
	raw, err := taskcatalog.Encode(r)
	if err != nil {
		os.Exit(1)
	}
	if _, err := c.out.Write(append(raw, '\n')); err != nil {
		os.Exit(1)
	}
}

// answer executes a request. The vendor's libraries are closed before answer returns: once the
// parent has the answer, the helper no longer holds the GPU.
func (c *child) answer(line []byte) (result any, err error) {
	var r request
	if err := taskcatalog.DecodeStrict(line, &r); err != nil {
		return nil, err
	}
	i := slices.IndexFunc(c.vendors, func(v Vendor) bool { return v.Name() == r.Vendor })
	if i < 0 {
		return nil, taskcatalog.Errorf(CodeUnsupported, "this agent supports no GPUs of vendor %q", taskcatalog.Clean(r.Vendor, 40))
	}
	v := c.vendors[i]
	defer func() {
		if e := v.Close(); err == nil {
			err = e
		}
	}()
	switch r.Op {
	case opSurvey:
		s := Survey{vendor: v.Name()}
		if s.GPUs, s.Libraries, err = v.Survey(); err != nil {
			return nil, err
		}
		return s, s.check() // texts of a library need not be UTF-8
	case opHolders:
		return v.Holders(r.UUID)
	case opState:
		return v.State(r.UUID)
	case opLook:
		l, err := v.Look()
		if err != nil {
			return nil, err
		}
		return l, l.check() // texts of a library need not be UTF-8
	case opApply:
		if r.Want == nil {
			return nil, taskcatalog.Errorf(taskcatalog.CodeMalformed, "apply needs settings")
		}
		return v.Apply(r.UUID, *r.Want)
	case opReset:
		return noResult{}, v.Reset(r.UUIDs)
	case opCleanLocal:
		return noResult{}, v.CleanLocal(r.UUID)
	case opScrub, opProbe:
		return c.memory(v, r)
	}
	return nil, taskcatalog.Errorf(CodeUnsupported, "the helper knows no operation %q", taskcatalog.Clean(r.Op, 40))
}

// memory executes the requests that open a device's memory.
func (c *child) memory(v Vendor, r request) (result any, err error) {
	m, err := v.OpenMemory(r.UUID)
	if err != nil {
		return nil, err
	}
	defer func() {
		if e := m.Close(); err == nil {
			err = e
		}
	}()
	e := &engine{memory: m, now: c.now, rand: c.rand, progress: func(p Progress) { c.say(reply{Progress: &p}) }}
	switch {
	case r.Op == opScrub && r.Scrub != nil && len(r.Scrub.Nonce) >= 16:
		return e.scrub(NewPattern(r.Scrub.Nonce, r.UUID))
	case r.Op == opProbe && r.Probe != nil && r.Probe.FreePercent >= 1 && r.Probe.FreePercent <= 100:
		return e.probe(r.Probe.FreePercent)
	}
	return nil, taskcatalog.Errorf(taskcatalog.CodeMalformed, "the request %s lacks its options or a nonce of 16 bytes", r.Op)
}
