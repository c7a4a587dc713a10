package broker

import (
	"slices"
	"strings"
	"time"
)

// TerminalAccess holds all facts that decide whether an operator may use a terminal on a node.
// Refusal is the only judge, when a session is opened and for as long as the session lasts: any
// fact that would refuse a new session also ends an open session.
type TerminalAccess struct {
	Operator OperatorToken // as it is now; of a person who signed in: as last shown
	Denied   bool          // the person who signed in is denied at the operator's place
	Policy   TerminalPolicy
	// NoPolicy: the site's stored policy cannot be read, so that nobody is admitted.
	NoPolicy bool

	NodeID     string
	Site       string
	NodeStatus NodeStatus
	NodeEpoch  int64
	RunID      string // of the run that holds the node; empty: none
	RunKind    string
	RunMoves   bool // the run is at work; false: the run has stopped and waits for a person

	Username     string
	AllocationID string    // the allocation of the user; empty: none
	Occupant     *Occupant // the user as the broker knows it; nil: not on this node
	Revoking     bool      // the removal of the user is requested
	// Project and Allocation describe a tenant's allocation; zero: no tenant's.
	Project    Place
	Allocation AllocationStatus

	// Of an existing session; zero for a new session.
	Epoch    int64
	OpenedIn NodeStatus
}

// root is the account that needs the permission of both role and site.
const root = "root"

// AsRoot reports whether the operator may be admitted as root, or as an account in root's group.
func (a TerminalAccess) AsRoot() bool {
	return a.Policy.AllowRoot && a.Operator.Role.Covers(a.Policy.RootRole)
}

// Refusal says why the operator may not use a terminal on the node; nil: permitted. Codes:
// terminal_policy_unreadable, terminal_needs_token, token_revoked, token_expired, site_forbidden, role_insufficient,
// stale_epoch, node_… with a status, node_in_run, terminal_root_refused, terminal_user_refused,
// allocation_ended, allocation_revoking. A member of a project has rules of their own, see
// tenantRefusal.
func (a TerminalAccess) Refusal(now time.Time) *Error {
	if !a.Operator.Place.OfPlatform() {
		return a.tenantRefusal(now)
	}
	for _, judge := range []func(time.Time) *Error{a.operator, a.node, a.user} {
		if e := judge(now); e != nil {
			return e
		}
	}
	return nil
}

func (a TerminalAccess) refusal(kind Kind, code, format string, args ...any) *Error {
	e := Errorf(kind, code, format, args...)
	e.Message = "no terminal on node " + a.NodeID + ": " + e.Message
	return e
}

func (a TerminalAccess) operator(now time.Time) *Error {
	o := a.Operator
	switch {
	case a.NoPolicy:
		return a.policyUnreadable()
	case o.SignedIn():
		return a.refusal(Forbidden, "terminal_needs_token",
			"%s signed in by OIDC, and a session is watched by its opener's operator token (hostler token create)", o.Name)
	case !o.RevokedAt.IsZero():
		return a.refusal(Forbidden, "token_revoked", "token %s was revoked", o.Name)
	case !o.ExpiresAt.IsZero() && !now.Before(o.ExpiresAt):
		return a.refusal(Forbidden, "token_expired", "token %s has expired", o.Name)
	case !o.MaySee(a.Site):
		return a.refusal(Forbidden, "site_forbidden", "token %s is not bound to its site", o.Name)
	case !o.Role.Covers(RoleOperator) || !o.Role.Covers(a.Policy.OpenRole):
		return a.refusal(Forbidden, "role_insufficient", "its site requires role %s, and token %s has %s", a.Policy.OpenRole, o.Name,
			o.Role)
	}
	return nil
}

func (a TerminalAccess) policyUnreadable() *Error {
	return a.refusal(Refused, "terminal_policy_unreadable",
		"the terminal policy of site %q cannot be read (set it again: hostler site terminal-policy)", a.Site)
}

// node admits operators to a node in service. Caretakers are also admitted to a node that is kept
// out of service while no run works on it: an operator's actions must not mix with the evidence
// of a run.
func (a TerminalAccess) node(time.Time) *Error {
	if a.Epoch != 0 && a.Epoch != a.NodeEpoch {
		return a.refusal(Refused, "stale_epoch", "the node has enrolled again since the session began")
	}
	if a.RunID != "" && a.RunMoves && !RunKindOf(a.RunKind).TerminalsStay {
		return a.refusal(Refused, "node_in_run", "run %s holds the node (wait until the run ends or stops)", a.RunID)
	}
	began, is := a.OpenedIn, a.NodeStatus
	switch {
	case began == "" && is == Active, began == Active && (is == Active || is == Offline): // the relay judges silence
		return nil
	case a.openToCaretakers() && (began == "" || began == is):
		return nil
	}
	hint := "the node is not in service"
	if a.AllocationID == "" && is == Quarantined {
		hint += "; this needs any_user in the site's policy, and the role platform_admin"
	}
	return a.refusal(Refused, "node_"+string(is), "the node is %s (%s)", is, hint)
}

// openToCaretakers reports whether the node is out of service and open to caretakers: quarantined,
// or held by a run that has stopped for a person.
func (a TerminalAccess) openToCaretakers() bool {
	if a.AllocationID != "" || !a.isCaretaker() {
		return false
	}
	if a.NodeStatus == Quarantined {
		return true
	}
	return a.RunID != "" && !a.RunMoves && slices.Contains([]NodeStatus{Enrolling, Draining, Retired}, a.NodeStatus)
}

// isCaretaker reports whether the operator may be on the site's nodes under an account of no
// tenant.
func (a TerminalAccess) isCaretaker() bool {
	return a.Operator.Role.Covers(RolePlatformAdmin) && (a.Policy.AnyUser || a.Username == root && a.AsRoot())
}

func (a TerminalAccess) user(time.Time) *Error {
	switch {
	case a.Username == root && a.AllocationID == "":
		if !a.AsRoot() {
			return a.refusal(Forbidden, "terminal_root_refused", "root needs a site whose policy allows it, and role %s", a.Policy.RootRole)
		}
		return nil
	case a.AllocationID == "":
		if !a.isCaretaker() {
			return a.refusal(Forbidden, "terminal_user_refused",
				"%s is not the user of a live allocation (other users need a site whose policy allows any_user, and platform_admin)",
				a.Username)
		}
		return nil
	case a.Occupant == nil || a.Occupant.Username != a.Username || strings.EqualFold(a.Username, root):
		return a.refusal(Forbidden, "terminal_user_refused", "%s is not the user of allocation %s on it", a.Username, a.AllocationID)
	case !a.Occupant.Live():
		return a.refusal(Refused, "allocation_ended", "allocation %s has ended", a.AllocationID)
	case a.Occupant.HadRoot && !a.AsRoot():
		return a.refusal(Forbidden, "terminal_root_refused",
			"%s has root there, and a session with root needs a site whose policy allows it, and role %s", a.Username, a.Policy.RootRole)
	case a.Revoking:
		return a.refusal(Refused, "allocation_revoking", "the user of allocation %s is being removed", a.AllocationID)
	}
	return nil
}
