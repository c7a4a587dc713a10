package machine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// stopPoll is the interval between two looks of StopProcesses. quietLooks is the number of looks in
// a row that must find no process: a single look misses a process that forks and ends while the
// list is read.
const (
	stopPoll   = 50 * time.Millisecond
	quietLooks = 4
)

// killTime is how long StopProcesses goes on with SIGKILL: processes that fork faster than they are
// killed do not keep StopProcesses busy for ever.
const killTime = 10 * time.Second

// StopProcesses ends every process that match chooses: SIGTERM, up to grace for them to end, then
// SIGKILL until several looks in a row find none. It returns how many processes it saw end, and the
// processes that are still there, usually in D state.
//
// kill, if not nil, is called after each look of the SIGKILL phase, with the processes found and
// before they are signalled one by one. kill ends processes in a way that needs no list, and may
// still read their state. The wait comes between a kill and the next look, so that the look sees
// processes started again meanwhile.
//
// Without an error, left holds every process that is left. A process that cannot be looked at is an
// error, returned after the others have ended.
func (m *Machine) StopProcesses(
	ctx context.Context, match func(Process) bool, grace time.Duration, kill func(left []Process) error,
) (stopped int, left []Process, err error) {
	ticker := time.NewTicker(stopPoll)
	defer ticker.Stop()
	return m.stopProcesses(ctx, match, grace, kill, func() <-chan time.Time { return ticker.C })
}

// stopProcesses is StopProcesses, but waits for next before each look except the first of each
// phase.
func (m *Machine) stopProcesses(
	ctx context.Context, match func(Process) bool, grace time.Duration, kill func(left []Process) error,
	next func() <-chan time.Time,
) (stopped int, left []Process, err error) {
	s := &processStop{m: m, match: match, kill: kill, next: next, seen: map[processID]bool{}}
	err = s.terminate(ctx, grace)
	if err == nil {
		err = s.killAll(ctx)
	}
	return len(s.seen) - len(s.left), s.left, err
}

// processStop is one run of StopProcesses.
type processStop struct {
	m     *Machine
	match func(Process) bool
	kill  func(left []Process) error // nil: processes are only killed one by one
	next  func() <-chan time.Time    // of the next look

	seen map[processID]bool
	left []Process // of the last look
}

// processID names a process for ever: pids are used again.
type processID struct {
	pid   int
	start uint64
}

// terminate sends SIGTERM to the processes of the first look, and waits for their end.
func (s *processStop) terminate(ctx context.Context, grace time.Duration) error {
	sig := unix.SIGTERM
	return s.until(ctx, grace, func(late bool) (bool, error) {
		_, err := s.look(sig)
		sig = 0
		return len(s.left) == 0 || late, err
	})
}

// killAll sends SIGKILL until several looks in a row find no process.
func (s *processStop) killAll(ctx context.Context) error {
	var unsure error // of the last look
	quiet := 0
	if s.kill != nil {
		quiet = -1 // the first look is before the first kill
	}
	err := s.until(ctx, killTime, func(late bool) (bool, error) {
		var err error
		if unsure, err = s.look(0); err != nil {
			return false, err
		}
		quiet++
		if len(s.left) > 0 {
			quiet = 0
		}
		if s.kill != nil { // if kill fails, the listed processes are still signalled one by one
			unsure = errors.Join(unsure, s.kill(s.left))
		}
		for _, p := range s.left {
			if err := s.m.signal(p, unix.SIGKILL); err != nil {
				return false, err
			}
		}
		// The limit applies to killing: on a busy machine the looks that prove the end may take
		// longer.
		return quiet == quietLooks || late && quiet <= 0, nil
	})
	switch {
	case err != nil || len(s.left) > 0:
		return err
	case unsure != nil:
		return unsure
	case quiet < quietLooks:
		return fmt.Errorf("new processes appeared for %v: the program that starts them still runs", killTime)
	}
	return nil
}

// look lists the matching processes and sends them a signal; 0: none. unsure says why a process
// could not be looked at.
func (s *processStop) look(sig unix.Signal) (unsure, err error) {
	s.left = nil
	all, err := s.m.Processes()
	if err != nil {
		return nil, err
	}
	var alive []Process
	for _, p := range all {
		if p.Unread != nil {
			unsure = p.Unread
			continue
		}
		if p.Ended() || p.Kernel || !s.match(p) {
			continue
		}
		alive = append(alive, p)
		s.seen[processID{p.PID, p.Start}] = true
		if sig != 0 {
			if err := s.m.signal(p, sig); err != nil {
				return nil, err
			}
		}
	}
	s.left = alive
	return unsure, nil
}

// until calls done again and again. late is true once limit has passed: then done decides whether
// to go on.
func (s *processStop) until(ctx context.Context, limit time.Duration, done func(late bool) (bool, error)) error {
	end := time.NewTimer(limit)
	defer end.Stop()
	for late := false; ; {
		if over, err := done(late); over || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-end.C:
			late = true
		case <-s.next():
		}
	}
}
