package broker_test

import (
	"testing"
	"time"

	"github.com/hostler/hostler/broker"
)

// TestWhoMayBeInATerminal lists for each situation the code of the refusal, or none.
func TestWhoMayBeInATerminal(t *testing.T) {
	now := time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)
	open := broker.DefaultTerminalPolicy()
	looked := open
	looked.AnyUser = true
	rooted := open
	rooted.AllowRoot = true
	base := func(role broker.Role, p broker.TerminalPolicy, status broker.NodeStatus) broker.TerminalAccess {
		return broker.TerminalAccess{
			Operator: broker.OperatorToken{Name: "olga", Role: role}, Policy: p, NodeID: "n-1", Site: "dc1", NodeStatus: status, NodeEpoch: 2,
		}
	}
	tenant := func(role broker.Role, status broker.NodeStatus) broker.TerminalAccess {
		a := base(role, looked, status)
		a.Username, a.AllocationID, a.Occupant = "alice", "a-1", &broker.Occupant{ID: "a-1", Username: "alice"}
		return a
	}
	caretaker := func(p broker.TerminalPolicy, username string, status broker.NodeStatus) broker.TerminalAccess {
		a := base(broker.RolePlatformAdmin, p, status)
		a.Username = username
		return a
	}
	with := func(a broker.TerminalAccess, f func(*broker.TerminalAccess)) broker.TerminalAccess { f(&a); return a }
	moving := func(kind string) func(*broker.TerminalAccess) {
		return func(a *broker.TerminalAccess) { a.RunID, a.RunKind, a.RunMoves = "r-1", kind, true }
	}
	stopped := func(a *broker.TerminalAccess) { a.RunID, a.RunKind = "r-1", "node.decommission/soft_reset" }
	for name, c := range map[string]struct {
		a    broker.TerminalAccess
		want string
	}{
		"a tenant on a node in service":            {tenant(broker.RoleOperator, broker.Active), ""},
		"as a viewer":                              {tenant(broker.RoleViewer, broker.Active), "role_insufficient"},
		"who signed in by OIDC":                    {with(tenant(broker.RoleOperator, broker.Active), func(a *broker.TerminalAccess) { a.Operator.Name = "oidc:7" }), "terminal_needs_token"},
		"with no token":                            {tenant("", broker.Active), "role_insufficient"},
		"on one that is not heard of":              {tenant(broker.RoleOperator, broker.Offline), "node_offline"},
		"that was in service as it began":          {with(tenant(broker.RoleOperator, broker.Offline), func(a *broker.TerminalAccess) { a.OpenedIn = broker.Active }), ""},
		"quarantined since":                        {with(tenant(broker.RoleOperator, broker.Quarantined), func(a *broker.TerminalAccess) { a.OpenedIn = broker.Active }), "node_quarantined"},
		"enrolled anew since":                      {with(tenant(broker.RoleOperator, broker.Active), func(a *broker.TerminalAccess) { a.Epoch = 1 }), "stale_epoch"},
		"of this enrolment":                        {with(tenant(broker.RoleOperator, broker.Active), func(a *broker.TerminalAccess) { a.Epoch = 2 }), ""},
		"a tenant, as an admin, quarantined":       {tenant(broker.RolePlatformAdmin, broker.Quarantined), "node_quarantined"},
		"a tenant, a turnover has stopped":         {with(tenant(broker.RolePlatformAdmin, broker.Draining), stopped), "node_draining"},
		"while it is turned over":                  {with(tenant(broker.RoleOperator, broker.Active), moving("node.decommission/soft_reset")), "node_in_run"},
		"while it is cleaned":                      {with(caretaker(looked, "bob", broker.Quarantined), moving("node.decommission/storage_cleanup")), "node_in_run"},
		"while it is onboarded":                    {with(caretaker(looked, "bob", broker.Enrolling), moving("node.onboarding")), "node_in_run"},
		"while its agent is updated":               {with(tenant(broker.RoleOperator, broker.Active), moving("agent.upgrade/update")), ""},
		"a user that is taken away":                {with(tenant(broker.RoleOperator, broker.Active), func(a *broker.TerminalAccess) { a.Revoking = true }), "allocation_revoking"},
		"a user that is gone":                      {with(tenant(broker.RoleOperator, broker.Active), func(a *broker.TerminalAccess) { a.Occupant.EndedAt = now }), "allocation_ended"},
		"an allocation of another node":            {with(tenant(broker.RoleOperator, broker.Active), func(a *broker.TerminalAccess) { a.Occupant = nil }), "terminal_user_refused"},
		"another user's name since":                {with(tenant(broker.RoleOperator, broker.Active), func(a *broker.TerminalAccess) { a.Occupant.Username = "bob" }), "terminal_user_refused"},
		"a tenant who is called root":              {with(tenant(broker.RolePlatformAdmin, broker.Active), func(a *broker.TerminalAccess) { a.Username, a.Occupant.Username = "root", "root" }), "terminal_user_refused"},
		"a tenant with root":                       {with(tenant(broker.RoleOperator, broker.Active), func(a *broker.TerminalAccess) { a.Occupant.HadRoot = true }), "terminal_root_refused"},
		"a token for another site":                 {with(tenant(broker.RoleOperator, broker.Active), func(a *broker.TerminalAccess) { a.Operator.Sites = []string{"dc2"} }), "site_forbidden"},
		"a token that was revoked":                 {with(tenant(broker.RoleOperator, broker.Active), func(a *broker.TerminalAccess) { a.Operator.RevokedAt = now }), "token_revoked"},
		"a token at its end":                       {with(tenant(broker.RoleOperator, broker.Active), func(a *broker.TerminalAccess) { a.Operator.ExpiresAt = now }), "token_expired"},
		"another account":                          {caretaker(open, "bob", broker.Active), "terminal_user_refused"},
		"another account where any will do":        {caretaker(looked, "bob", broker.Active), ""},
		"the same as an operator":                  {with(caretaker(looked, "bob", broker.Active), func(a *broker.TerminalAccess) { a.Operator.Role = broker.RoleOperator }), "terminal_user_refused"},
		"root where any other will do":             {caretaker(looked, "root", broker.Active), "terminal_root_refused"},
		"root where root will do":                  {caretaker(rooted, "root", broker.Active), ""},
		"root as an operator":                      {with(caretaker(rooted, "root", broker.Active), func(a *broker.TerminalAccess) { a.Operator.Role = broker.RoleOperator }), "terminal_root_refused"},
		"looking after one that is quarantined":    {caretaker(looked, "bob", broker.Quarantined), ""},
		"looking after it where the site says no":  {caretaker(open, "bob", broker.Quarantined), "node_quarantined"},
		"looking after it as root":                 {caretaker(rooted, "root", broker.Quarantined), ""},
		"looking after it as an operator":          {with(caretaker(looked, "bob", broker.Quarantined), func(a *broker.TerminalAccess) { a.Operator.Role = broker.RoleOperator }), "node_quarantined"},
		"a node whose run has stopped":             {with(caretaker(looked, "bob", broker.Draining), stopped), ""},
		"an enrolling node whose run has stopped":  {with(caretaker(looked, "bob", broker.Enrolling), stopped), ""},
		"the same when the run goes on":            {with(caretaker(looked, "bob", broker.Draining), moving("node.decommission/soft_reset")), "node_in_run"},
		"a node that drains":                       {caretaker(looked, "bob", broker.Draining), "node_draining"},
		"a node that enrols":                       {caretaker(looked, "bob", broker.Enrolling), "node_enrolling"},
		"a node that is retired":                   {caretaker(looked, "bob", broker.Retired), "node_retired"},
		"a node that is removed":                   {with(caretaker(looked, "bob", broker.Removing), stopped), "node_removing"},
		"a node that is deleted":                   {with(caretaker(looked, "bob", broker.Deleted), stopped), "node_deleted"},
		"a node that never was":                    {caretaker(looked, "bob", broker.BootstrapIssued), "node_bootstrap_issued"},
		"looked after, and let in to service":      {with(caretaker(looked, "bob", broker.Active), func(a *broker.TerminalAccess) { a.OpenedIn = broker.Quarantined }), "node_active"},
		"in service, and to be looked after since": {with(caretaker(looked, "bob", broker.Quarantined), func(a *broker.TerminalAccess) { a.OpenedIn = broker.Active }), "node_quarantined"},
	} {
		got := ""
		if e := c.a.Refusal(now); e != nil {
			got = e.Code
		}
		if got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
