package broker

import (
	"cmp"
	"time"
)

// TerminalNodeUnready is the code that a project is shown of every refusal and every end whose cause is
// the node's. A project learns nothing else of a node. Operators and the audit log have the cause.
const TerminalNodeUnready = "terminal_node_unready"

// tenantTerminalTexts are the codes of refusals and of ends that a project is shown, with the text that
// replaces the broker's own, which may name a node, a relay or an operator. Every other code is shown
// as terminal_node_unready.
var tenantTerminalTexts = map[string]string{
	TerminalNodeUnready: "the node takes no terminal now (try again later, or log in with ssh)",

	"role_insufficient":     "the token's role does not suffice (it needs project_member)",
	"token_revoked":         "the token was revoked (get a new token)",
	"token_expired":         "the token or the sign-in expired (get a new token, or sign in again)",
	"person_denied":         "an admin of the project or the organisation has denied the person (ask that admin)",
	"allocation_not_found":  "the allocation belongs to another project, or does not exist",
	"allocation_not_active": "the allocation is not active",

	"terminal_exited":          "the program ended",
	"terminal_closed":          "the session was closed",
	"terminal_time_over":       "the session lasted as long as the site permits",
	"terminal_idle":            "no key was pressed for longer than the site permits",
	"terminal_output_over":     "the session showed as much as a session may (open another one, or use ssh)",
	"terminal_detached":        "nobody was attached for longer than the site permits",
	"terminal_gone":            "the session's process was killed",
	"terminal_node_gone":       "the node did not come back",
	"terminal_node_never_came": "the node did not connect",
	"terminal_never_came":      "the node did not connect",
	"terminal_node_ended":      "the node ended the session",
	"terminal_operator_ended":  "the member ended the session",
	"terminal_moved":           "the session goes on in another connection",
	"recording_failed":         "the recording could not be continued",
	"relay_lost":               "the broker that had the session did not come back",

	"connection_replaced": "another connection has taken the session over",
	"connection_lost":     "the connection broke",
	"output_lost":         "a part of the output is lost",
	"frame_invalid":       "the client sent an invalid frame (update the client)",
	"frame_unexpected":    "the client sent an unexpected frame (update the client)",
	"frame_flood":         "the client sent too much at once (update the client)",
	"resize_storm":        "the client changed its size too often (update the client)",
	"hello_missing":       "no Hello arrived in time (update the client)",
	"hello_invalid":       "the first frame must be the Hello of the session, version 1 (update the client)",
}

// TenantTerminalCode returns the code and the text that a project is shown for the refusal or the end of
// a terminal. No code has no text.
func TenantTerminalCode(code string) (shown, text string) {
	if code == "" {
		return "", ""
	}
	if text, ok := tenantTerminalTexts[code]; ok {
		return code, text
	}
	return TerminalNodeUnready, tenantTerminalTexts[TerminalNodeUnready]
}

// tenantRefusal is Refusal for a member of a project: the member needs an active allocation of the own
// project, as the allocation's own user, on a node in service. The rights of that user on the node do not
// matter: the member has the same rights with ssh. Codes: person_denied, token_revoked,
// token_expired, role_insufficient, allocation_not_found, allocation_not_active, and those of unready.
func (a TerminalAccess) tenantRefusal(now time.Time) *Error {
	refuse := func(kind Kind, code string) *Error {
		_, text := TenantTerminalCode(code)
		return Errorf(kind, code, "no terminal of allocation %s: %s", cmp.Or(cleanText(a.AllocationID), "none"), text)
	}
	o := a.Operator
	switch {
	case a.Denied:
		return refuse(Forbidden, "person_denied")
	case !o.RevokedAt.IsZero():
		return refuse(Forbidden, "token_revoked")
	case !o.ExpiresAt.IsZero() && !now.Before(o.ExpiresAt):
		return refuse(Forbidden, "token_expired")
	case !o.Role.Covers(RoleProjectMember):
		return refuse(Forbidden, "role_insufficient")
	case !o.Place.Covers(a.Project):
		return refuse(NotFound, "allocation_not_found")
	case a.Allocation != AllocationActive:
		return refuse(Refused, "allocation_not_active")
	}
	return a.unready(now)
}

// unready says why the node is not in service for its allocation, with the allocation's own user; nil: it is.
// The reason is for operators and the audit log: a project is shown terminal_node_unready. Codes:
// terminal_policy_unreadable, terminal_user_refused, allocation_ended, allocation_revoking, stale_epoch,
// node_in_run, node_… with a status.
func (a TerminalAccess) unready(now time.Time) *Error {
	o := a.Occupant
	switch {
	case a.NoPolicy:
		return a.policyUnreadable()
	case o == nil || o.Username != a.Username || a.Username != AllocationAccount:
		return a.refusal(Refused, "terminal_user_refused", "%s is not the user of allocation %s on it", a.Username, a.AllocationID)
	case !o.Live():
		return a.refusal(Refused, "allocation_ended", "the user of allocation %s was removed from it", a.AllocationID)
	case a.Revoking:
		return a.refusal(Refused, "allocation_revoking", "the user of allocation %s is being removed", a.AllocationID)
	}
	return a.node(now)
}
