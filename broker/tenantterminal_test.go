package broker_test

import (
	"strings"
	"testing"
	"time"

	"github.com/hostler/hostler/broker"
)

func TestWhichMemberMayBeInATerminal(t *testing.T) {
	at := time.Unix(1000, 0)
	lab := broker.Place{OrganisationID: "org-1", ProjectID: "prj-1"}
	for name, row := range map[string]struct {
		change func(*broker.TerminalAccess)
		code   string
	}{
		"a member":                     {func(*broker.TerminalAccess) {}, ""},
		"of the organisation":          {func(a *broker.TerminalAccess) { a.Operator.Place.ProjectID = "" }, ""},
		"whose user has root":          {func(a *broker.TerminalAccess) { a.Occupant.HadRoot = true }, ""},
		"on a site for admins":         {func(a *broker.TerminalAccess) { a.Policy.OpenRole = broker.RolePlatformAdmin }, ""},
		"on a node that is silent":     {func(a *broker.TerminalAccess) { a.OpenedIn, a.NodeStatus = broker.Active, broker.Offline }, ""},
		"beside a run on the agent":    {func(a *broker.TerminalAccess) { a.RunID, a.RunMoves, a.RunKind = "r-1", true, broker.ProvisionKind }, ""},
		"a viewer":                     {func(a *broker.TerminalAccess) { a.Operator.Role = broker.RoleProjectViewer }, "role_insufficient"},
		"an operator's role":           {func(a *broker.TerminalAccess) { a.Operator.Role = broker.RoleOperator }, "role_insufficient"},
		"of another project":           {func(a *broker.TerminalAccess) { a.Operator.Place.ProjectID = "prj-2" }, "allocation_not_found"},
		"of another organisation":      {func(a *broker.TerminalAccess) { a.Operator.Place.OrganisationID = "org-2" }, "allocation_not_found"},
		"of no allocation of a tenant": {func(a *broker.TerminalAccess) { a.Project = broker.Place{} }, "allocation_not_found"},
		"with a revoked token":         {func(a *broker.TerminalAccess) { a.Operator.RevokedAt = at }, "token_revoked"},
		"with an expired token":        {func(a *broker.TerminalAccess) { a.Operator.ExpiresAt = at }, "token_expired"},
		"who signed in":                {func(a *broker.TerminalAccess) { a.Operator.Name = "oidc:7" }, ""},
		"who is denied":                {func(a *broker.TerminalAccess) { a.Denied = true }, "person_denied"},
		"as root":                      {func(a *broker.TerminalAccess) { a.Username, a.Occupant.Username = "root", "root" }, "terminal_user_refused"},
		"as another user":              {func(a *broker.TerminalAccess) { a.Username = "bob" }, "terminal_user_refused"},
		"without a user on the node":   {func(a *broker.TerminalAccess) { a.Occupant = nil }, "terminal_user_refused"},
		"whose user is gone":           {func(a *broker.TerminalAccess) { a.Occupant.EndedAt = at }, "allocation_ended"},
		"whose user is being removed":  {func(a *broker.TerminalAccess) { a.Revoking = true }, "allocation_revoking"},
		"on a quarantined node":        {func(a *broker.TerminalAccess) { a.NodeStatus = broker.Quarantined }, "node_quarantined"},
		"on a drained node":            {func(a *broker.TerminalAccess) { a.OpenedIn, a.NodeStatus = broker.Active, broker.Draining }, "node_draining"},
		"on a silent node, anew":       {func(a *broker.TerminalAccess) { a.NodeStatus = broker.Offline }, "node_offline"},
		"on a node of another epoch":   {func(a *broker.TerminalAccess) { a.Epoch = 1 }, "stale_epoch"},
		"on a node in a run":           {func(a *broker.TerminalAccess) { a.RunID, a.RunMoves, a.RunKind = "r-1", true, "decommission" }, "node_in_run"},
		"where no policy is readable":  {func(a *broker.TerminalAccess) { a.NoPolicy = true }, "terminal_policy_unreadable"},
	} {
		a := access(lab, broker.AllocationActive)
		row.change(&a)
		got := ""
		if e := a.Refusal(at); e != nil {
			// A cause that names the node is the operators': a project is shown another code and text.
			got = e.Code
			shown, _ := broker.TenantTerminalCode(got)
			if named := strings.Contains(e.Message, "n-1"); named != (shown == broker.TerminalNodeUnready) || !named && shown != got {
				t.Errorf("%s is shown %q, of %q", name, shown, e.Message)
			}
		}
		if got != row.code {
			t.Errorf("%s: %q, want %q", name, got, row.code)
		}
	}
	for _, status := range append([]broker.AllocationStatus{""}, broker.AllocationStatuses...) {
		e := access(lab, status).Refusal(at)
		if status == broker.AllocationActive != (e == nil) || e != nil && e.Code != "allocation_not_active" {
			t.Errorf("an allocation that is %q: %v", status, e)
		}
	}
}

func access(of broker.Place, status broker.AllocationStatus) broker.TerminalAccess {
	return broker.TerminalAccess{
		Operator: broker.OperatorToken{Name: "ada", Role: broker.RoleProjectMember, Place: of},
		Policy:   broker.DefaultTerminalPolicy(), NodeID: "n-1", Site: "dc1", NodeStatus: broker.Active, NodeEpoch: 2,
		Username: broker.AllocationAccount, AllocationID: "alc-1", Occupant: &broker.Occupant{ID: "alc-1", NodeID: "n-1", Username: broker.AllocationAccount},
		Project: of, Allocation: status,
	}
}

func TestAProjectIsShownNoReasonOfANode(t *testing.T) {
	for code, want := range map[string]string{
		"": "", "terminal_exited": "terminal_exited", "terminal_closed": "terminal_closed",
		"terminal_moved": "terminal_moved", "terminal_operator_ended": "terminal_operator_ended", "node_quarantined": broker.TerminalNodeUnready,
		"node_in_run": broker.TerminalNodeUnready, "task_expired": broker.TerminalNodeUnready, "site_forbidden": broker.TerminalNodeUnready,
	} {
		if shown, text := broker.TenantTerminalCode(code); shown != want || (text == "") != (code == "") {
			t.Errorf("%q is shown as %q: %q", code, shown, text)
		}
	}
}
