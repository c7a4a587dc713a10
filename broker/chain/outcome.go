package chain

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// again, hold and Failure are the only typed results of a step beside nil.
type again struct {
	after  time.Duration
	reason string
	class  Class // class of the failure behind the wait; empty: no failure
}

func (a *again) Error() string { return "not yet: " + a.reason }

// Again says that the goal does not hold yet: the stage is called again after d. Again is no
// failure and costs no attempt. reason is for people: "machine is Deploying".
func Again(d time.Duration, reason string, args ...any) error {
	return &again{max(d, 0), bounded(fmt.Sprintf(reason, args...), maxReason), ""}
}

// AgainFor is Again for a stage that a failure keeps from looking. If the failure lasts until the
// stage's limit, the stage fails with class. A rescue stage still fails with the class of its
// limit.
func AgainFor[C ~string](class C, d time.Duration, reason string, args ...any) error {
	return &again{max(d, 0), bounded(fmt.Sprintf(reason, args...), maxReason), Class(class)}
}

type hold struct{ reason string }

func (h *hold) Error() string { return "the site cannot be reached: " + h.reason }

// Hold says that the whole site cannot be reached. No run of the site begins a stage until a run
// gets through again.
func Hold(reason string, args ...any) error {
	return &hold{bounded(fmt.Sprintf(reason, args...), maxReason)}
}

// Failure is a failed attempt.
type Failure struct {
	Class   Class
	Code    string          // stable, snake_case; empty: the class
	Message string          // the problem, the thing concerned, and the next action
	Details json.RawMessage // an object for people, or nil
	next    string          // next action, where the class's advice would mislead
	err     error
}

// Fail says that the attempt failed, with the class of the failure.
func Fail[C ~string](class C, format string, args ...any) *Failure {
	err := fmt.Errorf(format, args...)
	return &Failure{Class: Class(class), Message: err.Error(), err: errors.Unwrap(err)}
}

func (f *Failure) Error() string { return f.Message }

// Unwrap is the error wrapped with %w.
func (f *Failure) Unwrap() error { return f.err }

// With sets a code and details. details become JSON; nil: none.
func (f *Failure) With(code string, details any) *Failure {
	f.Code, f.Details = code, detail(details)
	return f
}

// Next replaces the advice of the table of classes.
func (f *Failure) Next(format string, args ...any) *Failure {
	f.next = bounded(fmt.Sprintf(format, args...), maxReason)
	return f
}

// add merges more into the details. Details that are no object, or would grow too long, stay
// unchanged.
func (f *Failure) add(more map[string]any) {
	if len(more) == 0 {
		return
	}
	all := map[string]any{}
	if f.Details != nil && json.Unmarshal(f.Details, &all) != nil {
		return
	}
	maps.Copy(all, more)
	if raw, err := json.Marshal(all); err == nil && len(raw) <= maxDetails {
		f.Details = raw
	}
}

// failure makes a Failure of any error. An unclassified error is transient.
func failure(err error) Failure {
	f := Failure{Class: UpstreamTransient, Message: err.Error()}
	if own, ok := errors.AsType[*Failure](err); ok {
		f = *own
		f.Message = err.Error() // with the text wrapped around the failure
	}
	if f.Class == "" {
		f.Class = UpstreamTransient
	}
	if f.Code == "" {
		f.Code = string(f.Class)
	}
	f.Message = bounded(f.Message, maxMessage)
	return f
}

// Limits of stored text, in bytes. Much of the text comes from machines and services, and may
// contain anything.
const (
	maxReason  = 500
	maxMessage = 2000
	maxDetails = 8000
)

// bounded is s as valid UTF-8 without control characters, cut to the limit.
func bounded(s string, most int) string {
	s = strings.Map(func(r rune) rune {
		if r == '\n' || r == '\t' {
			return ' '
		}
		if unicode.IsControl(r) {
			return utf8.RuneError
		}
		return r
	}, strings.ToValidUTF8(s, "\uFFFD"))
	if len(s) <= most {
		return s
	}
	const cut = "…"
	end := most - len(cut)
	for !utf8.RuneStart(s[end]) {
		end--
	}
	return s[:end] + cut
}

// detail is v as JSON, or a placeholder if v is too long.
func detail(v any) json.RawMessage {
	if v == nil {
		return nil
	}
	raw, err := json.Marshal(v)
	switch {
	case err != nil:
		raw = json.RawMessage(`{"error":"the details have no JSON form"}`)
	case len(raw) > maxDetails:
		raw = fmt.Appendf(nil, `{"error":"the details were too long","bytes":%d}`, len(raw))
	}
	return raw
}
