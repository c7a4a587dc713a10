package broker

import (
	"errors"
	"fmt"
	"time"
)

// Kind is the class of an error. It determines the HTTP status and the CLI's exit code, each in a
// single place.
type Kind int

// The kinds.
const (
	Internal     Kind = iota // 500, exit 1
	Invalid                  // 422, exit 2: bad input
	NotFound                 // 404, exit 4
	Refused                  // 409, exit 3: by policy or state
	Unauthorized             // 401, exit 3: the caller is not authenticated
	Forbidden                // 403, exit 3: the caller is known and not permitted
	TooMany                  // 429, exit 1
	Unavailable              // 503, exit 1
)

// Error is a failure that is reported to an operator or a node.
type Error struct {
	Kind    Kind
	Code    string // stable, snake_case
	Message string // the problem, the thing concerned, and the next action
	// RetryAfter is the earliest time to ask again, from now; zero: unspecified.
	RetryAfter time.Duration
}

func (e *Error) Error() string { return e.Message }

// Errorf makes an Error.
func Errorf(kind Kind, code, format string, args ...any) *Error {
	return &Error{Kind: kind, Code: code, Message: fmt.Sprintf(format, args...)}
}

// AsError returns the Error inside err. Any other error becomes internal: its text may hold
// confidential details, so the returned Error carries the code only.
func AsError(err error) *Error {
	var e *Error
	if errors.As(err, &e) {
		return e
	}
	return &Error{Kind: Internal, Code: "internal", Message: "internal error (see the broker's log)"}
}
