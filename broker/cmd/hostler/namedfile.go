package main

import (
	"bufio"
	"context"
	"io"
	"os"

	"golang.org/x/term"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/clientfile"
)

// maxDocument bounds a document read from a file, in bytes.
const maxDocument = 256 << 10

// interruptible returns the result of read, or context.Canceled once a signal has asked the command
// to end. A read of a terminal, or of a pipe without a writer, cannot be cancelled: it is left
// behind, and ends with the process.
func interruptible[T any](a *app, read func() (T, error)) (T, error) {
	type result struct {
		v   T
		err error
	}
	done := make(chan result, 1)
	go func() {
		v, err := read()
		done <- result{v, err}
	}()
	select {
	case r := <-done:
		return r.v, r.err
	case <-a.stopped:
		var none T
		return none, context.Canceled
	}
}

// readBounded reads a document from a file, or from stdin if path is "-".
func (a *app) readBounded(path string) ([]byte, error) { return a.readUpTo(maxDocument, path) }

// readUpTo is readBounded with its own limit in bytes. Pipes work as well, such as a shell's <(…).
func (a *app) readUpTo(most int, path string) ([]byte, error) {
	return interruptible(a, func() ([]byte, error) {
		in := a.in
		if path != "-" {
			f, err := os.Open(path)
			if err != nil {
				return nil, broker.Errorf(broker.Invalid, "file_unreadable", "cannot read %s: %v", path, err)
			}
			defer func() { _ = f.Close() }()
			in = f
		}
		raw, err := io.ReadAll(io.LimitReader(in, int64(most)+1))
		if err != nil {
			return nil, broker.Errorf(broker.Invalid, "file_unreadable", "cannot read %s: %v", path, err)
		}
		if len(raw) > most {
			return nil, broker.Errorf(broker.Invalid, "too_large", "cannot use %s: it is larger than %d bytes", path, most)
		}
		return raw, nil
	})
}

// readSecret reads a file that only its owner may read.
func (a *app) readSecret(path string) ([]byte, error) {
	return interruptible(a, func() ([]byte, error) { return clientfile.ReadSecret(path, a.in) })
}

// answer reads one line typed by a person. The end of the input counts as an empty answer.
func (a *app) answer() (string, error) {
	return interruptible(a, func() (string, error) {
		line, err := bufio.NewReader(a.in).ReadString('\n')
		if err == io.EOF {
			err = nil
		}
		return line, err
	})
}

// readUnseen reads a word from a terminal without echo. A signal leaves the terminal as it was
// before.
func readUnseen(a *app, terminal *os.File) ([]byte, error) {
	before, err := term.GetState(int(terminal.Fd()))
	if err != nil {
		return nil, err
	}
	word, err := interruptible(a, func() ([]byte, error) { return term.ReadPassword(int(terminal.Fd())) })
	if err != nil {
		_ = term.Restore(int(terminal.Fd()), before)
	}
	_, _ = io.WriteString(a.err, "\n")
	return word, err
}
