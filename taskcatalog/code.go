package taskcatalog

import (
	"errors"
	"fmt"
)

// Code is a stable machine-readable reason. Codes are wire names.
type Code string

// Reasons why a node refuses a task, in the order of the node's checks.
const (
	CodeTooLarge           Code = "too_large"
	CodeMalformed          Code = "malformed"
	CodeWrongPayloadType   Code = "wrong_payload_type"
	CodeUnknownKey         Code = "unknown_key"
	CodeBadSignature       Code = "bad_signature"
	CodeWrongNode          Code = "wrong_node"
	CodeWrongEpoch         Code = "wrong_epoch"
	CodeNotYetValid        Code = "not_yet_valid"
	CodeTaskExpired        Code = "task_expired"
	CodeReplayed           Code = "replayed"
	CodeUnknownType        Code = "unknown_type"
	CodeUnknownVersion     Code = "unknown_version"
	CodeBadParams          Code = "bad_params"
	CodeNotAllowed         Code = "not_allowed"
	CodeCapabilityMissing  Code = "capability_missing"
	CodeAllocationPresent  Code = "allocation_present"
	CodeNodeDraining       Code = "node_draining"
	CodeLedgerUnavailable  Code = "ledger_unavailable"
	CodeBrokerFilledParams Code = "broker_filled_params"
)

// Reasons why a started task did not succeed, including reasons that only the broker records.
const (
	CodeDeadlineExceeded Code = "deadline_exceeded"
	CodeCanceled         Code = "canceled"
	CodeInterrupted      Code = "interrupted"
	CodeHandlerFailed    Code = "handler_failed"
	CodeHandlerPanicked  Code = "handler_panicked"
	CodeOutcomeUnknown   Code = "outcome_unknown"
	CodeNodeReenrolled   Code = "node_reenrolled"
)

// Error is a refusal or failure with its code.
type Error struct {
	Code    Code
	Message string
}

func (e *Error) Error() string { return e.Message }

// Errorf returns an Error. The message follows the house style: what could not be done, to what,
// and what to try.
func Errorf(code Code, format string, args ...any) *Error {
	return &Error{Code: code, Message: fmt.Sprintf(format, args...)}
}

// CodeOf returns the code that err carries, or fallback.
func CodeOf(err error, fallback Code) Code {
	var e *Error
	if errors.As(err, &e) {
		return e.Code
	}
	return fallback
}
