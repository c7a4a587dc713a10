package broker

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/hostler/hostler/taskcatalog"
)

// Occupant is a tenant's user on a node, as the broker knows it from tasks. An occupant is live
// from the moment the user is requested, because nobody can rule out the user from then on, until
// the user is known to be gone. ID is the id of the allocation that the task named.
type Occupant struct {
	ID       string
	NodeID   string
	Username string
	Tenant   string // empty: not given
	HadRoot  bool   // the user was given root at some time
	Since    time.Time
	EndedAt  time.Time // zero: live
	ForcedBy string    // the run that removed the user for the tenant; empty: none
}

// Live reports whether the user may be on the node.
func (o Occupant) Live() bool { return o.EndedAt.IsZero() }

// Describe names the occupant's allocation, tenant and user for people.
func (o Occupant) Describe() string {
	if o.Tenant == "" {
		return fmt.Sprintf("%s (user %s)", o.ID, o.Username)
	}
	return fmt.Sprintf("%s of tenant %s (user %s)", o.ID, taskcatalog.Clean(o.Tenant, 100), o.Username)
}

// OccupantsLive refuses to turn over a node with live occupants, except the occupants of the
// allocations in ends, which the turnover itself ends. An occupant recorded since is not in ends,
// so the occupant still refuses. Code: allocation_live.
func OccupantsLive(n Node, live []Occupant, ends ...string) error {
	var names []string
	for _, o := range live {
		if !slices.Contains(ends, o.ID) {
			names = append(names, o.Describe())
		}
	}
	if len(names) == 0 {
		return nil
	}
	return Errorf(Refused, "allocation_live",
		"cannot turn over node %s: allocation %s is on the node (end the allocation first; or --force-release with a reason, which takes the node away from the tenant)", n.ID, strings.Join(names, ", "))
}
