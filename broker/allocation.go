package broker

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/hostler/hostler/taskcatalog"
)

// Allocation is a tenant's hold on a node as the broker knows it: the user provisioned for the
// tenant. An allocation is live from the moment the user is requested, because nobody can rule
// out the user from then on, until the user is known to be gone.
type Allocation struct {
	ID       string
	NodeID   string
	Username string
	Tenant   string // empty: not given
	HadRoot  bool   // the user was given root at some time
	Since    time.Time
	EndedAt  time.Time // zero: live
	ForcedBy string    // the run that ended the allocation for the tenant; empty: none
}

// Live reports whether the allocation's user may be on the node.
func (a Allocation) Live() bool { return a.EndedAt.IsZero() }

// Describe describes the allocation for people.
func (a Allocation) Describe() string {
	if a.Tenant == "" {
		return fmt.Sprintf("%s (user %s)", a.ID, a.Username)
	}
	return fmt.Sprintf("%s of tenant %s (user %s)", a.ID, taskcatalog.Clean(a.Tenant, 100), a.Username)
}

// AllocationsLive refuses to turn over a node with live allocations, except the allocations in
// ends, which the turnover itself ends. An allocation made since is not in ends, so it still
// refuses. Code: allocation_live.
func AllocationsLive(n Node, live []Allocation, ends ...string) error {
	var names []string
	for _, a := range live {
		if !slices.Contains(ends, a.ID) {
			names = append(names, a.Describe())
		}
	}
	if len(names) == 0 {
		return nil
	}
	return Errorf(Refused, "allocation_live",
		"cannot turn over node %s: allocation %s is on the node (end the allocation first; or --force-release with a reason, which takes the node away from the tenant)", n.ID, strings.Join(names, ", "))
}
