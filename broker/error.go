package broker

import (
	"errors"
	"fmt"
	"time"
)

// Kind is the class of an error: it decides the HTTP status and the CLI's
// exit code, in one place each.
type Kind int

// The kinds.
const (
	Internal     Kind = iota // 500, exit 1
	Invalid                  // 422, exit 2: bad input
	NotFound                 // 404, exit 4
	Refused                  // 409, exit 3: by policy or state
	Unauthorized             // 401, exit 3: who are you?
	Forbidden                // 403, exit 3: not you
	TooMany                  // 429, exit 1
	Unavailable              // 503, exit 1
)

// Error is a failure that an operator or a node is told of.
type Error struct {
	Kind    Kind
	Code    string // stable, snake_case
	Message string // what, to what, and what to do
	// RetryAfter is when to ask again at the soonest; zero: nobody said.
	RetryAfter time.Duration
}

func (e *Error) Error() string { return e.Message }

// Errorf makes an Error.
func Errorf(kind Kind, code, format string, args ...any) *Error {
	return &Error{Kind: kind, Code: code, Message: fmt.Sprintf(format, args...)}
}

// AsError returns the Error inside err. What is not one is internal: its text
// may hold what outsiders must not read, so only the code is given.
func AsError(err error) *Error {
	var e *Error
	if errors.As(err, &e) {
		return e
	}
	return &Error{Kind: Internal, Code: "internal", Message: "internal error (see the broker's log)"}
}
