package handover

import (
	"encoding/json"
	"fmt"
	"io"

	"github.com/hostler/hostler/taskcatalog"
)

// Version is the version of the messages. An older or newer agent may have begun the session.
const Version = 1

// maxMessage bounds a message, in bytes: a command is most of it.
const maxMessage = 256 << 10

// Codes of errors of a handover.
const (
	CodeVersion   taskcatalog.Code = "handover_version" // the other end speaks another version
	CodeInvalid   taskcatalog.Code = "handover_invalid"
	CodeStranger  taskcatalog.Code = "handover_stranger"   // the other end is not of this user
	CodeUnguarded taskcatalog.Code = "handover_unguarded"  // others may write to the socket's directory
	CodeNobody    taskcatalog.Code = "terminal_not_served" // no process of the session answers
)

// Request is the agent's message.
type Request struct {
	Version   int    `json:"version"`
	SessionID string `json:"session_id"`
	TaskID    string `json:"task_id"`
	// Handover is the relay and token to use. Nil: the request asks whether the task's handover was
	// taken.
	Handover *Handover `json:"handover,omitempty"`
}

// Handover sends a session to a relay.
type Handover struct {
	Token    string `json:"token"`     // for a single connection
	StateDir string `json:"state_dir"` // directory of the node's key and certificate
	// Params are the task's. After the first handover only the relay counts, and only the relay is
	// sent.
	Params taskcatalog.TerminalOpenParams `json:"params"`
	// Sudo: the user was given sudo when the account was made, and may have groups that amount to
	// sudo.
	Sudo bool `json:"sudo,omitempty"`
}

// Reply is the answer of the session's process.
type Reply struct {
	Version int              `json:"version"`
	Code    taskcatalog.Code `json:"code,omitempty"` // empty: the handover was taken, or the question answered
	Text    string           `json:"text,omitempty"`
	Resumed bool             `json:"resumed,omitempty"` // the session ran already, before this task
	Taken   bool             `json:"taken,omitempty"`   // the task's handover was taken
}

// Err returns the error in a reply, or nil.
func (r Reply) Err() error {
	if r.Code == "" {
		return nil
	}
	return taskcatalog.Errorf(r.Code, "%s", r.Text)
}

// Refuse returns a reply with err.
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

// read reads a message up to the end of the stream. A message of another version is refused unread.
// Unknown fields of the same version are ignored: they were added later, and concern the start of a
// session.
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
		return taskcatalog.Errorf(CodeVersion,
			"the other process speaks version %d of the handover, and this process speaks version %d (close the session and open another)",
			of.Version, Version)
	}
	if err == nil {
		err = json.Unmarshal(raw, message)
	}
	if err != nil {
		return taskcatalog.Errorf(CodeInvalid, "an invalid message: %v", err)
	}
	return nil
}
