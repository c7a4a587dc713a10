package terminal

import (
	"github.com/hostler/hostler/taskcatalog"
)

// Codes of why a session did not start, or ended.
const (
	CodeUserUnknown    taskcatalog.Code = "terminal_user_unknown"
	CodeUserRefused    taskcatalog.Code = "terminal_user_refused"  // root, or an account without logins
	CodeShellRefused   taskcatalog.Code = "terminal_shell_refused" // not a login shell of the node
	CodeAccountExpired taskcatalog.Code = "terminal_account_expired"
	CodeLoginsOff      taskcatalog.Code = "terminal_logins_off"      // /etc/nologin exists
	CodeCommandRefused taskcatalog.Code = "terminal_command_refused" // neither a plain name nor an absolute path
	CodeEnvRefused     taskcatalog.Code = "terminal_env_refused"
	CodeStartFailed    taskcatalog.Code = "terminal_start_failed"
	CodeStuck          taskcatalog.Code = "terminal_stuck" // a process of the session does not die

	CodeRelayUnreachable taskcatalog.Code = "terminal_relay_unreachable"
	CodeDetached         taskcatalog.Code = "terminal_detached" // the relay was away for too long
	CodeClosed           taskcatalog.Code = "terminal_closed"   // stopped on the node
	CodeTimeOver         taskcatalog.Code = "terminal_time_over"
	CodeVersion          taskcatalog.Code = "terminal_version"
	CodeUnexpected       taskcatalog.Code = "frame_unexpected" // a frame not allowed at this point

	// CodeReplaced does not end a session: another connection took its place, and the session waits
	// for another token.
	CodeReplaced taskcatalog.Code = "connection_replaced"
)
