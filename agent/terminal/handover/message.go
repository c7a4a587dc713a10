package handover

import (
	"encoding/json"
	"fmt"
	"io"

	"github.com/hostler/hostler/taskcatalog"
)

// Version is that of the messages. A session may have been begun by an agent that is older
// or newer than the one that speaks with it now.
const Version = 1

// maxMessage bounds a message, in bytes: a command is most of it.
const maxMessage = 256 << 10

// Codes of what is wrong with a handover.
const (
	CodeVersion   taskcatalog.Code = "handover_version" // the other end speaks another
	CodeInvalid   taskcatalog.Code = "handover_invalid"
	CodeStranger  taskcatalog.Code = "handover_stranger"   // who is at the other end is not root
	CodeUnguarded taskcatalog.Code = "handover_unguarded"  // the socket's directory is not root's alone
	CodeNobody    taskcatalog.Code = "terminal_not_served" // no process of the session answers
)

// Request is what the agent says.
type Request struct {
	Version   int    `json:"version"`
	SessionID string `json:"session_id"`
	TaskID    string `json:"task_id"`
	// Handover is what to go on with. Nil: the request asks whether this task's was taken.
	Handover *Handover `json:"handover,omitempty"`
}

// Handover sends a session to a relay.
type Handover struct {
	Token    string `json:"token"`     // for one connection
	StateDir string `json:"state_dir"` // where the node's key and certificate are read from
	// Params are the task's. Of one that is not the first, only the relay counts, and only
	// that is said.
	Params taskcatalog.TerminalOpenParams `json:"params"`
	// Sudo: the user was given sudo when the account was made, and may have groups that
	// amount to it.
	Sudo bool `json:"sudo,omitempty"`
}

// Reply is what the session's process answers.
type Reply struct {
	Version int              `json:"version"`
	Code    taskcatalog.Code `json:"code,omitempty"` // empty: it was taken, or told
	Text    string           `json:"text,omitempty"`
	Resumed bool             `json:"resumed,omitempty"` // the session ran already, before this task
	Taken   bool             `json:"taken,omitempty"`   // what the task handed over
}

// Err is the error that a reply says, or nil.
func (r Reply) Err() error {
	if r.Code == "" {
		return nil
	}
	return taskcatalog.Errorf(r.Code, "%s", r.Text)
}

// Refuse is the reply that says err.
func Refuse(err error) Reply {
	return Reply{Code: taskcatalog.CodeOf(err, CodeInvalid), Text: taskcatalog.Clean(err.Error(), taskcatalog.MaxText)}
}

func write(to io.Writer, message any) error {
	raw, err := json.Marshal(message)
	if err != nil {
		return err
	}
	if len(raw) > maxMessage {
		return taskcatalog.Errorf(CodeInvalid, "a message of %d bytes is too long: %d are allowed", len(raw), maxMessage)
	}
	_, err = to.Write(raw)
	return err
}

// read takes all up to the end of the stream. What another version says is not looked at;
// what one of the same version says beside what is known here is left out: it was added
// since, and is about a session that begins.
func read(from io.Reader, message any) error {
	raw, err := io.ReadAll(io.LimitReader(from, maxMessage+1))
	if err != nil {
		return fmt.Errorf("cannot read a message: %w", err)
	}
	if len(raw) > maxMessage {
		return taskcatalog.Errorf(CodeInvalid, "a message of more than %d bytes", maxMessage)
	}
	var of struct {
		Version int `json:"version"`
	}
	err = json.Unmarshal(raw, &of)
	if err == nil && of.Version != Version {
		return taskcatalog.Errorf(CodeVersion, "the other end speaks version %d of the handover, and this one %d (close the session and open another)", of.Version, Version)
	}
	if err == nil {
		err = json.Unmarshal(raw, message)
	}
	if err != nil {
		return taskcatalog.Errorf(CodeInvalid, "a message that is none: %v", err)
	}
	return nil
}
