package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/taskcatalog"
)

// The exit statuses.
const (
	exitDone     = 0
	exitFailed   = 1
	exitUsage    = 2 // bad usage or bad input
	exitRefused  = 3 // by policy or state
	exitNotFound = 4
	exitTimeout  = 5 // timed out waiting
)

// programEnded is the exit status of a program on a node, which becomes this program's status. The
// program has printed its own messages.
type programEnded int

func (p programEnded) Error() string { return fmt.Sprintf("the program ended with status %d", int(p)) }

var errInterrupted = broker.Errorf(broker.Internal, "interrupted", "stopped by a signal (work that the broker has accepted continues)")

// codeWaitTimeout is the code of a wait that timed out.
const codeWaitTimeout = "wait_timeout"

func timedOut(format string, args ...any) error {
	return broker.Errorf(broker.Unavailable, codeWaitTimeout, format, args...)
}

// usage is an error in how the command was called.
func usage(format string, args ...any) error {
	return broker.Errorf(broker.Invalid, "bad_usage", format, args...)
}

// exitOf is the only place that turns an error into an exit status.
func exitOf(err error) int {
	var e *broker.Error
	if !errors.As(err, &e) {
		return exitFailed
	}
	if e.Code == codeWaitTimeout {
		return exitTimeout
	}
	switch e.Kind {
	case broker.Invalid:
		return exitUsage
	case broker.Refused, broker.Unauthorized, broker.Forbidden:
		return exitRefused
	case broker.NotFound:
		return exitNotFound
	}
	return exitFailed
}

// end writes the error, if any, in one line, and returns the exit status.
func (a *app) end(err error) int {
	if err == nil {
		return exitDone
	}
	if p, ok := errors.AsType[programEnded](err); ok {
		return int(p)
	}
	code, text := "failed", err.Error()
	var e *broker.Error
	if errors.As(err, &e) {
		code, text = e.Code, e.Message
	}
	text = taskcatalog.Clean(strings.Join(strings.Fields(text), " "), 2000)
	_, _ = fmt.Fprintf(a.err, "error: %s: %s\n", taskcatalog.Clean(code, 64), text)
	return exitOf(err)
}
