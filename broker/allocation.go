package broker

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/hostler/hostler/taskcatalog"
)

// Allocation is a tenant's hold on a node as the broker knows it: the user that was
// provisioned for it. It is live from the moment in which its user was asked for,
// because nobody knows sooner that there is none, until its user is known to be gone.
type Allocation struct {
	ID       string
	NodeID   string
	Username string
	Tenant   string // empty: nobody said
	HadRoot  bool   // its user was given root, at some time
	Since    time.Time
	EndedAt  time.Time // zero: it is live
	ForcedBy string    // the run that ended it for the tenant; empty: none did
}

// Live reports whether its user may be on the node.
func (a Allocation) Live() bool { return a.EndedAt.IsZero() }

// Named is the allocation as people are told of it.
func (a Allocation) Named() string {
	if a.Tenant == "" {
		return fmt.Sprintf("%s (user %s)", a.ID, a.Username)
	}
	return fmt.Sprintf("%s of tenant %s (user %s)", a.ID, taskcatalog.Clean(a.Tenant, 100), a.Username)
}

// AllocationsLive refuses to turn over a node that somebody pays for, but for the
// allocations that it ends: a tenant who has come since is not meant. Code:
// allocation_live.
func AllocationsLive(n Node, live []Allocation, ends ...string) error {
	var names []string
	for _, a := range live {
		if !slices.Contains(ends, a.ID) {
			names = append(names, a.Named())
		}
	}
	if len(names) == 0 {
		return nil
	}
	return Errorf(Refused, "allocation_live", "cannot turn over node %s: allocation %s is on it (end it first; or --force-release with a reason, which ends it for the tenant)", n.ID, strings.Join(names, ", "))
}
