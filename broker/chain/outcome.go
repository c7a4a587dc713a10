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

// again, hold and Failure are all that a step can say beside nil.
type again struct {
	after  time.Duration
	reason string
	class  Class // of what keeps it waiting; empty: that it is not so yet
}

func (a *again) Error() string { return "not yet: " + a.reason }

// Again says that it is not so yet: call the stage again in d. It is no failure
// and costs no attempt. reason is for people: "machine is Deploying".
func Again(d time.Duration, reason string, args ...any) error {
	return &again{max(d, 0), bounded(fmt.Sprintf(reason, args...), maxReason), ""}
}

// AgainFor is Again where a failure keeps the stage from seeing how it stands: if
// that is still so at the stage's limit, it is what the stage has failed of. A
// rescue has failed to get over what it was entered for, all the same.
func AgainFor[C ~string](class C, d time.Duration, reason string, args ...any) error {
	return &again{max(d, 0), bounded(fmt.Sprintf(reason, args...), maxReason), Class(class)}
}

type hold struct{ reason string }

func (h *hold) Error() string { return "the site cannot be reached: " + h.reason }

// Hold says that the whole site cannot be reached. No run of the site begins a
// stage until one gets through again.
func Hold(reason string, args ...any) error {
	return &hold{bounded(fmt.Sprintf(reason, args...), maxReason)}
}

// Failure is a failed attempt.
type Failure struct {
	Class   Class
	Code    string          // stable, snake_case; empty: the class
	Message string          // what, to what, and what to do
	Details json.RawMessage // an object for people, or nil
	next    string          // what to do, where the class's own advice would lead astray
	err     error
}

// Fail says that the attempt failed, and what kind of failure it was.
func Fail[C ~string](class C, format string, args ...any) *Failure {
	err := fmt.Errorf(format, args...)
	return &Failure{Class: Class(class), Message: err.Error(), err: errors.Unwrap(err)}
}

func (f *Failure) Error() string { return f.Message }

// Unwrap is what %w wrapped.
func (f *Failure) Unwrap() error { return f.err }

// With gives the failure a code of its own, and details that become JSON, or nil.
func (f *Failure) With(code string, details any) *Failure {
	f.Code, f.Details = code, detail(details)
	return f
}

// Next tells the operator what to do, in place of what the table of classes says.
func (f *Failure) Next(format string, args ...any) *Failure {
	f.next = bounded(fmt.Sprintf(format, args...), maxReason)
	return f
}

// add puts more into the details. Those that are no object, or would have no room, stay
// as they are.
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

// failure makes one of any error. What nobody classified is transient.
func failure(err error) Failure {
	f := Failure{Class: UpstreamTransient, Message: err.Error()}
	if own, ok := errors.AsType[*Failure](err); ok {
		f = *own
		f.Message = err.Error() // with what was said around it
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

// What a row and an event keep, in bytes. Much of it comes from machines and
// services that may say anything.
const (
	maxReason  = 500
	maxMessage = 2000
	maxDetails = 8000
)

// bounded is valid UTF-8 without control characters, and not too long.
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

// detail is v as JSON, or what stands for it where there is too much of it.
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
