package broker

import (
	"encoding/json"
	"time"

	"github.com/hostler/hostler/taskcatalog"
)

// TerminalPolicy is a site's policy for terminals: who may open a session under which account,
// for how long, and which parts are recorded.
type TerminalPolicy struct {
	OpenRole           Role   `json:"open_role"`
	AllowRoot          bool   `json:"allow_root"` // for RootRole
	RootRole           Role   `json:"root_role"`
	AnyUser            bool   `json:"any_user"` // for platform_admin: also an account without a live allocation
	MaxSeconds         int64  `json:"max_seconds"`
	IdleSeconds        int64  `json:"idle_seconds"`
	DetachSeconds      int64  `json:"detach_seconds"`
	RecordInput        bool   `json:"record_input"`
	OnRecordingFailure string `json:"on_recording_failure"`
	RetentionDays      int64  `json:"retention_days"`
	AllowTitle         bool   `json:"allow_title"`
	AllowClipboard     bool   `json:"allow_clipboard"`
}

// RecordingFailureEnds is the only supported action for a session that cannot be recorded: the
// session ends.
const RecordingFailureEnds = "end"

// DefaultTerminalPolicy applies where a site has set no policy.
func DefaultTerminalPolicy() TerminalPolicy {
	return TerminalPolicy{
		OpenRole: RoleOperator, RootRole: RolePlatformAdmin,
		MaxSeconds: 8 * 3600, IdleSeconds: 30 * 60, DetachSeconds: 15 * 60,
		OnRecordingFailure: RecordingFailureEnds, RetentionDays: 365,
	}
}

// TerminalPolicyOf reads a site's stored policy. Empty input gives the default. An invalid policy
// is refused; a newer broker may have written rules that this broker does not know. Code:
// terminal_policy_unreadable.
func TerminalPolicyOf(raw []byte) (TerminalPolicy, error) {
	p := DefaultTerminalPolicy()
	if len(raw) == 0 {
		return p, nil
	}
	err := json.Unmarshal(raw, &p)
	if err == nil {
		err = p.Check()
	}
	if err != nil {
		return DefaultTerminalPolicy(), Errorf(Refused, "terminal_policy_unreadable",
			"a site's stored terminal policy cannot be read: %v (set the policy again: hostler site terminal-policy)", err)
	}
	return p, nil
}

// Limits returns the limits of a session under the policy.
func (p TerminalPolicy) Limits() TerminalLimits {
	seconds := func(n int64) time.Duration { return time.Duration(n) * time.Second }
	return TerminalLimits{Max: seconds(p.MaxSeconds), Idle: seconds(p.IdleSeconds), Detach: seconds(p.DetachSeconds)}
}

// Check refuses an invalid policy. Code: terminal_policy_invalid.
func (p TerminalPolicy) Check() error {
	bad := func(format string, args ...any) error {
		e := Errorf(Invalid, "terminal_policy_invalid", format, args...)
		e.Message = "cannot set terminal policy: " + e.Message
		return e
	}
	within := func(n, least, most int64) bool { return n >= least && n <= most }
	switch {
	case p.OpenRole != RoleOperator && p.OpenRole != RolePlatformAdmin:
		return bad("open_role %q is not operator or platform_admin", taskcatalog.Clean(string(p.OpenRole), 40))
	case p.RootRole != RoleOperator && p.RootRole != RolePlatformAdmin:
		return bad("root_role %q is not operator or platform_admin", taskcatalog.Clean(string(p.RootRole), 40))
	case p.OpenRole.Covers(RolePlatformAdmin) && !p.RootRole.Covers(RolePlatformAdmin):
		return bad("root_role is below open_role, which would have no effect")
	case p.OnRecordingFailure != RecordingFailureEnds:
		return bad("on_recording_failure is not %q: no session continues without its recording", RecordingFailureEnds)
	case !within(p.MaxSeconds, 60, 7*24*3600):
		return bad("max_seconds is not between 60 and 604800")
	case !within(p.IdleSeconds, 60, 7*24*3600):
		return bad("idle_seconds is not between 60 and 604800")
	case !within(p.DetachSeconds, 1, 24*3600):
		return bad("detach_seconds is not between 1 and 86400")
	case !within(p.RetentionDays, 1, 36500):
		return bad("retention_days is not between 1 and 36500")
	}
	return nil
}
