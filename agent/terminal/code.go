package terminal

import (
	"github.com/hostler/hostler/taskcatalog"
)

// Codes of why there is no session, or none any more.
const (
	CodeUserUnknown    taskcatalog.Code = "terminal_user_unknown"
	CodeUserRefused    taskcatalog.Code = "terminal_user_refused"  // root, or an account that nobody should log in to
	CodeShellRefused   taskcatalog.Code = "terminal_shell_refused" // not one of the node's login shells
	CodeAccountExpired taskcatalog.Code = "terminal_account_expired"
	CodeLoginsOff      taskcatalog.Code = "terminal_logins_off"      // /etc/nologin is there
	CodeCommandRefused taskcatalog.Code = "terminal_command_refused" // not a program by its name or its whole path
	CodeEnvRefused     taskcatalog.Code = "terminal_env_refused"
	CodeStartFailed    taskcatalog.Code = "terminal_start_failed"
	CodeStuck          taskcatalog.Code = "terminal_stuck" // a process of it does not die

	CodeRelayUnreachable taskcatalog.Code = "terminal_relay_unreachable"
	CodeDetached         taskcatalog.Code = "terminal_detached" // the relay was away for too long
	CodeClosed           taskcatalog.Code = "terminal_closed"   // it was stopped on the node
	CodeTimeOver         taskcatalog.Code = "terminal_time_over"
	CodeVersion          taskcatalog.Code = "terminal_version"
	CodeUnexpected       taskcatalog.Code = "frame_unexpected" // a frame that has no place here

	// CodeReplaced ends no session, which waits for another token: somebody else has taken
	// its place.
	CodeReplaced taskcatalog.Code = "connection_replaced"
)
